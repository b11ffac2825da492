"""A workflow on its way through a simulated queue: what a driver does with the decisions of a packer.

A packer is asked at the beginning and whenever a batch job starts or ends. Where one expired with tasks undone, all
batch jobs behind it are cancelled before, since their tasks would wait for ever. A task that its job could not finish
starts anew. As soon as a batch job starts it is known when each of its tasks ends, because all that they wait for is in
jobs that have started before.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.batch import Cluster, Event
from tonnage.errors import InputError, TonnageError
from tonnage.pack.decisions import Packed, Settings, Situation, Submission, requested
from tonnage.pack.work import NEVER, Left, Work

__all__ = ["Carried", "Outcome", "Packer", "cross", "forecast"]

IntArray: TypeAlias = NDArray[np.int64]

Packer: TypeAlias = Callable[[Situation, Settings], Packed]
"""Says what to submit next, given what is left and what the queue looks like."""

_DAY = 86_400
_WINDOW, _HORIZON = 7 * _DAY, 4 * _DAY
"""What may arrive: the last week again, as far as anybody cares."""
_MOST_EXPIRED = 20
"""After so many batch jobs that expired, nothing helps."""
_MORE_TIME = 1.5


@dataclass(slots=True)
class Carried:
    """What became of a batch job; times are those of the cluster's clock."""

    job: Submission
    submitted: int
    started: int | None = None
    ended: int | None = None
    expired: bool = False
    cancelled: bool = False
    single: bool = False
    """Whether it is a task on its own, which waits for nothing any more."""
    busy: int = 0
    """Node-seconds in which it did work that counts."""

    @property
    def idle(self) -> int:
        """Node-seconds that it held and did not use."""
        if self.started is None or self.ended is None:
            return 0
        return (self.ended - self.started) * self.job.nodes - self.busy


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a workflow crossed the queue."""

    makespan: int
    """Seconds from its submission to the end of its last task."""
    carried: tuple[Carried, ...]
    reasons: tuple[str, ...] = field(default=(), repr=False)
    """Why each decision was taken, in their order."""

    @property
    def expired(self) -> int:
        """How many batch jobs ended before their tasks."""
        return sum(one.expired for one in self.carried)

    @property
    def idle(self) -> int:
        """Node-seconds that batch jobs held and did not use."""
        return sum(one.idle for one in self.carried)


def cross(
    work: Work, cluster: Cluster, packer: Packer, settings: Settings, actual: IntArray, *, foresight: bool = False
) -> Outcome:
    """Let a workflow cross the queue of a cluster from its `now` on; the cluster goes on with it.

    `actual` is how long tasks really take; packers know only what the work says. With `foresight`, they are told what
    may arrive.
    """
    crossing = _Crossing(work, cluster, packer, settings, actual, foresight=foresight)
    crossing.run()
    return crossing.outcome()


def forecast(situation: Situation, packer: Packer, settings: Settings, *, at_most: int) -> int | None:
    """Return how long the rest of a workflow takes if a packer goes on from here; None if longer than `at_most`."""
    work = situation.left.work
    held = situation.pending + situation.running
    cluster = Cluster.after(
        situation.queue,
        situation.arrivals,
        max_running=situation.max_running,
        max_submitted=None if situation.room is None else max(1, situation.room + held),
    )
    crossing = _Crossing(work, cluster, packer, settings, work.seconds)
    crossing.go_on_from(situation)
    return crossing.outcome().makespan if crossing.run(at_most) else None


class _Crossing:
    """The state of a workflow on its way."""

    def __init__(
        self,
        work: Work,
        cluster: Cluster,
        packer: Packer,
        settings: Settings,
        actual: IntArray,
        *,
        foresight: bool = False,
    ) -> None:
        self._work, self._cluster, self._settings, self._packer = work, cluster, settings, packer
        self._true = work if actual is work.seconds else work.taking(actual)
        self._foresight = foresight
        self._held_until = cluster.now
        """Until when a batch job runs that was there at the beginning."""
        size = work.graph.size
        self._end = np.full(size, NEVER, np.int64)
        """When each task ends, as far as that is known."""
        self._left = np.ones(size, np.bool_)
        """Which tasks are in no batch job, and not done."""
        self._waiting = work.graph.indegree.tolist()
        """For how many tasks each one waits; kept only where tasks go on their own."""
        self._freed: set[int] = set()
        """The tasks that are counted off in `waiting`."""
        self._ready: list[int] | None = None
        self._open: dict[int, Carried] = {}
        """The batch jobs in the system."""
        self._carried: list[Carried] = []
        self._reasons: list[str] = []
        self._undone = size
        self._begin = cluster.now

    def go_on_from(self, situation: Situation) -> None:
        """Begin in the middle: where some tasks are done, and others are in a batch job that runs."""
        self._left = situation.left.mask.copy()
        self._undone = int(self._left.sum())
        self._end[~self._left] = self._begin
        if situation.ends is not None:
            running = ~self._left & (situation.ends > self._begin)
            self._end[running] = situation.ends[running]
        self._held_until = self._begin + situation.delay

    def run(self, at_most: int = NEVER) -> bool:
        """Let all tasks come to their end; return False if that takes longer than `at_most`."""
        self._ask()
        while self._undone:
            if self._cluster.now - self._begin > at_most:
                return False
            asks = self._take(self._next_events())
            if self._ready is not None:
                self._submit_ready()
            elif asks or not self._open:
                self._ask()
        return int(self._end.max()) - self._begin <= at_most

    def _next_events(self) -> list[Event]:
        """Wait for what happens next; where a batch job was there before, its end is such a thing."""
        if self._held_until > self._cluster.now:
            events = self._cluster.advance(self._held_until)
            if self._cluster.now == self._held_until and self._ready is not None:
                self._free_held()
            return events
        if not self._open:
            raise TonnageError("nothing of the workflow is in the queue, and nothing is submitted")
        return self._cluster.advance()

    def outcome(self) -> Outcome:
        """Return how it went."""
        return Outcome(int(self._end.max()) - self._begin, tuple(self._carried), tuple(self._reasons))

    def _ask(self) -> None:
        """Ask the packer, and submit what it says."""
        if not self._left.any():
            return
        packed = self._packer(self._situation(), self._settings)
        if packed.reason:
            self._reasons.append(packed.reason)
        if packed.singly:
            self._go_singly()
            return
        for job in packed.jobs:
            number = self._cluster.submit(job.nodes, job.seconds)
            self._note(number, Carried(job, self._cluster.now))
            self._left[job.tasks] = False

    def _note(self, number: int, carried: Carried) -> None:
        self._open[number] = carried
        self._carried.append(carried)

    def _situation(self) -> Situation:
        now = self._cluster.now
        running = [one for one in self._open.values() if one.started is not None]
        ends = [one.started + one.job.seconds for one in running if one.started is not None]
        return Situation(
            Left(self._work, self._left.copy()),
            self._cluster.snapshot(),
            delay=max((end - now for end in (*ends, self._held_until)), default=0),
            pending=len(self._open) - len(running),
            running=len(running) + (self._held_until > now),
            room=self._cluster.room(),
            ends=self._end.copy(),
            arrivals=self._cluster.expected(_WINDOW, _HORIZON) if self._foresight else None,
        )

    def _take(self, events: Sequence[Event]) -> bool:
        """Take note of what happened in one second; return whether the packer is to be asked."""
        # All that left the system are taken out first: a batch job that expired cancels what is still in it.
        left = {event.job: self._open.pop(event.job) for event in events if event.kind != "started"}
        for job, kind, time in events:
            if job in left:
                carried = left[job]
                carried.ended, carried.expired = time, kind == "expired"
                self._end_single(carried) if carried.single else self._end_group(carried)
            elif job in self._open:  # else it was cancelled in this very second
                carried = self._open[job]
                carried.started = time
                if not carried.single:
                    self._start(job, carried)
        return bool(events)

    def _start(self, number: int, carried: Carried) -> None:
        """Work out when the tasks of a batch job end that starts now, and so the job itself."""
        tasks, now = carried.job.tasks, self._cluster.now
        ends = self._true.ends(tasks, carried.job.nodes, self._can_start(tasks) - now) + now
        limit = now + carried.job.seconds
        self._end[tasks] = np.where(ends <= limit, ends, NEVER)
        last = int(ends.max())
        self._cluster.will_run(number, last - now if last <= limit else None)

    def _can_start(self, tasks: IntArray) -> IntArray:
        """Return when all that each task waits for outside of its batch job is done, or now."""
        graph, now = self._work.graph, self._cluster.now
        ends = self._end.copy()
        ends[tasks] = now
        found = np.full(graph.size, now, np.int64)
        np.maximum.at(found, graph.child, ends[graph.edge_parents()])
        return found[tasks]

    def _end_group(self, carried: Carried) -> None:
        tasks, now = carried.job.tasks, self._cluster.now
        done = tasks[self._end[tasks] <= now]
        self._count_done(done, carried)
        if len(done) < len(tasks):
            self._give_back(carried)
            if carried.expired:
                self._expired(carried.job.levels[0])

    def _count_done(self, done: IntArray, carried: Carried) -> None:
        self._undone -= len(done)
        carried.busy = int(self._true.seconds[done].sum())
        if self._ready is not None:
            self._free_children(done.tolist())

    def _give_back(self, carried: Carried) -> None:
        """Take back the tasks that a batch job did not finish."""
        tasks = carried.job.tasks
        undone = tasks[self._end[tasks] > self._cluster.now]
        self._end[undone] = NEVER
        self._left[undone] = True
        if self._ready is not None:
            self._ready += [task for task in undone.tolist() if not self._waiting[task]]

    def _expired(self, level: int) -> None:
        """Cancel what is behind a batch job of a level that expired, and ask for more time from now on."""
        if sum(one.expired for one in self._carried) > _MOST_EXPIRED:
            raise TonnageError(f"more than {_MOST_EXPIRED} batch jobs ended before their tasks")
        self._settings = _with_more_time(self._settings)
        behind = [number for number, one in self._open.items() if not one.single and one.job.levels[0] > level]
        for number in behind:
            self._cluster.cancel(number)
            carried = self._open.pop(number)
            carried.cancelled, carried.ended = True, self._cluster.now
            tasks = carried.job.tasks
            self._count_done(tasks[self._end[tasks] <= self._cluster.now], carried)
            self._give_back(carried)

    def _go_singly(self) -> None:
        """From now on each task is a batch job of its own; those in batch jobs that run stay there."""
        self._ready = []
        done = self._end <= self._cluster.now
        self._waiting = self._work.graph.indegree.tolist()
        self._free_children(np.flatnonzero(done).tolist())
        self._ready = [task for task in np.flatnonzero(self._left).tolist() if not self._waiting[task]]
        self._submit_ready()

    def _free_held(self) -> None:
        """Take note of the tasks of a batch job that was there at the beginning: they are done."""
        done = np.flatnonzero(~self._left & (self._end <= self._cluster.now) & (self._end > self._begin))
        mine = {int(task) for carried in self._carried for task in carried.job.tasks}
        self._free_children(task for task in done.tolist() if task not in mine)

    def _free_children(self, done: Iterable[int]) -> None:
        graph = self._work.graph
        for task in done:
            if task in self._freed:
                continue  # it ended before its batch job, and before tasks went on their own
            self._freed.add(task)
            for after in graph.children_of(task).tolist():
                self._waiting[after] -= 1
                if not self._waiting[after] and self._left[after] and self._ready is not None:
                    self._ready.append(after)

    def _submit_ready(self) -> None:
        """Submit the tasks that are ready, as many as the queue takes."""
        if not self._ready or (room := self._cluster.room()) == 0:
            return
        chosen = self._ready[:room]
        del self._ready[: len(chosen)]
        now = self._cluster.now
        asked = requested(self._work.seconds[chosen], self._settings).tolist()
        for task, seconds in zip(chosen, asked, strict=True):
            run, level = int(self._true.seconds[task]), int(self._work.graph.level[task])
            number = self._cluster.submit(1, seconds, run)
            job = Submission(np.array([task]), (level, level), 1, seconds, None, int(self._work.seconds[task]))
            self._note(number, Carried(job, now, single=True))
            self._left[task] = False

    def _end_single(self, carried: Carried) -> None:
        task = int(carried.job.tasks[0])
        if carried.expired:
            # Many that asked with the same margin may expire, but it grows only once.
            if carried.job.seconds >= int(requested(carried.job.run, self._settings)):
                self._settings = _with_more_time(self._settings)
            self._give_back(carried)
            return
        self._end[task] = self._cluster.now
        self._count_done(carried.job.tasks, carried)


def _with_more_time(settings: Settings) -> Settings:
    fudge = settings.fudge * _MORE_TIME
    if fudge > 100:
        raise InputError("tasks take more than 100 times as long as expected")
    return replace(settings, fudge=fudge)
