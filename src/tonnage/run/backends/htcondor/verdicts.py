"""How an attempt on a pool ended, from the events of the pool and the summary of our monitor."""

from collections.abc import Mapping
from pathlib import Path

from tonnage.batch.htcondor.dag import GIVEN_UP_FOR
from tonnage.errors import TonnageError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.log import Hints, Log
from tonnage.logs.summaries import read
from tonnage.run.backends.htcondor.event_log import Over
from tonnage.run.events import Ended
from tonnage.run.outcomes import classify_killed, status_note

__all__ = ["ended", "summary_in"]

_NOT_FOUND = 127


def summary_in(path: Path) -> Attempt | None:
    """Return the summary that the monitor wrote; None if there is none."""
    try:
        if not path.stat().st_size:
            return None
        with path.open("rb") as file:
            found = list(read(Log([file.read()], path), Hints()))
    except (OSError, TonnageError):
        return None
    return next((one for one in found if isinstance(one, Attempt)), None)


def ended(over: Over, monitor: Attempt | None, outputs: Mapping[str, Path]) -> Ended:
    """Return how an attempt ended; `outputs` are the files with its standard output and error."""
    pool = over.pool
    outcome, exhausted, note = _judged(over, monitor)
    killed_by = _killed_by(pool, monitor)
    best = monitor if monitor is not None and monitor.used.memory is not None else pool
    end = Ended(
        attempt=over.attempt,
        outcome=outcome,
        used=_used(pool, monitor),
        exhausted=exhausted,
        hopeless=pool.exit_status == _NOT_FOUND,
        held=outcome is Outcome.LOST and over.held is not None,
        started=pool.started,
        ended=pool.ended,
        exit_status=pool.exit_status,
        signal=pool.signal,
        host=pool.host,
        memory_method=best.memory_method,
        lower_bounds=best.lower_bounds if outcome is not Outcome.EXHAUSTED else (str(exhausted),),
        stdout=_written(outputs.get("out")),
        stderr=_written(outputs.get("err")),
        note=note,
        facts=_facts(pool),
    )
    return end if outcome is not Outcome.FAILED or killed_by is None else classify_killed(end, killed_by)


def _killed_by(pool: Attempt, monitor: Attempt | None) -> int | None:
    """Return the signal that killed a task: the pool sees that of the monitor, which reports the task's own."""
    return pool.signal if monitor is None or monitor.signal is None else monitor.signal


def _judged(over: Over, monitor: Attempt | None) -> tuple[Outcome, Resource | None, str]:
    """Return the outcome, the exhausted resource, and a description of what went wrong."""
    pool = over.pool
    if pool.outcome is Outcome.EXHAUSTED:
        resource = pool.exhausted or Resource.MEMORY
        return Outcome.EXHAUSTED, resource, over.reason or f"stopped by the pool: used too much {resource}"
    if pool.exit_status is None and pool.signal is None:
        return *_without_exit(over), over.reason
    if monitor is not None and monitor.outcome is Outcome.EXHAUSTED:
        resource = monitor.exhausted or Resource.MEMORY
        return Outcome.EXHAUSTED, resource, f"needed more {resource} than allocated"
    if pool.exit_status == 0:
        return Outcome.DONE, None, ""
    return Outcome.FAILED, None, _why_failed(pool, monitor)


def _why_failed(pool: Attempt, monitor: Attempt | None) -> str:
    if monitor is not None and monitor.exit_status == 0:
        return "succeeded, but did not write all of its outputs"
    return "exit status unknown" if pool.exit_status is None else status_note(pool.exit_status)


def _without_exit(over: Over) -> tuple[Outcome, None]:
    """Classify an attempt that the pool ended: one that is held and can be released counts as lost."""
    if over.held is not None:
        return (Outcome.FAILED if over.held in GIVEN_UP_FOR else Outcome.LOST), None
    return over.pool.outcome or Outcome.LOST, None


def _used(pool: Attempt, monitor: Attempt | None) -> Amounts:
    """Return what was used, as measured by the monitor or else by the pool."""
    return pool.used if monitor is None else pool.used.updated(monitor.used)


def _facts(pool: Attempt) -> dict[str, object]:
    """Return the pool's own measurements, under HTCondor's names and in base units."""
    figures = {
        "MemoryUsage": pool.used.memory,
        "DiskUsage": pool.used.disk,
        "RemoteCpu": pool.used.cpu_time,
        "RemoteWallClockTime": pool.used.wall_time,
        "RequestMemory": pool.requested.memory,
        "RequestDisk": pool.requested.disk,
        "MemoryProvisioned": pool.allocated.memory,
        "CpusProvisioned": pool.allocated.cores,
    }
    known = {name: value for name, value in figures.items() if value is not None}
    return {"htcondor": known} if known else {}


def _written(path: Path | None) -> str | None:
    try:
        return str(path) if path is not None and path.stat().st_size else None
    except OSError:
        return None
