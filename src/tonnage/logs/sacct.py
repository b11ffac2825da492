"""Slurm's accounting as a table: ``sacct -P`` with any delimiter and any columns that name the job and its state.

A job has a row of its own and one for each of its steps. Sizes are in powers of 1024, times have no zone. An exit
status above 127 is printed less 128: where 72 stands, it may have been 200.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from tonnage.jobs import Amounts
from tonnage.logs.amounts import binary_bytes, clock_seconds, moment, number, scaled, whole
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError
from tonnage.logs.sacct_rows import CATEGORY, COLUMNS, IDS, Row, Table
from tonnage.logs.slurm_jobs import WINDOW, Copies, Record, Steps, attempt

__all__ = ["read", "recognises", "records"]

_EXIT = re.compile(r"(\d+):(\d+)")
_NOTHING = frozenset(("", "None", "Unknown", "UNLIMITED", "Partition_Limit", "INVALID", "None assigned", "(null)"))
# What a typed attribute holds, or what stands in the rows of steps only.
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
    """Whether the first line names columns of sacct: the job, its state and one more."""
    table = Table.of(head.split("\n", 1)[0].rstrip("\r"))
    return table is not None and len({*COLUMNS, CATEGORY}.intersection(table.names) - {*IDS, "State"}) > 0


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each job that ran; its rows follow each other, or nearly so."""
    lines = log.lines()
    first = next(lines, "")
    table = Table.of(first)
    if table is None:
        message = "is not the output of sacct: expected a first line with the columns JobID and State"
        raise log.error(message, hint="run sacct with -P (or --parsable2), and without --noheader")
    if "MaxRSS" in table.names and not {"NTasks", "TRESUsageInTot"}.intersection(table.names):
        yield Assumed("one task in each step of a job (no column NTasks)")
    told, jobs = False, _OpenJobs(hints)
    for line, text in enumerate(lines, start=2):
        if not text.strip() or text == first:  # outputs put together repeat the header
            continue
        try:
            row = table.row(line, text)
        except UnusableError as problem:
            yield problem.at(line)
            continue
        if not told and row.has_times():
            told = True
            yield Assumed(f"times in the zone {hints.zone}")
        yield from jobs.add(row)
    yield from jobs.rest()


def records(log: Log, hints: Hints) -> Iterator[Record]:
    """Yield every row of a table whose columns hold no delimiters, jobs and steps as they come."""
    lines = log.lines()
    table = Table.of(next(lines, ""))
    if table is None:
        return
    for line, text in enumerate(lines, start=2):
        with suppress(UnusableError):
            yield _record(table.row(line, text), hints)


class _OpenJobs:
    """The jobs of which more rows may come."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._copies = Copies()
        self._has_job_rows = False
        self._jobs: dict[tuple[str, str], _Job] = {}

    def add(self, row: Row) -> Iterator[Entry]:
        """Add a row, and yield the jobs of which no more are expected."""
        self._has_job_rows = self._has_job_rows or row.step is None
        key = row.cells.get("Cluster", ""), row.job
        job = self._jobs.get(key)
        if job is not None and job.has_row and row.step is None:  # it was requeued, and this is its next copy
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
            return Skipped(job.line, "steps of a job whose own row is far away or missing", key[1])
        return job.finish(self._copies, self._hints.label)


class _Job:
    """One job, whose rows are still coming."""

    def __init__(self, line: int) -> None:
        self.has_row = False
        self.line = line
        self._record: Record | None = None
        self._steps = Steps()
        self._problem: Skipped | None = None

    def add(self, row: Row, hints: Hints) -> None:
        """Add a row; where one cannot be used, the job cannot: the others do not say the whole."""
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
        """Return the attempt that it was."""
        if self._problem is not None:
            return self._problem
        try:
            return attempt(self._record, self._steps, copies, label)
        except UnusableError as problem:
            return problem.at(self.line)


def _record(row: Row, hints: Hints) -> Record:
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
    """Return what it used; 0 bytes stand there where nothing was seen."""
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
        count = scaled(self[raw], raw, unit)
        return clock_seconds(self[formatted], formatted) if count is None else count

    def moment(self, name: str, hints: Hints) -> float | None:
        """Return a moment; SLURM_TIME_FORMAT=%s makes it a number of seconds."""
        text = self[name]
        return number(text, name) if text.isdigit() else moment(text, name, hints.zone)

    def tres(self, name: str) -> dict[str, str]:
        """Return trackable resources by their names: ``cpu=1,mem=200M``."""
        return dict(item.partition("=")[::2] for item in self[name].split(","))
