"""Nextflow execution traces (trace.txt), raw or formatted, separated by tabs or commas.

Raw traces hold bytes, milliseconds and milliseconds since 1970; formatted ones ``152.8 MB`` (in powers of 1024),
``1m 30s`` and dates without a zone. Columns are found by name; any subset that includes a status is accepted.
"""

import re
from collections.abc import Iterator, Mapping

from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.amounts import binary_bytes, is_unknown, moment, number, whole
from tonnage.logs.csv_rows import rows
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError

__all__ = ["read", "recognises"]

_OWN = {"task_id", "hash", "name", "status"}
_OUTCOMES = {"COMPLETED": Outcome.DONE, "FAILED": Outcome.FAILED, "ABORTED": Outcome.CANCELLED}
_TIME = re.compile(r"(?:[0-9.]+\s*(?:ms|[dhms])\s*)+")
_PART = re.compile(r"([0-9.]+)\s*(ms|[dhms])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Columns that have a typed field, or that say nothing about other runs.
_TYPED = frozenset(
    [
        "task_id",
        "native_id",
        "process",
        "name",
        "status",
        "exit",
        "cpus",
        "memory",
        "time",
        "disk",
        "attempt",
        "submit",
        "start",
        "complete",
        "realtime",
        "%cpu",
        "peak_rss",
        "hostname",
    ]
)
_QUARTER = 900  # seconds: zones differ by a multiple of it, so it does not matter which one was assumed
_KILLED = 137  # by SIGKILL: usually sent by the kernel at a memory limit


def recognises(head: str) -> bool:
    """Whether the first line names a trace's columns."""
    return set(_cells(head.split("\n", 1)[0].rstrip("\r"))) >= _OWN


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split("\t" if "\t" in line else ",")]


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each task that ran."""
    lines = log.lines()
    first = next(lines, "")
    header = _cells(first)
    missing = _OWN - set(header)
    if missing:
        raise log.error(f"is not a Nextflow trace: no column {', '.join(sorted(missing))}", 1)
    assumed = False
    label = hints.label or log.stem
    separator = "\t" if "\t" in first else ","
    for line, cells in rows(lines, separator, first=2, quoted=separator == ","):  # Nextflow itself quotes nothing
        if isinstance(cells, UnusableError):
            yield cells.at(line)
            continue
        if len(cells) != len(header):
            yield Skipped(line, f"expected {len(header)} columns", f"{len(cells)} columns")
            continue
        row = {name: "" if is_unknown(cell) else cell.strip() for name, cell in zip(header, cells, strict=True)}
        if not assumed and ":" in row.get("submit", ""):
            assumed = True
            yield Assumed(f"times in the time zone {hints.zone}")
        try:
            yield _attempt(row, hints, label)
        except UnusableError as problem:
            yield problem.at(line)


def _attempt(row: Mapping[str, str], hints: Hints, label: str) -> Attempt:
    status = row["status"]
    if status == "CACHED":
        raise UnusableError("cached: it did not run", healthy=True)
    if status not in _OUTCOMES:
        raise UnusableError("it has not finished", status, healthy=True)
    name = row["name"]
    exit_status = whole(row.get("exit"), "exit")
    native = row.get("native_id", "")
    submitted, started = (_moment(row.get(name, ""), name, hints) for name in ("submit", "start"))
    begin = submitted if started is None else started
    ended = _moment(row.get("complete", ""), "complete", hints)
    duration = _seconds(row.get("duration", ""), "duration")
    if ended is None and submitted is not None and duration is not None:
        ended = submitted + duration
    used = _used(row)
    requested = Amounts.of(
        cores=number(row.get("cpus", ""), "cpus"),
        memory=binary_bytes(row.get("memory", ""), "memory"),
        disk=binary_bytes(row.get("disk", ""), "disk"),
        wall_time=_seconds(row.get("time", ""), "time"),
    )
    exhausted = status == "FAILED" and exit_status == _KILLED and not _had_plenty(used, requested)
    return Attempt(
        native_id=f"nextflow:{row['hash']}:{native}:{begin % _QUARTER:.0f}"
        if row["hash"] and begin is not None
        else None,
        row="\t".join(row.values()),
        run=label,
        task=name or None,
        number=max(1, whole(row.get("attempt"), "attempt") or 1),
        category=row.get("process") or _process(name) or None,
        host=row.get("hostname") or None,
        submitted=submitted,
        started=started,
        ended=ended,
        outcome=Outcome.EXHAUSTED if exhausted else _OUTCOMES[status],
        exhausted=Resource.MEMORY if exhausted else None,
        exit_status=exit_status,
        signal=exit_status - 128 if exit_status is not None and 128 < exit_status < 128 + 65 else None,
        requested=requested,
        used=used,
        memory_method=None if used.memory is None else "rss",
        raw={name: value for name, value in row.items() if value and name not in _TYPED},
    )


def _process(name: str) -> str:
    """Return ``ALIGN`` for a task named ``ALIGN (sample 1)``."""
    process, opening, _ = name.partition(" (")
    return process if process and opening and name.endswith(")") else name


def _used(row: Mapping[str, str]) -> Amounts:
    """Return what a task used; its CPU time follows from the average load.

    A memory of 0 means that the task ended before it was sampled.
    """
    seconds = _seconds(row.get("realtime", ""), "realtime")
    cores = number(row.get("%cpu", "").removesuffix("%"), "%cpu")
    cores = None if cores is None else cores / 100
    return Amounts.of(
        memory=binary_bytes(row.get("peak_rss", ""), "peak_rss") or None,
        wall_time=seconds,
        cpu_time=None if cores is None or seconds is None else cores * seconds,
    )


def _had_plenty(used: Amounts, requested: Amounts) -> bool:
    """Whether a lack of memory can be ruled out for a killed task."""
    return used.memory is not None and requested.memory is not None and 2 * used.memory < requested.memory


def _seconds(text: str, what: str) -> float | None:
    """Parse ``1m 30s``, or a bare number of milliseconds, into seconds."""
    if not text:
        return None
    if text.replace(".", "", 1).isdigit():
        milliseconds = number(text, what)
        return None if milliseconds is None else milliseconds / 1000
    if not _TIME.fullmatch(text):
        raise UnusableError(f"{what} is not a time", text)
    return sum((number(value, what) or 0.0) * _SECONDS[unit] for value, unit in _PART.findall(text))


def _moment(text: str, what: str, hints: Hints) -> float | None:
    """Parse a date, or a bare number of milliseconds since 1970, into seconds."""
    if text.isdigit():
        milliseconds = number(text, what)
        return None if milliseconds is None else milliseconds / 1000
    return moment(text, what, hints.zone)
