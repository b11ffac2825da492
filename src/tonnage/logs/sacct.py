"""Slurm's accounting as a table: ``sacct -P`` with any delimiter and any columns that include the job and its state.

A job has its own row and one for each of its steps. Sizes are in powers of 1024, times have no zone. 128 is subtracted
from an exit status above 127: a printed 72 may have been 200.

sacct escapes nothing: if a name or a comment contains the delimiter, its row has too many cells. They are rejoined so
that every column has a valid value; a row for which there is more than one way to do so remains in doubt.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tonnage.jobs import Amounts
from tonnage.logs.amounts import binary_bytes, clock_seconds, moment, number, scaled, whole
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError
from tonnage.logs.slurm_jobs import WINDOW, Copies, Record, Steps, attempt

__all__ = ["read", "recognises", "records"]

_IDS = ("JobIDRaw", "JobID")
_CATEGORY = "JobName"
_ID = re.compile(r"(\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?)(?:\.([\w+]+))?")
_COUNT = r"[\d.]*[KMGTP]?|UNLIMITED|Partition_Limit"
_CLOCK = r"[\d:.-]*|UNLIMITED|Partition_Limit|INVALID"
_MOMENT = r"\d{4}-\d\d-\d\dT[\d:.+Z-]+|\d*|None|Unknown"
_WORD = r"[\w.@$+\\-]*"
_COLUMNS = {
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
"""The valid values of columns; all others can have any text."""
_LONGEST_HEADER = 10_000  # characters: all columns of sacct together have about 1,500
_MOST_SURPLUS = 64  # cells: a row with more takes more time than it is worth


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the table: a job, or one of its steps."""

    line: int
    text: str
    cells: Mapping[str, str]
    job: str
    """The number of the job."""
    step: str | None
    """The name of the step; None in the row of the job itself."""
    doubt: UnusableError | None = None
    """Why it cannot be used, if its cells could not be assigned to columns."""

    def has_times(self) -> bool:
        """Whether it has dates and times."""
        return any(":" in self.cells.get(name, "") for name in ("Submit", "Start", "End"))


@dataclass(frozen=True, slots=True)
class _Table:
    """The columns of the table and their delimiter."""

    names: tuple[str, ...]
    delimiter: str
    ends_with_delimiter: bool
    """As with ``sacct -p``."""

    @classmethod
    def of(cls, header: str) -> "_Table | None":
        """Parse the header line; the delimiter is whatever separates its words throughout. None if it is no header."""
        if len(header) > _LONGEST_HEADER:
            return None
        header = header.replace('"', "")
        for delimiter in dict.fromkeys(re.findall(r"(?<=[A-Za-z])[^A-Za-z]+(?=[A-Za-z])", header)):
            names = header.split(delimiter)
            last_is_empty = names[-1] == ""
            names = names[:-1] if last_is_empty else names
            # Columns of a fixed width have different numbers of blanks between them.
            if all(names[1:]) and "State" in names and ("JobID" in names or "JobIDRaw" in names):
                return cls(tuple(names), delimiter, last_is_empty)
        return None

    def row(self, line: int, text: str) -> _Row:
        """Return a row with its cells by column."""
        cells = self._cells(text)
        surplus = len(cells) - len(self.names)
        if surplus < 0:
            raise UnusableError(f"expected {len(self.names)} columns", f"{len(cells)} columns")
        if not surplus:
            by_name = dict(zip(self.names, cells, strict=True))
            return _Row(line, text, by_name, *_id(by_name))
        doubt = UnusableError("a name or a comment contains the delimiter: the columns are ambiguous", text[:200])
        by_name = self._rejoin(cells, surplus) if surplus <= _MOST_SURPLUS else {}
        if not by_name.keys() & {*_IDS}:
            raise doubt
        certain = all(name in by_name for name in self.names if name in _COLUMNS or name == _CATEGORY)
        return _Row(line, text, by_name, *_id(by_name), None if certain else doubt)

    def _cells(self, line: str) -> list[str]:
        if self.ends_with_delimiter:
            line = line.removesuffix(self.delimiter)
        if '"' not in line or self.delimiter not in {",", "\t", ";"}:
            return line.split(self.delimiter)
        try:
            return next(csv.reader([line], delimiter=self.delimiter), [])
        except csv.Error as problem:
            raise UnusableError("the row is not valid CSV", str(problem)) from None

    def _rejoin(self, cells: list[str], surplus: int) -> dict[str, str]:
        """Rejoin surplus cells so that each column has a valid value; leave out columns that are then ambiguous."""
        columns = len(self.names)
        # Where each column can begin, seen from the left; then, from the right, where it can end.
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
        return dict(reversed(row.items()))

    def _ends(self, column: int, begin: int, cells: list[str], surplus: int) -> list[int]:
        """Return where a column can end that begins at this cell."""
        pattern = _COLUMNS.get(self.names[column])
        ends = range(begin + 1, column + 1 + surplus + 1)
        if pattern is None:
            return list(ends)
        return [end for end in ends if pattern.fullmatch(self.delimiter.join(cells[begin:end]))]


def _id(row: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the number of the job and the name of the step, or None for the job itself."""
    text = (row.get("JobIDRaw") or row.get("JobID", "")).strip()
    found = _ID.fullmatch(text)
    if not found:
        raise UnusableError("it has no JobID", text)
    return found[1], found[2]


_EXIT = re.compile(r"(\d+):(\d+)")
_NOTHING = frozenset(("", "None", "Unknown", "UNLIMITED", "Partition_Limit", "INVALID", "None assigned", "(null)"))
# Columns that have a typed field, or that are filled only for steps.
_TYPED = frozenset(
    name
    for names in (
        "JobID JobIDRaw JobName User NodeList SubmitLine Cluster Restarts State Submit Start End Elapsed ElapsedRaw",
        "Timelimit TimelimitRaw AllocCPUS NCPUS ReqCPUS ReqMem TotalCPU MaxRSS NTasks TRESUsageInMax TRESUsageInTot",
        "MaxDiskRead MaxDiskWrite",
    )
    for name in names.split()
)


def recognises(head: str) -> bool:
    """Whether the first line names columns of sacct: the job, its state and at least one more."""
    table = _Table.of(head.split("\n", 1)[0].rstrip("\r"))
    return table is not None and len({*_COLUMNS, _CATEGORY}.intersection(table.names) - {*_IDS, "State"}) > 0


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each job that ran; the rows of a job are expected close to each other."""
    lines = log.lines()
    first = next(lines, "")
    table = _Table.of(first)
    if table is None:
        message = "is not the output of sacct: expected a first line with the columns JobID and State"
        raise log.error(message, hint="run sacct with -P (or --parsable2), and without --noheader")
    if "MaxRSS" in table.names and not {"NTasks", "TRESUsageInTot"}.intersection(table.names):
        yield Assumed("one task in each step of a job (no column NTasks)")
    assumed, jobs = False, _OpenJobs(hints)
    for line, text in enumerate(lines, start=2):
        if not text.strip() or text == first:  # concatenated outputs repeat the header
            continue
        try:
            row = table.row(line, text)
        except UnusableError as problem:
            yield problem.at(line)
            continue
        if not assumed and row.has_times():
            assumed = True
            yield Assumed(f"times in the time zone {hints.zone}")
        yield from jobs.add(row)
    yield from jobs.rest()


def records(log: Log, hints: Hints) -> Iterator[Record]:
    """Yield the record of every usable row, jobs and steps, in the order of the table."""
    lines = log.lines()
    table = _Table.of(next(lines, ""))
    if table is None:
        return
    for line, text in enumerate(lines, start=2):
        with suppress(UnusableError):
            yield _record(table.row(line, text), hints)


class _OpenJobs:
    """The jobs for which more rows may follow."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._copies = Copies()
        self._has_job_rows = False
        self._jobs: dict[tuple[str, str], _Job] = {}

    def add(self, row: _Row) -> Iterator[Entry]:
        """Add a row, and yield the jobs for which no more rows are expected."""
        self._has_job_rows = self._has_job_rows or row.step is None
        key = row.cells.get("Cluster", ""), row.job
        job = self._jobs.get(key)
        if job is not None and job.has_row and row.step is None:  # it was requeued: this is its next copy
            yield self._finish(key)
            job = None
        if job is None:
            if len(self._jobs) >= WINDOW:
                yield self._finish(next(iter(self._jobs)))
            job = self._jobs[key] = _Job(row.line)
        job.add(row, self._hints)

    def rest(self) -> Iterator[Entry]:
        """Yield the jobs that are still open."""
        while self._jobs:
            yield self._finish(next(iter(self._jobs)))

    def _finish(self, key: tuple[str, str]) -> Entry:
        job = self._jobs.pop(key)
        if not job.has_row and self._has_job_rows:
            return Skipped(job.line, "steps of a job whose own row is too far away or missing", key[1])
        return job.finish(self._copies, self._hints.label)


class _Job:
    """One job whose rows are being collected."""

    def __init__(self, line: int) -> None:
        self.has_row = False
        self.line = line
        self._record: Record | None = None
        self._steps = Steps()
        self._problem: Skipped | None = None

    def add(self, row: _Row, hints: Hints) -> None:
        """Add a row; if one cannot be used, neither can the job, because the others are incomplete."""
        if row.step is None:
            self.has_row, self.line = True, row.line
        try:
            if row.doubt is not None:
                raise row.doubt
            record = _record(row, hints)
        except UnusableError as problem:
            self._problem = self._problem or problem.at(row.line)
            return
        if row.step is None:
            self._record = record
        else:
            self._steps.add(record)

    def finish(self, copies: Copies, label: str | None) -> Entry:
        """Return the attempt, or why it cannot be used."""
        if self._problem is not None:
            return self._problem
        try:
            return attempt(self._record, self._steps, copies, label)
        except UnusableError as problem:
            return problem.at(self.line)


def _record(row: _Row, hints: Hints) -> Record:
    cell = _Cells(row.cells)
    state, _, killed_by = cell["State"].partition(" by ")
    status, signal = _exit(cell["ExitCode"])
    started = cell.moment("Start", hints)
    return Record(
        id=row.job,
        step=row.step,
        state=state.split(" ")[0].removesuffix("+"),
        killed_by=killed_by,
        exit_status=status,
        signal=signal,
        submitted=cell.moment("Submit", hints),
        started=started,
        ended=cell.moment("End", hints),
        never_started=started is None and ("Start" in row.cells or row.cells.get("NodeList") == "None assigned"),
        requested=_requested(cell),
        allocated=_allocated(cell),
        used=_used(cell),
        disk_read=cell.bytes("MaxDiskRead"),
        disk_written=cell.bytes("MaxDiskWrite"),
        cluster=cell["Cluster"],
        task=(cell["JobID"] or row.job).partition(".")[0],
        name=row.cells.get("JobName") or None,
        user=cell["User"] or None,
        host=cell["NodeList"] or None,
        command=row.cells.get("SubmitLine") or None,
        restarts=whole(cell["Restarts"], "Restarts"),
        row=row.text,
        raw={name: value for name, value in row.cells.items() if name not in _TYPED and value not in _NOTHING},
    )


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
    """Return what it used; 0 bytes mean that nothing was sampled."""
    memory: float | None = binary_bytes(cell.tres("TRESUsageInTot").get("mem", ""), "TRESUsageInTot")
    largest_task = cell.bytes("MaxRSS")
    if not memory and largest_task:
        memory = scaled(str(largest_task), "MaxRSS", cell.count("NTasks") or 1)
    return Amounts.of(
        memory=memory or None,
        wall_time=cell.seconds("ElapsedRaw", "Elapsed"),
        cpu_time=clock_seconds(cell["TotalCPU"], "TotalCPU"),
    )


def _required_memory(cell: "_Cells") -> float | None:
    """Return ReqMem; before Slurm 21.08 it is per node (``4Gn``) or per core (``4Gc``)."""
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
    """The cells of a row: unknown and missing ones are empty."""

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
        """Return a duration from a column with a plain number, or else from one in clock format."""
        count = scaled(self[raw], raw, unit)
        return clock_seconds(self[formatted], formatted) if count is None else count

    def moment(self, name: str, hints: Hints) -> float | None:
        """Return a timestamp; with SLURM_TIME_FORMAT=%s it is a number of seconds."""
        text = self[name]
        return number(text, name) if text.isdigit() else moment(text, name, hints.zone)

    def tres(self, name: str) -> dict[str, str]:
        """Parse trackable resources such as ``cpu=1,mem=200M``."""
        return dict(item.partition("=")[::2] for item in self[name].split(","))
