"""Slurm's accounting as a table: ``sacct -P`` with any delimiter and any columns that name the job and its state.

A job has a row of its own and one for each of its steps. sacct escapes nothing: where a name or a comment holds the
delimiter, its row has too many cells, and they are put together again so that every column holds what it can hold.
Sizes are in powers of 1024, times have no zone. An exit status above 127 is printed less 128: 72 may have been 200.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tonnage.jobs import Amounts
from tonnage.logs.amounts import binary_bytes, clock_seconds, moment, number, scaled, whole
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError
from tonnage.logs.slurm import WINDOW, Copies, Record, Steps, attempt

__all__ = ["read", "recognises"]

_IDS = ("JobIDRaw", "JobID")
_ID = re.compile(r"(\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?)(?:\.([\w+]+))?")
_EXIT = re.compile(r"(\d+):(\d+)")
_COUNT = r"[\d.]*[KMGTP]?|UNLIMITED|Partition_Limit"
_CLOCK = r"[\d:.-]*|UNLIMITED|Partition_Limit|INVALID"
_MOMENT = r"\d{4}-\d\d-\d\dT[\d:.+Z-]+|\d*|None|Unknown"
_WORD = r"[\w.@$+\\-]*"
# What columns can hold; all others hold any text.
_PATTERNS = {
    name: re.compile(pattern)
    for pattern, names in {
        _ID.pattern: "JobID JobIDRaw",
        r"[A-Z_]+\+?(?: by \w+)?": "State",
        r"(?:\d+:\d+)?": "ExitCode DerivedExitCode",
        _MOMENT: "Submit Eligible Start End",
        _CLOCK: "Elapsed Timelimit TotalCPU UserCPU SystemCPU CPUTime Suspended Planned Reserved AveCPU MinCPU",
        _COUNT: "ElapsedRaw TimelimitRaw CPUTimeRAW AllocCPUS ReqCPUS NCPUS NNodes AllocNodes NTasks Restarts UID"
        " GID Priority MaxRSS AveRSS MaxVMSize AveVMSize MaxPages AvePages MaxDiskRead AveDiskRead MaxDiskWrite"
        " AveDiskWrite",
        r"[\d.]*[KMGTP]?[nc]?": "ReqMem",
        r"(?:[\w/:-]+=[\w.:-]*(?:,[\w/:-]+=[\w.:-]*)*)?": "AllocTRES ReqTRES TRESUsageInAve TRESUsageInMax"
        " TRESUsageInMin TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMin TRESUsageOutTot",
        _WORD: "User Account Partition QOS Cluster Group",
        r"None assigned|[\w.,\[\]-]*": "NodeList",
    }.items()
    for name in names.split()
}
_CATEGORY = "JobName"
_MOST_SURPLUS = 64  # cells: a row with more of them costs more time than it is worth
_NOTHING = frozenset(("", "None", "Unknown", "UNLIMITED", "Partition_Limit", "INVALID", "None assigned", "(null)"))
# What a typed attribute holds, or what stands in the rows of steps only.
_TYPED = frozenset(
    [
        "JobID",
        "JobIDRaw",
        "JobName",
        "User",
        "State",
        "Submit",
        "Start",
        "End",
        "Elapsed",
        "ElapsedRaw",
        "Timelimit",
        "TimelimitRaw",
        "AllocCPUS",
        "NCPUS",
        "ReqCPUS",
        "ReqMem",
        "TotalCPU",
        "MaxRSS",
        "NTasks",
        "TRESUsageInMax",
        "TRESUsageInTot",
        "MaxDiskRead",
        "MaxDiskWrite",
        "NodeList",
        "SubmitLine",
        "Cluster",
        "Restarts",
    ]
)


def recognises(head: str, path: object) -> bool:  # noqa: ARG001
    """Whether the first line names columns of sacct: the job, its state and one more."""
    table = _table(head.split("\n", 1)[0].rstrip("\r"))
    return table is not None and len({*_PATTERNS, _CATEGORY}.intersection(table.names) - {*_IDS, "State"}) > 0


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each job that ran; its rows follow each other, or nearly so."""
    lines = log.lines()
    first = next(lines, "")
    table = _table(first)
    if table is None:
        message = "is not the output of sacct: expected a first line with the columns JobID and State"
        raise log.error(message, hint="run sacct with -P (or --parsable2), and without --noheader")
    if "MaxRSS" in table.names and not {"NTasks", "TRESUsageInTot"}.intersection(table.names):
        yield Assumed("one task in each step of a job (no column NTasks)")
    told, copies, open_jobs = False, Copies(), dict[tuple[str, str], _Job]()
    for line, text in enumerate(lines, start=2):
        if not text.strip() or text == first:  # outputs put together repeat the header
            continue
        try:
            row, doubt = table.row(text)
            id_, step = _id(row)
        except UnusableError as problem:
            yield problem.at(line)
            continue
        if not told and any(":" in row.get(name, "") for name in ("Submit", "Start", "End")):
            told = True
            yield Assumed(f"times in the zone {hints.zone}")
        key = row.get("Cluster", ""), id_
        job = open_jobs.get(key)
        if job is not None and job.has_row and step is None:  # it was requeued, and this is its next copy
            yield open_jobs.pop(key).finish(copies, hints)
            job = None
        if job is None:
            if len(open_jobs) >= WINDOW:
                yield open_jobs.pop(next(iter(open_jobs))).finish(copies, hints)
            job = open_jobs[key] = _Job(line)
        job.add(line, step, doubt or _record(row, id_, step, text, hints))
    for job in open_jobs.values():
        yield job.finish(copies, hints)


class _Job:
    """A job whose rows are still coming."""

    def __init__(self, line: int) -> None:
        self.has_row = False
        self._line = line
        self._record: Record | None = None
        self._steps = Steps()
        self._problem: Skipped | None = None

    def add(self, row: Mapping[str, str], doubt: UnusableError | None, line: int, hints: Hints) -> None:
        """Add a row; where one cannot be used, the job cannot: what the others say is not the whole."""
        id_, step = _id(row)
        if step is None:
            self.has_row, self._line = True, line
        try:
            if doubt is not None:
                raise doubt
            record = _record(row, id_, step, hints)
        except UnusableError as problem:
            self._problem = self._problem or problem.at(line)
            return
        if step is None:
            self._record = record
        else:
            self._steps.add(record)

    def finish(self, copies: Copies, hints: Hints) -> Entry:
        """Return the attempt."""
        if self._problem is not None:
            return self._problem
        try:
            return attempt(self._record, self._steps, copies, hints.label)
        except UnusableError as problem:
            return problem.at(self._line)


@dataclass(frozen=True, slots=True)
class _Table:
    """The columns, and what stands between them."""

    names: tuple[str, ...]
    delimiter: str
    ends_with_delimiter: bool
    """As with ``sacct -p``."""

    def row(self, line: str) -> tuple[dict[str, str], UnusableError | None]:
        """Return a row's cells by column, and why it cannot be used if its cells are in doubt."""
        cells = self._cells(line)
        surplus = len(cells) - len(self.names)
        if not surplus:
            return dict(zip(self.names, cells, strict=True)), None
        if surplus < 0:
            raise UnusableError(f"{len(self.names)} columns were expected", f"{len(cells)} columns")
        doubt = UnusableError("the delimiter stands in a name or a comment, and the columns cannot be told apart", line)
        row = self._rejoin(cells, surplus) if surplus <= _MOST_SURPLUS else {}
        if not row.keys() & {*_IDS}:
            raise doubt
        certain = all(name in row for name in self.names if name in _PATTERNS or name == _CATEGORY)
        return row, None if certain else doubt

    def _cells(self, line: str) -> list[str]:
        if self.ends_with_delimiter:
            line = line.removesuffix(self.delimiter)
        if '"' not in line or self.delimiter not in {",", "\t", ";"}:
            return line.split(self.delimiter)
        try:
            return next(csv.reader([line], delimiter=self.delimiter), [])
        except csv.Error as problem:
            raise UnusableError("the row is not a row of CSV", str(problem)) from None

    def _rejoin(self, cells: list[str], surplus: int) -> dict[str, str]:
        """Put too many cells together so that each column holds what it can; leave out what is then not certain."""
        columns = len(self.names)
        # The places where a column may begin, seen from the left; then, from the right, where it may end.
        begins: list[set[int]] = [{0}]
        for column in range(columns):
            begins.append({end for begin in begins[-1] for end in self._ends(column, begin, cells, surplus)})
        row: dict[str, str] = {}
        after = begins[columns] & {len(cells)}
        for column in reversed(range(columns)):
            spans = [
                (begin, end)
                for begin in begins[column]
                for end in self._ends(column, begin, cells, surplus)
                if end in after
            ]
            if len(spans) == 1:
                row[self.names[column]] = self.delimiter.join(cells[slice(*spans[0])])
            after = {begin for begin, _ in spans}
        return row

    def _ends(self, column: int, begin: int, cells: list[str], surplus: int) -> list[int]:
        """Return where the cells of a column may end that begins at one of them."""
        pattern = _PATTERNS.get(self.names[column])
        ends = range(begin + 1, column + 1 + surplus + 1)
        if pattern is None:
            return list(ends)
        return [end for end in ends if pattern.fullmatch(self.delimiter.join(cells[begin:end]))]


def _table(header: str) -> _Table | None:
    """Return the columns that a first line names: what stands between the same words each time is the delimiter."""
    header = header.replace('"', "")
    for delimiter in dict.fromkeys(re.findall(r"(?<=[A-Za-z])[^A-Za-z]+(?=[A-Za-z])", header)):
        names = header.split(delimiter)
        last_is_empty = names[-1] == ""
        names = names[:-1] if last_is_empty else names
        # Columns of a fixed width have different numbers of blanks between them.
        if all(names[1:]) and "State" in names and ("JobID" in names or "JobIDRaw" in names):
            return _Table(tuple(names), delimiter, last_is_empty)
    return None


def _id(row: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the number of the job and the name of the step, if it is one."""
    text = (row.get("JobIDRaw") or row.get("JobID", "")).strip()
    found = _ID.fullmatch(text)
    if not found:
        raise UnusableError("it has no JobID", text)
    return found[1], found[2]


def _record(row: Mapping[str, str], id_: str, step: str | None, hints: Hints) -> Record:
    cell = _Cells(row)
    state, _, killed_by = cell["State"].partition(" by ")
    status, signal = _exit(cell["ExitCode"])
    started = cell.moment("Start", hints)
    return Record(
        id=id_,
        step=step,
        state=state.split(" ")[0].removesuffix("+"),
        killed_by=killed_by,
        exit_status=status,
        signal=signal,
        submitted=cell.moment("Submit", hints),
        started=started,
        ended=cell.moment("End", hints),
        never_started=started is None and ("Start" in row or row.get("NodeList") == "None assigned"),
        requested=_requested(cell),
        allocated=_allocated(cell),
        used=_used(cell),
        disk_read=cell.bytes("MaxDiskRead"),
        disk_written=cell.bytes("MaxDiskWrite"),
        cluster=cell["Cluster"],
        task=(cell["JobID"] or id_).partition(".")[0],
        name=row.get("JobName") or None,
        user=cell["User"] or None,
        host=cell["NodeList"] or None,
        command=row.get("SubmitLine") or None,
        restarts=whole(cell["Restarts"], "Restarts"),
        row=_row_text(row),
        raw={name: value for name, value in row.items() if name not in _TYPED and value not in _NOTHING},
    )


def _row_text(row: Mapping[str, str]) -> str:
    return "|".join(row.values())


def _requested(cell: "_Cells") -> Amounts:
    tres = cell.tres("ReqTRES")
    return Amounts.of(
        cores=cell.count("ReqCPUS") or number(tres.get("cpu", ""), "ReqTRES") or None,
        memory=binary_bytes(tres.get("mem", ""), "ReqTRES", "M") or _required_memory(cell),
        wall_time=cell.seconds("TimelimitRaw", "Timelimit", 60),
    )


def _allocated(cell: "_Cells") -> Amounts:
    tres = cell.tres("AllocTRES")
    return Amounts.of(
        cores=cell.count("AllocCPUS") or cell.count("NCPUS") or number(tres.get("cpu", ""), "AllocTRES") or None,
        memory=binary_bytes(tres.get("mem", ""), "AllocTRES", "M") or None,
    )


def _used(cell: "_Cells") -> Amounts:
    """Return what it used; 0 bytes stand there where nothing was seen."""
    memory = binary_bytes(cell.tres("TRESUsageInTot").get("mem", ""), "TRESUsageInTot")
    largest_task = cell.bytes("MaxRSS")
    if not memory and largest_task:
        memory = scaled(str(largest_task), "MaxRSS", cell.count("NTasks") or 1)
    return Amounts.of(
        memory=memory or None,
        wall_time=cell.seconds("ElapsedRaw", "Elapsed"),
        cpu_time=clock_seconds(cell["TotalCPU"], "TotalCPU"),
    )


def _required_memory(cell: "_Cells") -> int | None:
    """Return ReqMem; before Slurm 21.08 it is that of a node (``4Gn``) or a core (``4Gc``)."""
    text = cell["ReqMem"]
    memory = binary_bytes(text.rstrip("nc"), "ReqMem", "M")
    if not memory or text[-1] not in "nc":
        return memory or None
    if text[-1] == "n":
        times = cell.count("NNodes") or cell.count("AllocNodes")
    else:
        times = cell.count("ReqCPUS") or cell.count("AllocCPUS") or cell.count("NCPUS")
    return scaled(str(memory), "ReqMem", times) if times else None


def _exit(text: str) -> tuple[int | None, int | None]:
    found = _EXIT.fullmatch(text)
    if text and not found:
        raise UnusableError("ExitCode is not a status and a signal", text)
    return (whole(found[1], "ExitCode"), whole(found[2], "ExitCode")) if found else (None, None)


class _Cells:
    """The cells of a row: what is unknown or not there is empty."""

    def __init__(self, row: Mapping[str, str]) -> None:
        self._row = row

    def __getitem__(self, name: str) -> str:
        cell = self._row.get(name, "").strip()
        return "" if cell in _NOTHING else cell

    def count(self, name: str) -> float | None:
        return number(self[name], name)

    def bytes(self, name: str) -> int | None:
        return binary_bytes(self[name], name)

    def seconds(self, raw: str, formatted: str, unit: float = 1) -> float | None:
        """Return a time from a column that counts it, else from one that writes it as on a clock."""
        count = self.count(raw)
        return clock_seconds(self[formatted], formatted) if count is None else count * unit

    def moment(self, name: str, hints: Hints) -> float | None:
        """Return a moment; SLURM_TIME_FORMAT=%s makes it a number of seconds."""
        text = self[name]
        return number(text, name) if text.isdigit() else moment(text, name, hints.zone)

    def tres(self, name: str) -> dict[str, str]:
        """Return trackable resources by their names: ``cpu=1,mem=200M``."""
        return dict(item.partition("=")[::2] for item in self[name].split(","))
