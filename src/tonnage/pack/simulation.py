"""Simulate a workflow in a batch queue, following the decisions of a packer.

The packer is called at the beginning and whenever a batch job starts or ends, as long as the queue accepts another job.
If a job expired with unfinished tasks, all batch jobs that depend on it are cancelled first, because their tasks would
wait for ever. A task that its job could not finish starts from scratch. As soon as a batch job starts it is known when
each of its tasks ends, because everything they depend on is in jobs that started earlier.

`futures` predicts a queue: its jobs end as early as similar jobs did, and others arrive as in recent weeks. It uses
only what is known at the moment: the running and waiting jobs, and the history of earlier ones.
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
"""Decides what to submit next, given the remaining tasks and the state of the queue."""

_WEEK = 7 * 86_400
_WEEKS = 3
"""One future for each of the last weeks: fewer would leave the choice to chance, and each costs a full forecast."""
_ALIKE = 30
"""How early a job ends is drawn from this many jobs with a similar time limit."""


@dataclass(slots=True)
class Carried:
    """A submitted batch job and its outcome; times are those of the cluster's clock."""

    job: Submission
    submitted: int
    started: int | None = None
    ended: int | None = None
    expired: bool = False
    cancelled: bool = False
    busy: int = 0
    """Node-seconds of useful work."""

    @property
    def idle(self) -> int:
        """Node-seconds that it held but did not use."""
        if self.started is None or self.ended is None:
            return 0
        return (self.ended - self.started) * self.job.nodes - self.busy


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a workflow fared in the queue."""

    makespan: int
    """Seconds from the workflow's submission to the end of its last task."""
    carried: tuple[Carried, ...]
    ends: IntArray = field(repr=False)
    """When each task ended, by the cluster's clock."""
    reasons: tuple[str, ...] = field(default=(), repr=False)
    """The reason of each decision, in order."""

    @property
    def expired(self) -> int:
        """How many batch jobs ended before their tasks were done."""
        return sum(one.expired for one in self.carried)

    @property
    def idle(self) -> int:
        """Node-seconds that batch jobs held but did not use."""
        return sum(one.idle for one in self.carried)


def simulate(
    work: Work, cluster: Cluster, packer: Packer, settings: Settings, actual: IntArray, *, foresight: bool = False
) -> Outcome:
    """Simulate a workflow in the queue of a cluster from its `now` on; this advances the cluster.

    `actual` is how long tasks really take; packers only know the estimates in `work`. With `foresight`, they also get
    possible futures of the queue whenever none of their jobs is waiting.
    """
    crossing = _Crossing(work, cluster, packer, settings, actual, foresight=foresight)
    crossing.run()
    return crossing.outcome()


def forecast(
    situation: Situation, future: Workload | None, packer: Packer, settings: Settings, *, at_most: int = NEVER
) -> int | None:
    """Return how long the rest of a workflow takes if a packer continues from here; None if longer than `at_most`.

    Without a `future`, every job in the queue starts and ends as promised, and no other arrives.
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
    """The state of a workflow in a simulated queue."""

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
        """The tasks of a batch job that was already running when the simulation began."""
        self._held_until = cluster.now
        size = work.graph.size
        self._end = np.full(size, NEVER, np.int64)
        """When each task ends, as far as known."""
        self._foreseen = self._end if self._true is work else self._end.copy()
        """When each task ends according to what packers know."""
        self._left = np.ones(size, np.bool_)
        """Which tasks are neither done nor in a batch job."""
        self._waiting = work.graph.indegree.tolist()
        """How many tasks each one waits for; maintained only when tasks are submitted singly."""
        self._ready: deque[int] | None = None
        """The tasks that could be submitted; None as long as tasks are submitted in groups."""
        self._more = np.ones(size)
        """The factor on the time requested for each task, raised when it expires in a job of its own."""
        self._open: dict[int, Carried] = {}
        """The batch jobs in the system."""
        self._alone: set[int] = set()
        """The batch jobs of a single task that waits for nothing."""
        self._expired = False
        """Whether a group expired in this second."""
        self._carried: list[Carried] = []
        self._reasons: list[str] = []
        self._undone = size
        self._begin = cluster.now

    def go_on_from(self, situation: Situation) -> None:
        """Start from a situation in which some tasks are done and others are in a running batch job."""
        self._left = situation.left.mask.copy()
        self._undone = int(self._left.sum())
        self._end[~self._left] = self._begin
        self._held_until = self._begin + situation.delay
        if situation.ends is not None:
            self._held = np.flatnonzero(~self._left & (situation.ends > self._begin))
            # A batch job that will expire never ends some of its tasks: waiting for them would never end.
            self._end[self._held] = np.minimum(situation.ends[self._held], max(self._held_until, self._begin + 1))

    def run(self, at_most: int = NEVER) -> bool:
        """Simulate until all tasks are done; return False as soon as that takes longer than `at_most`."""
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
        """Advance to the next event, which can be the end of a batch job that was running at the beginning."""
        if self._held_until > self._cluster.now:
            events = self._cluster.advance(self._held_until)
            if self._cluster.now == self._held_until and self._held is not None and self._ready is not None:
                self._free_children(self._held.tolist())
                self._submit_ready()
            return events
        if not self._open and self._cluster.room() != 0:
            raise TonnageError("no job of the workflow is in the queue, and the packer submits none")
        return self._cluster.advance()

    def outcome(self) -> Outcome:
        """Return the makespan, the batch jobs and the reasons of the decisions."""
        return Outcome(int(self._end.max()) - self._begin, tuple(self._carried), self._end, tuple(self._reasons))

    def _ask(self) -> None:
        """Ask the packer and submit the jobs that it returns."""
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
        """Return when tasks ended or are expected to end; late tasks are expected at any moment."""
        now = self._cluster.now
        return np.where(self._end <= now, self._end, np.maximum(self._foreseen, now + 1))

    def _take(self, event: Event) -> bool:
        """Process an event; return whether there may now be something to submit."""
        number = event.job
        carried = self._open.get(number)
        if carried is None:
            return self._ready is None or event.kind != "started"  # another user's job, but it may have made room
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
        """Compute when the tasks of a batch job that starts now end, and hence the job itself."""
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
        """Return when everything that each task waits for outside its batch job is done, but not before the job starts.

        `known` is when tasks end, actual or expected.
        """
        graph = self._work.graph
        ends = known.copy()
        ends[tasks] = start
        found = np.full(graph.size, start, np.int64)
        np.maximum.at(found, graph.child, ends[graph.edge_parents()])
        return found[tasks]

    def _end_group(self, carried: Carried) -> None:
        """Record what a batch job did; if it expired without having waited for others, request more time later."""
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
        """Mark the tasks that a batch job did not finish as remaining."""
        tasks = carried.job.tasks
        undone = tasks[self._end[tasks] > self._cluster.now]
        self._end[undone] = self._foreseen[undone] = NEVER
        self._left[undone] = True
        if self._ready is not None:
            self._ready.extend(task for task in undone.tolist() if not self._waiting[task])

    def _cancel_behind(self) -> None:
        """Cancel the groups that depend on tasks no longer in any batch job."""
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
        """Switch to one batch job per task; tasks in running batch jobs stay there."""
        done = self._end <= self._cluster.now
        for carried in self._open.values():
            done[carried.job.tasks] = False  # they are counted when their batch job ends
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
        """Submit ready tasks, as many as the queue accepts."""
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
    """Return the jobs of some possible futures: those in the system come first, running ones before waiting ones.

    All futures use the same history, but each draws the ends of jobs anew and repeats a different week.
    """
    present, seen = cluster.present(), cluster.expected(_WEEKS * _WEEK, _WEEK)
    return tuple(_future(cluster, present, seen, weeks) for weeks in range(1, _WEEKS + 1))


def _future(cluster: Cluster, present: Present, seen: Workload, weeks: int) -> Workload:
    # Our own jobs are not expected to end early: their time limits come from the tasks' estimates.
    run = np.where(present.own, present.request, _drawn(present, seen, np.random.default_rng(weeks)))
    left = [np.maximum(1, time - present.elapsed) for time in (present.request, run)]
    here = np.stack([np.full(len(run), cluster.now), present.nodes, *left])
    return Workload.of(cluster.nodes, np.concatenate([here, _arriving(cluster.now, seen, weeks)], axis=1))


def _drawn(present: Present, seen: Workload, draw: np.random.Generator) -> IntArray:
    """Draw how long jobs run in total: the same fraction of the request as one of the jobs with a similar request.

    A job that has run longer than all of those uses its whole request.
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
    """Return the jobs that arrive within a week if the week that began `weeks` weeks ago repeats itself."""
    rows = np.stack([seen.submit, seen.nodes, seen.request, seen.run])
    if not len(seen):
        return rows
    # Everything seen happens again from now on, in order; rotated so that it begins with the chosen week.
    span = int(seen.submit[-1]) - now
    rows[0] = now + 1 + (seen.submit - now - 1 - (_WEEKS - weeks) * _WEEK) % span
    rows = rows[:, rows[0] <= now + _WEEK]
    return rows[:, np.argsort(rows[0], kind="stable")]
