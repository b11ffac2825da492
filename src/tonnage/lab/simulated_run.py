"""Simulate a run: the real engine on virtual machines with a virtual clock and recorded needs.

By default peaks are slow, as in the papers: an attempt that needs more memory or disk than it was allocated fails at
the end of its run time, and all of that is paid for. If attempts may outgrow their memory instead (`Growth`), it rises
evenly until a stated part of the run time, and the engine lets them grow, pauses them or stops one.

Cores only limit how many tasks run side by side; a task with fewer cores than it used is not slower. A task of unknown
run time takes no time; a resource of unknown need cannot be exhausted.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from math import ceil, isnan, nan

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jobs import EXHAUSTIBLE, NOTHING_KNOWN, SHARED, Amounts, Outcome, Resource
from tonnage.rank import rank
from tonnage.run.engine import Engine
from tonnage.run.events import Action, Ended, Start, State
from tonnage.run.machines import Machine, Room
from tonnage.run.queue import places_of
from tonnage.run.retry_rules import Rules
from tonnage.size import Plan, Records
from tonnage.size.histograms import FloatArray
from tonnage.size.learner import Learner
from tonnage.units import Bytes, Cores, Seconds
from tonnage.waste import added_up, used_amounts
from tonnage.workflow import Task, Workflow

__all__ = ["ORACLE", "Growth", "Load", "Simulation", "play", "played", "simulate"]

ORACLE = "oracle"
"""The name of the ideal strategy, which knows every peak beforehand."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Tasks with what they need; arrays have one number per task, and NaN means unknown."""

    tasks: tuple[Task, ...]
    need: Mapping[Resource, FloatArray]
    """The peak of each resource that tasks share."""
    seconds: FloatArray
    inputs: FloatArray
    """The input sizes."""
    workflow: Workflow | None = None
    """The dependencies; without a workflow there are none."""

    def __len__(self) -> int:
        return len(self.tasks)

    @classmethod
    def of_workflow(cls, workflow: Workflow) -> "Load":
        """Return the tasks of a workflow whose run times are known."""
        if workflow.total_seconds is None:
            raise InputError(
                "the run times of its tasks are unknown",
                path=workflow.source.path if workflow.source else None,
                hint="a replay needs recorded run times: a WfFormat instance, a DAX or a log",
            )
        known = {one: _numbers(getattr(task.expected, one) for task in workflow.tasks) for one in SHARED}
        inputs = _numbers(task.input_bytes for task in workflow.tasks)
        return cls(workflow.tasks, known, workflow.seconds, inputs, workflow)

    @classmethod
    def of_records(cls, records: Records) -> "Load":
        """Return recorded jobs as independent tasks, in their order."""
        seconds = records.history.used[Resource.WALL_TIME]
        kept = records.only(records.history.finished & (seconds >= 0) & (seconds < np.inf))
        if not len(kept):
            raise InputError("no finished job has a known run time")
        asked = {one: kept.history.requested[one].tolist() for one in SHARED}
        tasks = tuple(
            Task(str(number), category=records.names[group], request=_amounts(*amounts))
            for number, (group, *amounts) in enumerate(zip(kept.group.tolist(), *asked.values(), strict=True))
        )
        used = kept.history.used
        return cls(tasks, {one: used[one] for one in SHARED}, used[Resource.WALL_TIME], kept.history.input_bytes)

    def known_beforehand(self) -> "Load":
        """Return the same tasks, each requesting exactly what it needs."""
        needs = [np.fmax(self.need[one], 1.0).tolist() for one in SHARED]  # an allocation cannot be zero
        own = (_amounts(*amounts) for amounts in zip(*needs, strict=True))
        tasks = tuple(replace(task, request=asked) for task, asked in zip(self.tasks, own, strict=True))
        return replace(self, tasks=tasks)


@dataclass(frozen=True, slots=True)
class Growth:
    """How the memory of attempts rises if they may outgrow their allocations."""

    peak_at: float = 0.5
    """The part of its run time after which a task needs all of its memory."""
    reports: int = 8
    """How many times the engine hears about it on the way."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """The outcome of a load: arrays with one number per attempt, in the order in which attempts ended."""

    load: Load
    strategy: str
    task: NDArray[np.int64]
    number: NDArray[np.int64]
    """Which attempt of its task it is, from 1."""
    machine: NDArray[np.int64]
    start: FloatArray
    end: FloatArray
    given: Mapping[Resource, FloatArray]
    """The allocations, on average over the run time of an attempt; NaN where a resource is not limited."""
    done: NDArray[np.bool_]
    """Whether the attempt succeeded; the others ran out of a resource, or were stopped to make room."""
    failed: int
    """How many tasks failed, or could not run because they depend on one that did."""

    def __len__(self) -> int:
        return len(self.task)

    @property
    def makespan(self) -> float:
        """When the last attempt ended."""
        return float(self.end.max(initial=0.0))

    @property
    def retries(self) -> int:
        """How many attempts were not the first of their task."""
        return int((self.number > 1).sum())

    @cached_property
    def waste_fraction(self) -> dict[Resource, float]:
        """The fraction of the allocations of each limited resource that was not used."""
        return self.waste_of(np.ones(len(self.load), np.bool_))

    def used(self, resource: Resource) -> FloatArray:
        """Return what each attempt used productively: 0 if it failed, NaN if unknown."""
        return used_amounts(self.given[resource], self.load.need[resource][self.task], self.done)

    def waste_of(self, tasks: NDArray[np.bool_]) -> dict[Resource, float]:
        """Return the fraction of some tasks' allocations that was not used, failed attempts included."""
        chosen = tasks[self.task]
        task, seconds, done = self.task[chosen], (self.end - self.start)[chosen], self.done[chosen]
        accounts = {
            resource: added_up(self.given[resource][chosen], self.load.need[resource][task], seconds, done)
            for resource in SHARED
        }
        wasted = {resource: account.waste_fraction for resource, account in accounts.items()}
        return {resource: part for resource, part in wasted.items() if part is not None}


def play(
    load: Load,
    machines: Sequence[Machine],
    strategy: str,
    *,
    order: str = "prio",
    growth: Growth | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Simulation:
    """Run a load on machines with the sizes of a strategy or the oracle; `tick` is called after each finished task.

    With `growth`, attempts may outgrow their memory, except for the oracle's.
    """
    if strategy == ORACLE:
        found = play(load.known_beforehand(), machines, "declared", order=order, tick=tick)
        return replace(found, load=load, strategy=ORACLE)
    plan = Plan(strategy=strategy, machine=largest(machines).amounts(), resources=SHARED)
    return simulate(load, machines, plan, order=order, growth=growth, tick=tick)


def simulate(
    load: Load,
    machines: Sequence[Machine],
    plan: Plan,
    *,
    order: str = "prio",
    growth: Growth | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Simulation:
    """Run a load on machines with a sizing plan; the tasks of a workflow run in the order of a ranking method."""
    check_fits(load, machines)
    inputs = load.inputs.tolist()
    workflow = load.workflow
    engine = Engine(
        load.tasks,
        Learner(replace(plan, can_grow=growth is not None)),
        Room(machines),
        workflow=workflow,
        places=None if workflow is None else places_of(workflow, rank(workflow, order).tolist()),
        rules=Rules(elastic=growth is not None),
        input_bytes=inputs.__getitem__,
    )
    return played(engine, load, plan.strategy, growth=growth, tick=tick)


def played(
    engine: Engine,
    load: Load,
    strategy: str,
    *,
    growth: Growth | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Simulation:
    """Run a load with an engine for which everything is decided; `tick` is called after each finished task."""
    elastic = engine.rules.elastic
    virtual = _ElasticMachines(load, growth or Growth()) if elastic else _VirtualMachines(load)
    for start, end in virtual.attempts(engine):
        virtual.note(start, end)
        if end.outcome is Outcome.DONE:
            tick()
    return virtual.simulation(strategy, len(load) - engine.counts[State.DONE])


def largest(machines: Sequence[Machine]) -> Machine:
    """Return the machine that tasks are sized for: the one with the most memory."""
    return max(machines, key=lambda one: (one.memory, one.cores, one.disk))


def check_fits(load: Load, machines: Sequence[Machine]) -> None:
    """Raise InputError if a task fits on no machine."""
    most = largest(machines)
    for resource in EXHAUSTIBLE:
        need, capacity = load.need[resource], getattr(most, resource)
        many = int((need > capacity).sum())
        if many:
            task = load.tasks[int(np.nanargmax(need))]
            what = f"{resource.format_amount(float(np.nanmax(need)))} of {resource}"
            raise InputError(
                f'a job of "{task.category}" used {what}, '
                f"but the largest machine has {resource.format_amount(capacity)}"
                + (f"; {many:,} jobs fit on no machine" if many > 1 else ""),
                hint="give larger --machines, or exclude such jobs with --where",
            )


class _VirtualMachines:
    """Runs attempts in virtual time, each as long as its task did, and records their outcomes."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._seconds: list[float] = load.seconds.tolist()
        self._need = {one: load.need[one].tolist() for one in SHARED}
        self._cores, self._memory, self._disk = (self._need[one] for one in SHARED)
        self._numbers = [array("q") for _ in range(3)]
        self._times = [array("d") for _ in range(2)]
        self._given = {one: array("d") for one in SHARED}
        self._done = bytearray()
        self._more: dict[int, float] = {}
        """What attempts held beyond their allocations, in bytes times seconds."""

    def attempts(self, engine: Engine) -> Iterator[tuple[Start, Ended]]:
        """Yield attempts as they end; all that end at the same time are reported before others start."""
        clock: list[tuple[float, int, float]] = []
        now = 0.0
        while True:
            for start in engine.admit():
                heappush(clock, (now + self._seconds[start.task], start.attempt, now))
            if not clock:
                return
            now = clock[0][0]
            while clock and clock[0][0] <= now:
                _, attempt, began = heappop(clock)
                start = engine.start_of(attempt)
                end = self._end(start, began, now)
                engine.ended(end)
                yield start, end

    def note(self, start: Start, end: Ended) -> None:
        """Record a finished attempt."""
        for column, number in zip(self._numbers, (start.task, start.number, start.machine), strict=True):
            column.append(number)
        for moments, moment in zip(self._times, (end.started, end.ended), strict=True):
            moments.append(nan if moment is None else moment)
        given = {one.resource: one.amount for one in start.decisions}
        more = self._more.pop(start.attempt, 0.0)
        if more and end.ended is not None and end.started is not None and end.ended > end.started:
            given[Resource.MEMORY] += more / (end.ended - end.started)
        for resource, amounts in self._given.items():
            amounts.append(given.get(resource, nan))
        self._done.append(end.outcome is Outcome.DONE)

    def simulation(self, strategy: str, failed: int) -> Simulation:
        """Return everything that was recorded."""
        task, number, machine = (np.array(column, np.int64) for column in self._numbers)
        start, end = (np.array(moments) for moments in self._times)
        return Simulation(
            load=self._load,
            strategy=strategy,
            task=task,
            number=number,
            machine=machine,
            start=start,
            end=end,
            given={resource: np.array(amounts) for resource, amounts in self._given.items()},
            done=np.frombuffer(self._done, np.bool_),
            failed=failed,
        )

    def _end(self, start: Start, began: float, now: float) -> Ended:
        task, exhausted = start.task, self._exhausted(start)
        if exhausted is not None:
            outcome = Outcome.EXHAUSTED
            return Ended(attempt=start.attempt, outcome=outcome, exhausted=exhausted, started=began, ended=now)
        used = Amounts(
            _known(self._cores[task]),
            _whole(self._memory[task]),
            _whole(self._disk[task]),
            Seconds(self._seconds[task]),
        )
        return Ended(attempt=start.attempt, outcome=Outcome.DONE, used=used, started=began, ended=now)

    def _exhausted(self, start: Start) -> Resource | None:
        for one in start.decisions:
            if one.resource in EXHAUSTIBLE and self._need[one.resource][start.task] > one.amount:
                return one.resource
        return None


@dataclass(slots=True)
class _Growing:
    """A running attempt whose memory rises."""

    start: Start
    began: float
    seconds: float
    memory: float
    done: float = 0.0
    """The seconds of its run time that are over."""
    since: float | None = None
    """When it started or was resumed; None while it is paused."""
    reported: int = 0
    turn: int = 0
    """Changes when it is paused or resumed: earlier entries of the clock do not count any more."""


class _ElasticMachines(_VirtualMachines):
    """Runs attempts whose memory rises in virtual time, and which the engine lets grow, pauses or stops."""

    def __init__(self, load: Load, growth: Growth) -> None:
        super().__init__(load)
        self._growth = growth
        self._clock: list[tuple[float, int, int]] = []
        self._running: dict[int, _Growing] = {}
        self._grown: dict[int, list[tuple[float, float]]] = {}

    def attempts(self, engine: Engine) -> Iterator[tuple[Start, Ended]]:
        """Yield attempts as they end; all that happens at the same time is reported before others start."""
        now = 0.0
        while True:
            for start in engine.admit(now):
                task = start.task
                memory = self._memory[task]
                one = _Growing(start, now, self._seconds[task], 0.0 if isnan(memory) else memory, since=now)
                self._running[start.attempt] = one
                self._schedule(one, now)
            if not self._clock:
                return
            now = self._clock[0][0]
            while self._clock and self._clock[0][0] <= now:
                _, attempt, turn = heappop(self._clock)
                due = self._running.get(attempt)
                if due is not None and due.turn == turn:
                    yield from self._next(engine, due, now)
            yield from self._adjust(engine, now)

    def _next(self, engine: Engine, one: _Growing, now: float) -> Iterator[tuple[Start, Ended]]:
        """Report the next level of an attempt's memory, or its end."""
        if one.reported >= self._growth.reports:
            yield self._finish(engine, one, self._end(one.start, one.began, now))
            return
        one.reported += 1
        engine.saw(one.start.attempt, one.memory * one.reported / self._growth.reports, self._level(one, one.reported))
        self._schedule(one, now)

    def _adjust(self, engine: Engine, now: float) -> Iterator[tuple[Start, Ended]]:
        while changes := engine.adjust(now):
            for change in changes:
                one = self._running[change.attempt]
                if change.action is Action.GROW:
                    self._grown.setdefault(change.attempt, []).append((now, change.more))
                elif change.action is Action.PAUSE:
                    one.done, one.since = self._progress(one, now), None
                    one.turn += 1
                elif change.action is Action.RESUME:
                    one.since = now
                    one.turn += 1
                    self._schedule(one, now)
                else:
                    yield self._finish(engine, one, self._stopped(engine, one, now))

    def _finish(self, engine: Engine, one: _Growing, end: Ended) -> tuple[Start, Ended]:
        del self._running[end.attempt]
        ended = end.ended or 0.0
        self._more[end.attempt] = sum(more * (ended - at) for at, more in self._grown.pop(end.attempt, ()))
        engine.ended(end)
        return one.start, end

    def _stopped(self, engine: Engine, one: _Growing, now: float) -> Ended:
        outcome = engine.stopped_as(one.start.attempt) or Outcome.PREEMPTED
        used = Amounts(memory=_whole(one.memory * one.reported / self._growth.reports))
        exhausted = Resource.MEMORY if outcome is Outcome.EXHAUSTED else None
        return Ended(
            attempt=one.start.attempt, outcome=outcome, exhausted=exhausted, used=used, started=one.began, ended=now
        )

    def _progress(self, one: _Growing, now: float) -> float:
        return one.done if one.since is None else one.done + now - one.since

    def _level(self, one: _Growing, number: int) -> float:
        """Return the seconds of its run time after which an attempt has reached a level of memory."""
        return one.seconds * self._growth.peak_at * number / self._growth.reports

    def _schedule(self, one: _Growing, now: float) -> None:
        last = one.reported >= self._growth.reports
        due = one.seconds if last else self._level(one, one.reported + 1)
        heappush(self._clock, (now + max(0.0, due - self._progress(one, now)), one.start.attempt, one.turn))

    def _exhausted(self, start: Start) -> Resource | None:  # noqa: ARG002 (it has what it needs)
        return None


def _numbers(values: "Iterator[float | None]") -> FloatArray:
    return np.array([nan if value is None else value for value in values], np.float64)


def _amounts(cores: float, memory: float, disk: float) -> Amounts:
    if isnan(cores) and isnan(memory) and isnan(disk):
        return NOTHING_KNOWN
    return Amounts(_known(cores), _whole(memory), _whole(disk))


def _known(value: float) -> Cores | None:
    return None if isnan(value) else Cores(value)


def _whole(value: float) -> Bytes | None:
    """Round up to whole bytes."""
    return None if isnan(value) else Bytes(ceil(value))
