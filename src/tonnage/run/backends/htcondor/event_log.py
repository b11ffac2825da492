"""The event log of a DAG's jobs: read while HTCondor writes it, and turned into attempts that begin and end.

An attempt's number follows from its place in the log: reading the log again after a crash gives the same numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import TypeAlias

from tonnage.errors import TonnageError
from tonnage.jobs import EXHAUSTIBLE, Attempt, Decision, Outcome, Resource
from tonnage.logs.htcondor_event import Event, JobName, events
from tonnage.logs.htcondor_events import Queue
from tonnage.logs.log import Log
from tonnage.run.backends.htcondor.dag_plan import Sent
from tonnage.size.learner import climbed

__all__ = ["Attempts", "Began", "EventFile", "HeldUp", "News", "Over", "Removed"]

_PIECE = 1 << 24  # bytes at a time: a hundred thousand jobs are ten of them
_END = b"\n...\n"
_SUBMITTED, _STARTED, _TERMINATED, _ABORTED, _HELD = "000", "001", "005", "009", "012"
_OUR_OWN = "PeriodicRemove"
"""What a removal that our own submit description asked for is said to be due to: what came before has said it all."""


class EventFile:
    """Reads what was added since the last time."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """Prepare to read from a place on where an event begins."""
        self.path = path
        self._offset = offset

    def new(self) -> list[Event]:
        """Return the events that were completed since the last call, not too many at a time."""
        try:
            with self.path.open("rb") as file:  # anew each time: so a network file system shows what there is
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
    """An attempt has begun."""

    attempt: int
    sent: Sent
    number: int
    """Which attempt of its task this is, from 1."""
    decisions: tuple[Decision, ...]
    moment: float
    submitted: float | None


@dataclass(frozen=True, slots=True)
class Over:
    """An attempt has ended: what the pool says about it."""

    attempt: int
    sent: Sent
    cluster: int
    pool: Attempt
    held: int | None = None
    """The code of the hold that ended it."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A job that did not run does not go on until it is released."""

    sent: Sent
    code: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Removed:
    """A job has left the queue without an end of its own."""

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
    """Why it ended, as the last event says that tells a reason: what it means may only follow from the next."""


class Attempts:
    """Turns events into what happened to tasks."""

    def __init__(self, sent: Mapping[str, Sent], first: int, zone: tzinfo, *, grows_disk: bool) -> None:
        """Prepare; attempts are numbered from `first` on."""
        self.dagman = 0
        """The number of DAGMan's own job: earlier jobs are of a DAGMan before it, and it does not count them."""
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
        """How many jobs are in the queue and do not run: they are idle, or held."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many attempts have begun and not ended."""
        return sum(job.running is not None for job in self._jobs.values())

    def take(self, event: Event) -> Iterator[News]:
        """Let an event happen."""
        over = [entry for entry in self._queue.take(event) if isinstance(entry, Attempt)]
        job = self._jobs.get(event.job)
        if job is not None:
            yield from self._tell(job, event, over)
        self._note_place(event, evicted=bool(over))
        if event.kind == _SUBMITTED:
            self._submit(event)
        elif event.kind == _STARTED and job is not None:
            yield self._begin(job, event)

    def _note_place(self, event: Event, *, evicted: bool) -> None:
        """Note whether a job waits after an event."""
        if event.kind in (_STARTED, _TERMINATED, _ABORTED):
            self._waiting.discard(event.job)
        elif event.job in self._jobs and evicted:
            self._waiting.add(event.job)

    def rest(self) -> Iterator[Over]:
        """Yield the attempts that have not ended when DAGMan has: the log will not tell."""
        for name, job in self._jobs.items():
            if job.running is not None:
                lost = Attempt(task=job.sent.task, outcome=Outcome.LOST)
                yield Over(job.running, job.sent, name[0], lost, reason="DAGMan has ended, and its end is not known")
                job.running = None

    def _tell(self, job: _Job, event: Event, over: Sequence[Attempt]) -> Iterator[News]:
        """Say what an event means for a job, and for attempts of it that are over."""
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
    """Return decisions, those on chosen resources some rungs up, each as far as its ladder goes."""
    if not rungs:
        return decisions
    return tuple(
        replace(one, rung=min(one.rung + rungs, len(one.ladder) - 1)) if one.resource in chosen else one
        for one in decisions
    )
