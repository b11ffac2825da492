"""The event log of a DAG's jobs: read while HTCondor writes it, and converted to starts and ends of attempts.

The number of an attempt follows from its position in the log: reading the log again after a crash gives the same
numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import TypeAlias

from tonnage.errors import TonnageError
from tonnage.jobs import EXHAUSTIBLE, Attempt, Decision, Outcome, Resource
from tonnage.logs.htcondor_event_format import Event, JobName, events
from tonnage.logs.htcondor_events import Queue
from tonnage.logs.log import Log
from tonnage.run.backends.htcondor.dag_plan import Sent
from tonnage.size.reruns import climbed

__all__ = ["Attempts", "Began", "EventFile", "HeldUp", "News", "Over", "Removed"]

_PIECE = 1 << 24  # bytes at a time: a hundred thousand jobs take ten of them
_END = b"\n...\n"
_SUBMITTED, _STARTED, _TERMINATED, _ABORTED, _HELD = "000", "001", "005", "009", "012"
_OUR_OWN = "PeriodicRemove"
"""The reason of removals by our own submit description; the event before it has the actual reason."""


class EventFile:
    """Reads events as they are added to a log."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """Start reading at an offset where an event begins."""
        self.path = path
        self._offset = offset

    def new(self) -> list[Event]:
        """Return the events that were completed since the last call, up to a limited number."""
        try:
            with self.path.open("rb") as file:  # reopened, so that a network file system shows current content
                file.seek(self._offset)
                data = file.read(_PIECE)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TonnageError(f"{self.path}: the event log cannot be read: {error.strerror or error}") from None
        end = data.rfind(_END)
        if end < 0:
            return []
        whole = data[: end + len(_END)]
        self._offset += len(whole)
        found = events(Log.of(whole.decode(errors="replace"), self.path))
        return [event for event in found if isinstance(event, Event)]


@dataclass(frozen=True, slots=True)
class Began:
    """An attempt started."""

    attempt: int
    sent: Sent
    number: int
    """Which attempt of its task this is, counted from 1."""
    decisions: tuple[Decision, ...]
    moment: float
    submitted: float | None


@dataclass(frozen=True, slots=True)
class Over:
    """An attempt ended: what the pool reports about it."""

    attempt: int
    sent: Sent
    cluster: int
    pool: Attempt
    held: int | None = None
    """The code of the hold that ended it."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A job that was not running is held until it is released."""

    sent: Sent
    code: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Removed:
    """A job was removed from the queue."""

    sent: Sent
    reason: str


News: TypeAlias = Began | Over | HeldUp | Removed


@dataclass(slots=True)
class _Job:
    sent: Sent
    decisions: tuple[Decision, ...]
    submitted: float | None
    running: int | None = None
    reason: str = ""
    """The reason of the last event that has one; only the next event may tell what it means."""


class Attempts:
    """Converts events to starts and ends of attempts."""

    def __init__(self, sent: Mapping[str, Sent], first: int, zone: tzinfo, *, grows_disk: bool) -> None:
        """Number attempts from `first` on."""
        self.dagman = 0
        """The id of DAGMan's own job, which does not count earlier jobs: those belong to an earlier DAGMan."""
        self._sent = sent
        self._next = first
        self._zone = zone
        self._grows_disk = grows_disk
        self._queue = Queue(zone)
        self._jobs: dict[JobName, _Job] = {}
        self._tries: Counter[str] = Counter()
        self._submitted: defaultdict[str, list[int]] = defaultdict(list)
        self._waiting: set[JobName] = set()

    @property
    def waiting(self) -> int:
        """The number of jobs in the queue that are not running, because they are idle or held."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """The number of running attempts."""
        return sum(job.running is not None for job in self._jobs.values())

    def take(self, event: Event) -> Iterator[News]:
        """Process an event."""
        over = [entry for entry in self._queue.take(event) if isinstance(entry, Attempt)]
        job = self._jobs.get(event.job)
        if job is not None:
            yield from self._interpret(job, event, over)
        self._note_place(event, evicted=bool(over))
        if event.kind == _SUBMITTED:
            self._submit(event)
        elif event.kind == _STARTED and job is not None:
            yield self._begin(job, event)

    def _note_place(self, event: Event, *, evicted: bool) -> None:
        """Update whether a job is waiting."""
        if event.kind in (_STARTED, _TERMINATED, _ABORTED):
            self._waiting.discard(event.job)
        elif event.job in self._jobs and evicted:
            self._waiting.add(event.job)

    def rest(self) -> Iterator[Over]:
        """Yield the attempts without an end in the log after DAGMan finished."""
        for name, job in self._jobs.items():
            if job.running is not None:
                lost = Attempt(task=job.sent.task, outcome=Outcome.LOST)
                yield Over(job.running, job.sent, name[0], lost, reason="its end was not reported by DAGMan")
                job.running = None

    def _interpret(self, job: _Job, event: Event, over: Sequence[Attempt]) -> Iterator[News]:
        """Yield what an event means for a job, and for attempts of it that are over."""
        reason = event.reason()
        is_ours = event.kind == _ABORTED and _OUR_OWN in reason
        if event.kind not in (_SUBMITTED, _STARTED) and not is_ours:
            job.reason = reason or job.reason
        ends = [end for pool in over for end in self._end(job, event, pool)]
        yield from ends
        if event.kind == _HELD and not ends:
            yield HeldUp(job.sent, event.codes()[0], reason)
        elif event.kind == _ABORTED and not is_ours:
            yield Removed(job.sent, reason)

    def _submit(self, event: Event) -> None:
        sent = self._sent.get(self._queue.node(event.job) or "")
        if sent is None:
            return  # not one of our nodes
        before = self._submitted[sent.node]
        retry = sum(cluster > self.dagman for cluster in before)
        before.append(event.job[0])
        chosen = (Resource.MEMORY,) if self._grows_disk else EXHAUSTIBLE
        decisions = _raised(sent.decisions, chosen, retry)
        self._jobs[event.job] = _Job(sent, decisions, event.moment(self._zone).known)
        self._waiting.add(event.job)

    def _begin(self, job: _Job, event: Event) -> Began:
        self._tries[job.sent.node] += 1
        number = job.sent.before + self._tries[job.sent.node]
        job.running, self._next = self._next, self._next + 1
        job.reason = ""
        moment = event.moment(self._zone).seconds
        return Began(job.running, job.sent, number, job.decisions, moment, job.submitted)

    def _end(self, job: _Job, event: Event, pool: Attempt) -> Iterator[Over]:
        attempt, job.running = job.running, None
        if attempt is None:
            return  # its start is not in the log
        held = event.codes()[0] if event.kind == _HELD else None
        yield Over(attempt, job.sent, event.job[0], pool, held, job.reason)
        if pool.exhausted is Resource.DISK and self._grows_disk:
            job.decisions = climbed(job.decisions, Resource.DISK) or job.decisions


def _raised(decisions: tuple[Decision, ...], chosen: Collection[Resource], rungs: int) -> tuple[Decision, ...]:
    """Raise decisions for chosen resources by some rungs, up to the top of each ladder."""
    if not rungs:
        return decisions
    return tuple(
        replace(one, rung=min(one.rung + rungs, len(one.ladder) - 1)) if one.resource in chosen else one
        for one in decisions
    )
