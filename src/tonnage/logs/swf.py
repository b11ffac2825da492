"""Standard Workload Format: the logs of the Parallel Workloads Archive (and of many simulators).

A job is a line of 18 numbers, where -1 means unknown; comments begin with a semicolon. CPU time and memory are averages
over a job's processors. Timestamps are relative: without a UnixStartTime in the comments they stay in `raw`. A job that
was suspended has lines for its parts (status 2 to 4) beside the one for the whole job, which counts. Requested times
are taken as run times, which is what nearly all logs mean.
"""

from collections.abc import Iterator, Mapping, Sequence

from tonnage.jobs import NOTHING_KNOWN, Amounts, Attempt, Outcome
from tonnage.logs.amounts import number, scaled
from tonnage.logs.log import Assumed, Entry, Hints, Log, UnusableError

__all__ = ["COLUMNS", "header", "numbers", "read", "recognises", "refuse_what_never_ran", "rows"]

COLUMNS = (
    "job",
    "submit",
    "wait",
    "run",
    "processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
_PLACES = {name: place for place, name in enumerate(COLUMNS)}
_RAW = ("group", "queue", "partition", "preceding job", "think time")
_UNKNOWN = ("-1", "-1.0", "-1.00")
_CANCELLED = 5
_OUTCOMES = {0: Outcome.FAILED, 1: Outcome.DONE, _CANCELLED: Outcome.CANCELLED}
_PARTS = (2, 3, 4)
_KIB = 1024
_START = "UnixStartTime"


def recognises(head: str) -> bool:
    """Whether the first line that is not a comment has 18 numbers."""
    for line in head.split("\n"):
        cells = line.split()
        if cells and not cells[0].startswith(";"):
            return _are_numbers(cells)
    return False


def _are_numbers(cells: Sequence[str]) -> bool:
    try:
        return len([float(cell) for cell in cells]) == len(COLUMNS)
    except ValueError:
        return False


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each job that ran."""
    label = hints.label or log.stem
    begin: float | None = None
    assumed = False
    for line, cells in rows(log):
        if isinstance(cells, str):
            begin = _start_time(cells) or begin
            continue
        try:
            attempt = _attempt(cells, label, begin)
        except UnusableError as problem:
            yield problem.at(line)
            continue
        if not assumed and (attempt.used.memory is not None or attempt.requested.memory is not None):
            assumed = True
            yield Assumed("memory in KiB per processor")
        yield attempt


def rows(log: Log) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the lines that are not blank with their numbers: either the cells of a job, or a comment."""
    sure = False
    for line, text in enumerate(log.lines(), start=1):
        cells = text.split()
        if not cells:
            continue
        comment = cells[0].startswith(";")
        if not sure and not comment and not _are_numbers(cells):
            raise log.error(f"is not an SWF log: expected {len(COLUMNS)} numbers", line)
        sure = True
        yield line, text if comment else cells
    if not sure:
        raise log.error("is not an SWF log: it is empty")


def header(comment: str) -> tuple[str, float | None]:
    """Parse a header comment such as ``; MaxNodes: 100`` into its name and, if it has one, its number."""
    words = comment.lstrip("; \t").split()
    if not words or not words[0].endswith(":"):
        return "", None
    try:
        return words[0][:-1], number(words[1], words[0]) if len(words) > 1 else None
    except UnusableError:
        return words[0][:-1], None


def numbers(cells: Sequence[str], names: Sequence[str] = COLUMNS) -> dict[str, float | None]:
    """Return the numbers of a job in these columns; None if unknown."""
    if len(cells) != len(COLUMNS):
        raise UnusableError(f"expected {len(COLUMNS)} columns", f"{len(cells)} columns")
    return {name: number(_known(cells[_PLACES[name]]), name) for name in names}


def refuse_what_never_ran(row: Mapping[str, float | None], job: str) -> None:
    """Raise UnusableError for a line that is not a job that ran: part of a job, or a job cancelled before it ran."""
    status = row["status"]
    if status in _PARTS:
        raise UnusableError("part of a job that has its own line", job, healthy=True)
    if status == _CANCELLED and not row["run"]:
        raise UnusableError("it never ran", job, healthy=True)


def _known(cell: str) -> str:
    return "" if cell in _UNKNOWN else cell


def _start_time(comment: str) -> float | None:
    """Return the start time of a log if this comment gives it; it is 0 in logs without one."""
    name, value = header(comment)
    return value if name == _START else None


def _attempt(cells: Sequence[str], label: str, begin: float | None) -> Attempt:
    row = numbers(cells)
    texts = {name: _known(cell) for name, cell in zip(COLUMNS, cells, strict=True)}
    processors, asked = row["processors"] or None, row["requested processors"] or None
    used = Amounts.of(
        memory=_sum_of(texts, "used memory", processors, _KIB) or None,  # every job uses some
        wall_time=row["run"],
        cpu_time=_sum_of(texts, "average CPU time", processors),
    )
    refuse_what_never_ran(row, cells[0])
    status = row["status"]
    if used == NOTHING_KNOWN:
        raise UnusableError("nothing is known about its run", cells[0])
    submitted = _later(begin, row["submit"])
    started = _later(submitted, row["wait"])
    unplaced = ("submit", "wait") if begin is None else ()
    return Attempt(
        native_id=f"swf:{label}:{begin or 0:.0f}:{texts['job']}" if texts["job"] else None,
        row=" ".join(cells),
        run=label,
        task=texts["job"] or None,
        category=f"executable {texts['executable']}" if texts["executable"] else None,
        user=f"user {texts['user']}" if texts["user"] else None,
        submitted=submitted,
        started=started,
        ended=_later(started, row["run"]),
        outcome=None if status is None else _OUTCOMES.get(int(status)),
        requested=Amounts.of(
            cores=asked,
            memory=_sum_of(texts, "requested memory", asked or processors, _KIB) or None,
            wall_time=row["requested time"],
        ),
        allocated=Amounts.of(cores=processors),
        used=used,
        raw={name: texts[name] for name in (*_RAW, *unplaced) if texts[name]},
    )


def _sum_of(texts: Mapping[str, str], name: str, processors: float | None, unit: int = 1) -> float | None:
    """Return the sum over all processors; the log has only their average."""
    return None if processors is None else scaled(texts[name], name, processors * unit)


def _later(moment: float | None, seconds: float | None) -> float | None:
    return None if moment is None or seconds is None else moment + seconds
