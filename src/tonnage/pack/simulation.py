"""A workflow on its way through a simulated queue: what a driver does with the decisions of a packer.

A packer is asked at the beginning and whenever a batch job starts or ends, as long as the queue takes one more. Where
one expired with tasks undone, all batch jobs behind it are cancelled before, since their tasks would wait for ever. A
task that its job could not finish starts anew. As soon as a batch job starts it is known when each of its tasks ends,
because all that they wait for is in jobs that have started before.

`futures` says what may become of a queue: its jobs end as early as similar jobs did, and others arrive as in recent
weeks. Only what is known at the moment goes into it: the jobs that run and wait, and what became of earlier ones.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.batch import Cluster, Event, Present, Snapshot, Workload
from tonnage.errors import TonnageError
from tonnage.pack.decisions import Packed, Settings, Situation, Submission, more_time, requested
from tonnage.pack.remaining import NEVER, Remaining, Work

__all__ = ["Carried", "Outcome", "Packer", "forecast", "futures", "simulate"]

IntArray: TypeAlias = NDArray[np.int64]

Packer: TypeAlias = Callable[[Situation, Settings], Packed]
"""Says what to submit next, given what is left and what the queue looks like."""

_WEEK = 7 * 86_400
_WEEKS = 3
"""One future for each of the last weeks: fewer leave the choice to chance, and each costs a forecast of everything."""
_ALIKE = 30
"""This many jobs that asked for about as long say how early one ends."""


@dataclass(slots=True)
class Carried:
    """What became of a batch job; times are those of the cluster's clock."""

    job: Submission
    submitted: int
    started: int | None = None
    ended: int | None = None
    expired: bool = False
    cancelled: bool = False
    busy: int = 0
    """Node-seconds in which it did work that counts."""

    @property
    def idle(self) -> int:
        """Node-seconds that it held and did not use."""
        if self.started is None or self.ended is None:
            return 0
        return (self.ended - self.started) * self.job.nodes - self.busy


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a workflow crossed the queue."""

    makespan: int
    """Seconds from its submission to the end of its last task."""
    carried: tuple[Carried, ...]
    ends: IntArray = field(repr=False)
    """When each task ended, by the cluster's clock."""
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


def simulate(
    work: Work, cluster: Cluster, packer: Packer, settings: Settings, actual: IntArray, *, foresight: bool = False
) -> Outcome:
    """Let a workflow cross the queue of a cluster from its `now` on; the cluster goes on with it.

    `actual` is how long tasks really take; packers know only what the work says. With `foresight`, they are told what
    may become of the queue, whenever nothing of theirs waits.
    """
    crossing = _Crossing(work, cluster, packer, settings, actual, foresight=foresight)
    crossing.run()
    return crossing.outcome()


def forecast(
    situation: Situation, future: Workload | None, packer: Packer, settings: Settings, *, at_most: int = NEVER
) -> int | None:
    """Return how long the rest of a workflow takes if a packer goes on from here; None if longer than `at_most`.

    Without a `future`, every job in the queue gets what was promised, and no other arrives.
    """
    work = situation.left.work
    held = situation.pending + situation.running
    cluster = Cluster.after(
        situation.queue if future is None else _emptied(situation.queue),
        future,
        max_running=situation.max_running,
        max_submitted=None if situation.room is None else max(1, situation.room + held),
    )
    cluster.advance(cluster.now)
    crossing = _Crossing(work, cluster, packer, settings, work.seconds)
    crossing.go_on_from(situation)
    return crossing.outcome().makespan if crossing.run(at_most) else None


def _emptied(queue: Snapshot) -> Snapshot:
    busy = np.zeros_like(queue.busy[:1])
    return Snapshot(queue.now, queue.nodes, np.array([queue.now]), np.array([queue.nodes]), busy, queue.effort)


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
        self._held: IntArray | None = None
        """The tasks of a batch job that was there at the beginning, where it began in the middle."""
        self._held_until = cluster.now
        size = work.graph.size
        self._end = np.full(size, NEVER, np.int64)
        """When each task ends, as far as that is known."""
        self._foreseen = self._end if self._true is work else self._end.copy()
        """When each task ends by what packers know."""
        self._left = np.ones(size, np.bool_)
        """Which tasks are in no batch job, and not done."""
        self._waiting = work.graph.indegree.tolist()
        """For how many tasks each one waits; kept only where tasks go on their own."""
        self._ready: deque[int] | None = None
        """The tasks that could be submitted; None as long as tasks travel in groups."""
        self._more = np.ones(size)
        """How much more time each task gets that expired on its own."""
        self._open: dict[int, Carried] = {}
        """The batch jobs in the system."""
        self._alone: set[int] = set()
        """Those of one task that waits for nothing."""
        self._expired = False
        """Whether a group has expired in this second."""
        self._carried: list[Carried] = []
        self._reasons: list[str] = []
        self._undone = size
        self._begin = cluster.now

    def go_on_from(self, situation: Situation) -> None:
        """Begin in the middle: where some tasks are done, and others are in a batch job that runs."""
        self._left = situation.left.mask.copy()
        self._undone = int(self._left.sum())
        self._end[~self._left] = self._begin
        self._held_until = self._begin + situation.delay
        if situation.ends is not None:
            self._held = np.flatnonzero(~self._left & (situation.ends > self._begin))
            # A batch job that will expire never ends some of its tasks: here they would be waited for without end.
            self._end[self._held] = np.minimum(situation.ends[self._held], max(self._held_until, self._begin + 1))

    def run(self, at_most: int = NEVER) -> bool:
        """Let all tasks come to their end; return False as soon as that takes longer than `at_most`."""
        self._ask()
        while self._undone:
            if self._cluster.now - self._begin > at_most:
                return False
            asks = [self._take(event) for event in self._next_events()]
            if self._expired:
                self._cancel_behind()
                self._expired = False
            if any(asks) or not self._open:
                self._ask() if self._ready is None else self._submit_ready()
        return int(self._end.max()) - self._begin <= at_most

    def _next_events(self) -> list[Event]:
        """Wait for what happens next; where a batch job was there before, its end is such a thing."""
        if self._held_until > self._cluster.now:
            events = self._cluster.advance(self._held_until)
            if self._cluster.now == self._held_until and self._held is not None and self._ready is not None:
                self._free_children(self._held.tolist())
                self._submit_ready()
            return events
        if not self._open and self._cluster.room() != 0:
            raise TonnageError("nothing of the workflow is in the queue, and nothing is submitted")
        return self._cluster.advance()

    def outcome(self) -> Outcome:
        """Return how it went."""
        return Outcome(int(self._end.max()) - self._begin, tuple(self._carried), self._end, tuple(self._reasons))

    def _ask(self) -> None:
        """Ask the packer, and submit what it says."""
        if not self._left.any() or self._cluster.room() == 0:
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
            Remaining(self._work, self._left.copy()),
            self._cluster.snapshot(),
            delay=max(end - now for end in (*ends, max(self._held_until, now))),
            pending=len(self._open) - len(running),
            running=len(running) + (self._held_until > now),
            room=self._cluster.room(),
            max_running=self._cluster.max_running,
            ends=self._expected_ends(),
            futures=futures(self._cluster) if self._foresight and len(running) == len(self._open) else (),
        )

    def _expected_ends(self) -> IntArray:
        """Return when tasks ended, or are expected to: what is late is expected at any moment."""
        now = self._cluster.now
        return np.where(self._end <= now, self._end, np.maximum(self._foreseen, now + 1))

    def _take(self, event: Event) -> bool:
        """Take note of an event; return whether there may be something to submit."""
        number = event.job
        carried = self._open.get(number)
        if carried is None:
            return self._ready is None or event.kind != "started"  # another user's, but then there may be room
        if event.kind == "started":
            carried.started = event.time
            if number not in self._alone:
                self._start(number, carried)
            return number not in self._alone
        del self._open[number]
        carried.ended, carried.expired = event.time, event.kind == "expired"
        if number in self._alone:
            self._alone.remove(number)
            self._end_single(carried)
        else:
            self._end_group(carried)
        return True

    def _start(self, number: int, carried: Carried) -> None:
        """Work out when the tasks of a batch job end that starts now, and so the job itself."""
        tasks, now = carried.job.tasks, self._cluster.now
        ends = self._true.ends(tasks, carried.job.nodes, self._can_start(tasks, now, self._end) - now) + now
        limit = now + carried.job.seconds
        self._end[tasks] = np.where(ends <= limit, ends, NEVER)
        if self._true is not self._work:
            ready = self._can_start(tasks, now, self._expected_ends()) - now
            self._foreseen[tasks] = np.minimum(self._work.ends(tasks, carried.job.nodes, ready) + now, limit)
        last = int(ends.max())
        self._cluster.will_run(number, last - now if last <= limit else None)

    def _can_start(self, tasks: IntArray, start: int, known: IntArray) -> IntArray:
        """Return when all that each task waits for outside of its batch job is done, or when the job starts.

        `known` is when tasks end, as it is or as it is expected.
        """
        graph = self._work.graph
        ends = known.copy()
        ends[tasks] = start
        found = np.full(graph.size, start, np.int64)
        np.maximum.at(found, graph.child, ends[graph.edge_parents()])
        return found[tasks]

    def _end_group(self, carried: Carried) -> None:
        """Take note of what a batch job did; where it expired without having waited for others, ask for more time."""
        tasks, started = carried.job.tasks, carried.started
        self._count_done(tasks[self._end[tasks] <= self._cluster.now], carried)
        if carried.expired and started is not None:
            self._expired = True
            self._give_back(carried)
            if int(self._can_start(tasks, started, self._end).max()) == started:
                self._settings = replace(self._settings, more=more_time(self._settings.more, self._settings.fudge))

    def _count_done(self, done: IntArray, carried: Carried) -> None:
        self._undone -= len(done)
        carried.busy = self._true.use(done)
        if self._ready is not None:
            self._free_children(done.tolist())

    def _give_back(self, carried: Carried) -> None:
        """Take back the tasks that a batch job did not finish."""
        tasks = carried.job.tasks
        undone = tasks[self._end[tasks] > self._cluster.now]
        self._end[undone] = self._foreseen[undone] = NEVER
        self._left[undone] = True
        if self._ready is not None:
            self._ready.extend(task for task in undone.tolist() if not self._waiting[task])

    def _cancel_behind(self) -> None:
        """Cancel the groups that wait for tasks that are in none any more."""
        now = self._cluster.now
        for number in sorted(self._open.keys() - self._alone):
            carried = self._open[number]
            tasks = carried.job.tasks
            if int(self._can_start(tasks, now, self._end).max()) < NEVER:
                continue
            self._cluster.cancel(number)
            del self._open[number]
            carried.cancelled, carried.ended = True, now
            self._count_done(tasks[self._end[tasks] <= now], carried)
            self._give_back(carried)

    def _go_singly(self) -> None:
        """From now on each task is a batch job of its own; those in batch jobs that run stay there."""
        done = self._end <= self._cluster.now
        for carried in self._open.values():
            done[carried.job.tasks] = False  # they count when their batch job has ended
        if self._held is not None and self._held_until > self._cluster.now:
            done[self._held] = False
        self._free_children(np.flatnonzero(done).tolist())
        self._ready = deque(task for task in np.flatnonzero(self._left).tolist() if not self._waiting[task])
        self._submit_ready()

    def _free_children(self, done: Iterable[int]) -> None:
        graph = self._work.graph
        for task in done:
            for after in graph.children_of(task).tolist():
                self._waiting[after] -= 1
                if not self._waiting[after] and self._left[after] and self._ready is not None:
                    self._ready.append(after)

    def _submit_ready(self) -> None:
        """Submit the tasks that are ready, as many as the queue takes."""
        if not self._ready:
            return
        room = self._cluster.room()
        count = len(self._ready) if room is None else min(room, len(self._ready))
        chosen = [self._ready.popleft() for _ in range(count)]
        now = self._cluster.now
        asked = requested(self._work.seconds[chosen] * self._more[chosen], self._settings).tolist()
        for task, seconds in zip(chosen, asked, strict=True):
            run, level = int(self._true.seconds[task]), int(self._work.graph.level[task])
            number = self._cluster.submit(1, seconds, run)
            job = Submission(np.array([task]), (level, level), 1, seconds, None, int(self._work.seconds[task]))
            self._note(number, Carried(job, now))
            self._alone.add(number)
            self._left[task] = False

    def _end_single(self, carried: Carried) -> None:
        task = int(carried.job.tasks[0])
        if not carried.expired:
            self._end[task] = self._cluster.now
            self._count_done(carried.job.tasks, carried)
            return
        self._more[task] = more_time(self._more[task], self._settings.fudge * self._settings.more)
        self._give_back(carried)


def futures(cluster: Cluster) -> tuple[Workload, ...]:
    """Return the jobs of some futures: those in the system are submitted at once, those that run first of all.

    All futures know the same history, but each draws anew when jobs end, and lets another week happen again.
    """
    present, seen = cluster.present(), cluster.expected(_WEEKS * _WEEK, _WEEK)
    return tuple(_future(cluster, present, seen, weeks) for weeks in range(1, _WEEKS + 1))


def _future(cluster: Cluster, present: Present, seen: Workload, weeks: int) -> Workload:
    # Of our own jobs no early end is expected: their tasks take what they take.
    run = np.where(present.own, present.request, _drawn(present, seen, np.random.default_rng(weeks)))
    left = [np.maximum(1, time - present.elapsed) for time in (present.request, run)]
    here = np.stack([np.full(len(run), cluster.now), present.nodes, *left])
    return Workload.of(cluster.nodes, np.concatenate([here, _arriving(cluster.now, seen, weeks)], axis=1))


def _drawn(present: Present, seen: Workload, draw: np.random.Generator) -> IntArray:
    """Return how long jobs may run in all: the same part of the request as one of those that asked for about as long.

    A job that has run longer than all of them takes all of its request.
    """
    if not len(seen):
        return present.request
    order = np.argsort(seen.request, kind="stable")
    asked = seen.request[order]
    middle = (np.searchsorted(asked, present.request) + np.searchsorted(asked, present.request, side="right")) // 2
    near = np.clip(middle[:, np.newaxis] + np.arange(-_ALIKE // 2, _ALIKE // 2), 0, len(order) - 1)
    part = (seen.run / seen.request)[order][near]
    times = np.ceil(part * present.request[:, np.newaxis]).astype(np.int64)
    lots = np.where(times > present.elapsed[:, np.newaxis], draw.random(times.shape), -1.0)
    chosen = lots.argmax(axis=1)
    rows = np.arange(len(chosen))
    return np.where(lots[rows, chosen] >= 0, times[rows, chosen], present.request)


def _arriving(now: int, seen: Workload, weeks: int) -> IntArray:
    """Return what arrives within a week if the week that began that many weeks ago repeats itself."""
    rows = np.stack([seen.submit, seen.nodes, seen.request, seen.run])
    if not len(seen):
        return rows
    # All that was seen happens again from now on, in its order: turned, it begins with a later week.
    span = int(seen.submit[-1]) - now
    rows[0] = now + 1 + (seen.submit - now - 1 - (_WEEKS - weeks) * _WEEK) % span
    rows = rows[:, rows[0] <= now + _WEEK]
    return rows[:, np.argsort(rows[0], kind="stable")]
