"""What both forms of Slurm's accounting share: how a job ended, and how it and its steps become one attempt.

Slurm keeps one record for a job (what it requested, how it ended) and one for each of its steps (what they used).
Memory is the most that one step used, all tasks together. Slurm samples the resident memory, hence ``rss``: a job
shorter than the sampling interval has none, and one that was killed for its memory has used more than was sampled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tonnage.jobs import NOTHING_KNOWN, Amounts, Attempt, Outcome, Resource
from tonnage.logs.log import UnusableError

__all__ = ["WINDOW", "Copies", "Record", "Steps", "attempt", "ending", "parse_exit"]

WINDOW = 1000
"""How many jobs are kept in memory: the rows of one job are close to each other."""

_OUTCOMES = {
    "COMPLETED": Outcome.DONE,
    "FAILED": Outcome.FAILED,
    "SPECIAL_EXIT": Outcome.FAILED,
    "TIMEOUT": Outcome.EXHAUSTED,
    "OUT_OF_MEMORY": Outcome.EXHAUSTED,
    "CANCELLED": Outcome.CANCELLED,
    # It missed its deadline; it may have had plenty of its own time limit left.
    "DEADLINE": Outcome.CANCELLED,
    "PREEMPTED": Outcome.PREEMPTED,
    "REQUEUED": Outcome.PREEMPTED,
    "NODE_FAIL": Outcome.LOST,
    "BOOT_FAIL": Outcome.LOST,
    "LAUNCH_FAILED": Outcome.LOST,
    "RECONFIG_FAIL": Outcome.LOST,
}
_NOT_ENDED = frozenset(
    [
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETING",
        "CONFIGURING",
        "EXPEDITING",
        "POWER_UP_NODE",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESIZING",
        "RESV_DEL_HOLD",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "UPDATE_DB",
    ]
)
_SLURM_ITSELF = ("", "0", "root")  # the user that cancels a step which exceeds its memory
_SIGKILL = 9
_LAST_SIGNAL = 64  # Slurm writes 125 if a job ran out of memory: no signal has that number


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What Slurm records about a job or one of its steps, in base units; None if unknown."""

    id: str
    """The number of the job, without its step."""
    step: str | None = None
    """``batch``, ``extern``, ``0`` and so on; None is the job itself."""
    state: str
    killed_by: str = ""
    """The user who cancelled it, by number or name, if known."""
    exit_status: int | None = None
    signal: int | None = None
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    never_started: bool = False
    requested: Amounts = NOTHING_KNOWN
    allocated: Amounts = NOTHING_KNOWN
    used: Amounts = NOTHING_KNOWN
    disk_read: float | None = None
    disk_written: float | None = None

    cluster: str = ""
    task: str | None = None
    """The job's number as users know it: ``2_3`` is a task of an array."""
    name: str | None = None
    user: str | None = None
    host: str | None = None
    command: str | None = None
    restarts: int | None = None
    row: str = ""
    raw: Mapping[str, object] = field(default_factory=dict)


class Steps:
    """The totals over the steps of one job; a job can have very many steps."""

    def __init__(self) -> None:
        self.memory: float | None = None
        self.cpu_time: float | None = None
        self.disk_read: float | None = None
        self.disk_written: float | None = None
        self._out_of_memory = False
        self._killed_using: float | None = None
        self._best: Record | None = None
        self._row = ""
        self._started: float | None = None
        self._ended: float | None = None
        self._wall_time: float | None = None

    def __bool__(self) -> bool:
        return self._best is not None

    def add(self, step: Record) -> None:
        """Add a step."""
        if self._best is None:
            self._row = step.row
        if self._best is None or _rank(step) > _rank(self._best):
            self._best = step
        used = step.used
        self.memory = _of(max, self.memory, used.memory)
        self.disk_read = _of(max, self.disk_read, step.disk_read)
        self.disk_written = _of(max, self.disk_written, step.disk_written)
        if used.cpu_time is not None:
            self.cpu_time = (self.cpu_time or 0.0) + used.cpu_time
        self._started = _of(min, self._started, step.started)
        self._ended = _of(max, self._ended, step.ended)
        self._wall_time = _of(max, self._wall_time, used.wall_time)
        self._look_for_lack_of_memory(step)

    def lacked_memory(self, limit: float | None) -> bool:
        """Whether a step was killed for its memory; `limit` is the job's, for steps without their own."""
        killed, using = self._out_of_memory, self._killed_using
        return killed or (using is not None and limit is not None and using > limit)

    def job(self) -> Record:
        """Return what the steps reveal about their job if it has no record of its own."""
        if self._best is None:
            raise UnusableError("it has neither a record nor steps")
        seconds = _duration(self._started, self._ended)
        # The name of a step and the time of its submission say nothing about the job.
        return replace(
            self._best,
            step=None,
            submitted=None,
            started=self._started,
            ended=self._ended,
            used=Amounts.of(wall_time=self._wall_time if seconds is None else seconds),
            name=None,
            command=None,
            row=self._row,
        )

    def _look_for_lack_of_memory(self, step: Record) -> None:
        """Slurm either says so, or its accounting cancelled the step (OverMemoryKill) without giving the reason."""
        self._out_of_memory |= step.state == "OUT_OF_MEMORY"
        memory, limit = step.used.memory, step.allocated.memory
        if memory is None or (step.state, step.signal) != ("CANCELLED", _SIGKILL):
            return
        if step.killed_by not in _SLURM_ITSELF:
            return
        if limit is None:
            self._killed_using = _of(max, self._killed_using, memory)
        else:
            self._out_of_memory |= memory > limit


@dataclass(frozen=True, slots=True)
class _Copy:
    number: int
    restart: int
    submitted: float | None
    row: int


class Copies:
    """Counts the copies of jobs: a requeued job has one record per run, one after the other."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], _Copy] = {}

    def count(self, job: Record) -> tuple[int, int]:
        """Return the attempt's number from 1, and its restart, which distinguishes copies of one submission.

        A requeued job is submitted again. Therefore, if Slurm does not give the number of restarts, the restart does
        not depend on whether the log also has the earlier copies.
        """
        key = job.cluster, job.id
        copy = _next(self._last.pop(key, None), job)
        self._last[key] = copy
        if len(self._last) > WINDOW:
            del self._last[next(iter(self._last))]
        return copy.number, copy.restart


def _next(last: _Copy | None, job: Record) -> _Copy:
    row = hash(job.row)
    if job.restarts is not None:
        return _Copy(job.restarts + 1, job.restarts, job.submitted, row)
    if last is None:
        return _Copy(1, 0, job.submitted, row)
    if last.row == row:  # a duplicate: overlapping logs were concatenated
        return last
    return _Copy(last.number + 1, last.restart + 1 if job.submitted == last.submitted else 0, job.submitted, row)


def attempt(job: Record | None, steps: Steps, copies: Copies, label: str | None) -> Attempt:
    """Build the attempt from a job and its steps; raises UnusableError if it has not run or not finished."""
    native_id, number = None, 1
    if job is None:
        job = steps.job()
    else:
        number, restart = copies.count(job)
        if job.submitted is not None:
            native_id = f"slurm:{job.cluster or label or ''}:{job.id}:{job.submitted:.0f}:{restart}"
    outcome, exhausted = ending(job, steps)
    if job.never_started and not steps:
        raise UnusableError("it never started", job.state, healthy=True)
    exit_status, signal = parse_exit(job)
    memory = _of(max, steps.memory, job.used.memory)
    wall_time = _duration(job.started, job.ended) if job.used.wall_time is None else job.used.wall_time
    return Attempt(
        native_id=native_id,
        row=job.row,
        task=job.task,
        number=number,
        category=job.name,
        command=job.command,
        user=job.user,
        host=job.host,
        submitted=job.submitted,
        started=job.started,
        ended=job.ended,
        outcome=outcome,
        exhausted=exhausted,
        exit_status=exit_status,
        signal=signal,
        requested=job.requested,
        allocated=job.allocated,
        # If nothing was sampled, the job's own CPU time is 0.
        used=Amounts.of(memory=memory, wall_time=wall_time, cpu_time=job.used.cpu_time or steps.cpu_time or None),
        memory_method=None if memory is None else "rss",
        lower_bounds=_lower_bounds(exhausted, memory),
        raw={**job.raw, **_disk(job, steps)},
    )


def _lower_bounds(exhausted: Resource | None, memory: float | None) -> tuple[str, ...]:
    """Return the resource that ran out: the job would have used more of it."""
    if exhausted is None or (exhausted == Resource.MEMORY and memory is None):
        return ()
    return (str(exhausted),)


def ending(job: Record, steps: Steps) -> tuple[Outcome, Resource | None]:
    """Return how a job ended, and what it ran out of; raises UnusableError if it has not finished."""
    if job.state in _NOT_ENDED:
        raise UnusableError("it has not finished", job.state, healthy=True)
    if job.state == "REVOKED":
        raise UnusableError("it ran on another cluster", job.state, healthy=True)
    outcome = _OUTCOMES.get(job.state)
    if outcome is None:
        raise UnusableError("its state is unknown", job.state)
    limit = job.allocated.memory if job.requested.memory is None else job.requested.memory
    # A step that lacked memory takes precedence, whatever happened to the job: its other processes may have continued
    # as if nothing had happened, or waited for the killed one until the time limit.
    if job.state == "OUT_OF_MEMORY" or steps.lacked_memory(limit):
        return Outcome.EXHAUSTED, Resource.MEMORY
    return outcome, Resource.WALL_TIME if job.state == "TIMEOUT" else None


def parse_exit(job: Record) -> tuple[int | None, int | None]:
    """Return the exit status and the signal; Slurm writes 0 for jobs that it ended itself, which is no exit status."""
    status = job.exit_status if job.exit_status or job.state == "COMPLETED" else None
    if not job.signal:
        return status, None
    return status or None, job.signal if job.signal <= _LAST_SIGNAL else None


def _disk(job: Record, steps: Steps) -> dict[str, object]:
    """Return the bytes read and written by the task with most I/O; this is not the disk space used."""
    most = {
        "MaxDiskRead": _of(max, steps.disk_read, job.disk_read),
        "MaxDiskWrite": _of(max, steps.disk_written, job.disk_written),
    }
    return {name: round(amount) for name, amount in most.items() if amount is not None}


def _rank(step: Record) -> int:
    """Rank how much a step reveals about how its job ended."""
    if step.step == "batch":
        return 3
    if step.step == "extern":
        return 0
    return 1 if step.state == "COMPLETED" else 2


def _of(which: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return which(one, other)


def _duration(started: float | None, ended: float | None) -> float | None:
    return None if started is None or ended is None or ended < started else ended - started
