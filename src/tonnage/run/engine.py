"""The engine decides which task starts next and with how much, and what happens to a task whose attempt ended.

It has no clock and no side effects: events come in, actions come out. Its driver (for this machine, a cluster or a
simulation) writes both to the journal before acting.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, log2, nan
from typing import TYPE_CHECKING

from tonnage.jobs import NOTHING_KNOWN, Amounts, Decision, Outcome, Resource
from tonnage.run.bad_nodes import BadNodes, kind_of
from tonnage.run.elastic_memory import ElasticMemory, as_grown, resized
from tonnage.run.events import (
    NOT_RETRIED,
    RETRIED_ELSEWHERE,
    Action,
    Adjustment,
    Carried,
    Ended,
    Settled,
    Start,
    State,
)
from tonnage.run.machines import Machine, Need, Space, largest, need_of
from tonnage.run.queue import Decided, Kind, Queue, key_of, task_of
from tonnage.run.retry_rules import Rules
from tonnage.size.learner import Learner, exceeded
from tonnage.size.reruns import AS_BEFORE, climbed
from tonnage.workflow import Task, Workflow

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Engine"]

_MOST_OVERTAKES = 32  # how often later tasks may overtake a blocked task before a machine is kept free for it


@dataclass(slots=True)
class _Running:
    start: Start
    need: Need | None
    """What it occupies of our room; None if a batch system allocates it."""
    grew_to: float | None = None
    """The memory that it holds, if it outgrew its allocation."""


class Engine:
    """The state of every task; driven by `ended` and `admit`."""

    def __init__(
        self,
        tasks: Sequence[Task],
        learner: Learner,
        room: Space,
        *,
        workflow: Workflow | None = None,
        places: "Sequence[int] | np.ndarray | None" = None,
        rules: Rules | None = None,
        input_bytes: Callable[[int], float] = lambda _: nan,
        done: Iterable[int] = (),
        sent: Iterable[int] = (),
        carried: Mapping[int, Carried] | None = None,
        awaited: Mapping[int, int] | None = None,
        first_attempt: int = 1,
    ) -> None:
        """Create an engine for `tasks`; `places` is the position of each in the preferred order.

        `input_bytes` returns the size of a task's inputs, and is called when the task becomes ready. `done` and
        `carried` are the results of an earlier engine; `sent` are tasks that it sent, or that are still running.
        `awaited` maps tasks to the number of tasks of other engines that they wait for.
        """
        self.tasks = list(tasks)
        self.rules = rules or Rules()
        self.learner = learner
        self.closed = False
        """Whether no more tasks may start."""
        self.last_attempt = inf
        """The highest number that an attempt may have."""
        self.states = bytearray(len(self.tasks))
        self.counts: Counter[int] = Counter(dict.fromkeys(State, 0))
        self.running: dict[int, _Running] = {}
        self.bad_nodes = BadNodes()
        self.avoided: frozenset[str] = frozenset()
        """The bad nodes on which nothing starts."""
        self._room = room
        self._elastic = ElasticMemory([one.memory for one in room.machines]) if self.rules.elastic else None
        self._stopped: dict[int, Outcome] = {}
        """Attempts that are being stopped to make room, and how that counts."""
        self._capacity = largest(room.machines)
        self._input_bytes = input_bytes
        self._places = array("q", range(len(self.tasks)) if places is None else map(int, places))
        self._children, self._child_start, self._missing = _links(workflow, len(self.tasks))
        self._next_attempt = first_attempt
        self._attempts = array("q", bytes(8 * len(self.tasks)))
        self._failures: Counter[int] = Counter()
        self._killed: Counter[int] = Counter()
        self._failed_at: dict[int, list[tuple[str, str, Counter[int]]]] = {}
        """On which nodes tasks failed, in which way, and where that is counted."""
        self._failed_on: dict[int, int] = {}
        """The machines on which tasks failed last."""
        self._again: dict[int, tuple[Decision, ...]] = {}
        self._sent: set[int] = set()
        self._inputs: dict[int, float] = {}
        self._learnt: set[str] = set()
        """Categories whose tasks finished since the last call of `admit`."""
        self._editions: dict[str, int] = {}
        self._queue = Queue(self._decide)
        # The first blocked task, how often others overtook it, and the machines that are kept free for blocked tasks.
        self._patient, self._passed = -1, 0
        self._reserved: dict[int, int] = {}
        self._refused: list[Settled] = []
        for task, others in (awaited or {}).items():
            self._missing[task] += others
        self._restore(done, sent, carried or {})

    # For the driver

    @property
    def finished(self) -> bool:
        """Whether nothing is running and nothing can start."""
        return not self.running and not self._sent and (self.closed or not self.counts[State.READY])

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines on which attempts run."""
        return self._room.machines

    @property
    def used_up(self) -> bool:
        """Whether there are no more numbers for attempts."""
        return self._next_attempt > self.last_attempt

    @property
    def outstanding(self) -> int:
        """The number of tasks that are running or were sent: on a cluster, some of them wait in its queue."""
        return len(self.running) + self.counts[State.SENT]

    def start_of(self, attempt: int) -> Start:
        """Return the start of a running attempt."""
        return self.running[attempt].start

    def next_try(self, task: int) -> Carried:
        """Return how many attempts a task had, and what the next one would be allocated."""
        decisions = self._again.get(task)
        if decisions is None:
            one, size = self.tasks[task], self._input_bytes(task)
            decisions = self.learner.decide(one.category, one.request, size)
        return Carried(self._attempts[task], decisions)

    def unreachable(self) -> list[int]:
        """Return the tasks that cannot run because a task they depend on failed."""
        found: list[int] = []
        seen = bytearray(len(self.tasks))
        stack = [number for number, state in enumerate(self.states) if state == State.FAILED]
        while stack:
            for child in self._children_of(stack.pop()):
                if not seen[child] and self.states[child] == State.WAITING:
                    seen[child] = 1
                    found.append(child)
                    stack.append(child)
        return found

    # Events

    def add(self, task: Task, known: Carried | None = None) -> int:
        """Add a task that depends on no other, with what is known about it; return its number."""
        number = len(self.tasks)
        self.tasks.append(task)
        self.states.append(State.WAITING)
        self.counts[State.WAITING] += 1
        self._places.append(number)
        self._missing.append(0)
        self._attempts.append(0)
        if known is not None:
            self._carry(number, known)
        self._make_ready(number)
        return number

    def ended(self, end: Ended) -> Settled:
        """Process the end of an attempt; return what happens to its task, and to others that failed on its node."""
        if end.host is None:
            return self._ended(end)
        changed = self._judge_node(self.running[end.attempt].start.task, end, end.host)
        settled = self._ended(end)
        revived = self.avoid_bad_nodes(end.ended) if changed and end.ended is not None else []
        if settled.task in revived:
            revived.remove(settled.task)
            settled = Settled(settled.task, State.READY, RETRIED_ELSEWHERE)
        return replace(settled, revived=tuple(revived)) if revived else settled

    def _ended(self, end: Ended) -> Settled:
        ran = self.running.pop(end.attempt)
        self._stopped.pop(end.attempt, None)
        if ran.need is not None:
            self._room.give_back(ran.start.machine, ran.need)
            if self._elastic is not None:
                self._elastic.ended(end.attempt)
                self._room.hold_back(ran.start.machine, self._elastic.held_back(ran.start.machine))
        task = ran.start.task
        if end.outcome is Outcome.DONE:
            self._learn(task, end.used, ran.start.input_bytes)
            self._set(task, State.DONE)
            self._sent.discard(task)
            self._inputs.pop(task, None)
            self._again.pop(task, None)
            self._failed_at.pop(task, None)
            for child in self._children_of(task):
                self.awaited_is_done(child)
            return Settled(task, State.DONE)
        if end.outcome is Outcome.CANCELLED:
            self._set(task, State.STOPPED)
            self._sent.discard(task)
            return Settled(task, State.STOPPED, "cancelled")
        return self._retry_or_fail(ran, end)

    def awaited_is_done(self, task: int) -> None:
        """Note that one of the tasks that `task` waits for is done."""
        self._missing[task] -= 1
        if not self._missing[task] and self.states[task] == State.WAITING:
            self._make_ready(task)

    def send(self, tasks: Iterable[int]) -> None:
        """Hand tasks over to a batch job, which starts them itself."""
        for task in tasks:
            if self.states[task] == State.READY:
                self._queue.drop(*self._queued_as(task))
            self._sent.add(task)
            self._set(task, State.SENT)

    def take_back(self, task: int) -> None:
        """Take back a task that was sent, to start it here when it is ready."""
        self._sent.discard(task)
        if self.states[task] == State.SENT:
            self._set(task, State.WAITING)
            if not self._missing[task]:
                self._make_ready(task)

    def adopt(self, start: Start, *, in_our_room: bool = False, grew_to: float | None = None) -> None:
        """Register an attempt that started elsewhere, or that an earlier engine started in our room.

        `grew_to` is the memory that it holds, if it has outgrown its allocation.
        """
        need = need_of(start.decisions) if in_our_room else None
        if in_our_room:
            self._sent.discard(start.task)
        if need is not None:
            self._occupy(start, need, 0.0)
        self._attempts[start.task] = start.number
        self._next_attempt = max(self._next_attempt, start.attempt + 1)
        self.running[start.attempt] = _Running(start, need, grew_to)
        self._set(start.task, State.RUNNING)

    def grew(self, attempt: int, memory: float) -> None:
        """Note that an attempt that started elsewhere has outgrown its allocation, and how much it holds now."""
        self.running[attempt].grew_to = memory

    def saw(self, attempt: int, memory: float | None, seconds: float) -> None:
        """Note what a running attempt uses, measured this long after its start."""
        if self._elastic is not None and memory is not None:
            self._elastic.saw(attempt, memory, seconds)

    def available(self, machine: int, memory: float) -> None:
        """Note how much memory a machine has left, whatever runs there."""
        if self._elastic is not None:
            self._elastic.available(machine, memory)

    def lose(self, machine: int) -> None:
        """Note that a machine was lost; the ends of the attempts that ran there are reported separately."""
        self._reserved.pop(machine, None)
        self._room.lose(machine)

    def avoid_bad_nodes(self, now: float) -> list[int]:
        """Start nothing on nodes that are bad by now; return the failed tasks that are retried because of that.

        Failures there do not count as retries.
        """
        bad = self.bad_nodes.avoided(now)
        self.avoided = self._room.avoid(list(dict.fromkeys(one.node for one in bad)))
        kinds = {(one.node, one.kind) for one in bad if one.node in self.avoided}
        return [task for task in list(self._failed_at) if kinds and self._forgive(task, kinds)]

    def _forgive(self, task: int, kinds: Collection[tuple[str, str]]) -> bool:
        """Stop counting failures of a task on bad nodes; return whether it is retried although it had failed."""
        failures = self._failed_at[task]
        left = [one for one in failures if one[:2] not in kinds]
        for _, _, counted in failures:
            counted[task] -= 1
        for _, _, counted in left:
            counted[task] += 1
        self._failed_at[task] = left
        last = failures[-1] if failures else None
        if last is None or last[:2] not in kinds or self.states[task] != State.FAILED or self.rules.fail_fast:
            return False
        self._make_ready(task)
        return True

    def _judge_node(self, task: int, end: Ended, node: str) -> bool:
        """Learn what an attempt tells about its node; return whether that changes which nodes are bad."""
        one, kind = self.tasks[task], kind_of(end.outcome, end.exit_status, end.signal)
        if end.ended is None:
            return False
        if kind is not None:
            counted = self._failures if end.outcome is Outcome.FAILED else self._killed
            self._failed_at.setdefault(task, []).append((node, kind, counted))
        changed = self.bad_nodes.ended(one.name, one.category, node, end.outcome, kind, end.ended)
        return changed or node in self.avoided

    def skip_attempts(self, count: int) -> int:
        """Reserve `count` attempt numbers for another engine, and return the first of them."""
        first, self._next_attempt = self._next_attempt, self._next_attempt + count
        return first

    def give_up(self, task: int, reason: str) -> Settled:
        """Mark a task that was sent as failed: it can never run."""
        return self._fail(task, reason)

    def cancel(self, task: int) -> bool:
        """Cancel a task unless it has started; return whether it was cancelled."""
        state = self.states[task]
        if state not in (State.WAITING, State.READY):
            return False
        if state == State.READY:
            self._queue.drop(*self._queued_as(task))
        self._set(task, State.STOPPED)
        return True

    def _learn(self, task: int, used: Amounts, input_bytes: float) -> None:
        category = self.tasks[task].category
        self.learner.observe(category, used, input_bytes, task)
        self._learnt.add(category)

    def _more_for(self, start: Start, exhausted: Resource, seen: float | None) -> tuple[Decision, ...] | None:
        """Learn from an attempt that ran out of a resource, and return what the next one gets, if there is more."""
        task, size = self.tasks[start.task], start.input_bytes
        given: float | None = getattr(start.allocated, exhausted)
        known = [one for one in (seen, given) if one is not None]
        if known:
            self._learn_need(start, exhausted, max(known))
        if self.rules.elastic and exhausted is Resource.MEMORY:
            return resized(start.decisions, seen or 0.0)
        if self.rules.grow_all:
            return climbed(start.decisions, exhausted, seen=seen, grow_all=True)
        return self.learner.retry(task.category, start.decisions, exhausted, seen, task.request, size)

    def _learn_need(self, start: Start, resource: Resource, least: float) -> None:
        """Learn that a task needs at least this much, before it has finished."""
        category = self.tasks[start.task].category
        self.learner.observe_exhausted(category, start.task, resource, least, start.input_bytes)
        self._learnt.add(category)

    def _apply_what_was_learnt(self) -> None:
        """Update the decisions for ready tasks whose category has learnt something new."""
        for category in self._learnt:
            if self._queue.holds(category):
                edition = self.learner.edition(category)
                if edition != self._editions.get(category):
                    self._editions[category] = edition
                    self._queue.decide_anew(category)
        self._learnt.clear()

    def _retry_or_fail(self, ran: _Running, end: Ended) -> Settled:
        task, decisions = ran.start.task, ran.start.decisions
        if ran.grew_to is not None:
            decisions = as_grown(decisions, ran.grew_to)
        if end.outcome is Outcome.FAILED or end.killed:
            self._failed_on[task] = ran.start.machine
        if end.outcome is Outcome.EXHAUSTED:
            resource = end.exhausted or Resource.MEMORY
            seen: float | None = getattr(end.used, resource)
            more = self._more_for(ran.start, resource, seen)
            if more is None:
                return self._fail(task, f"needs more {resource} than is available")
            retrying = "retrying with more" if end.note else f"out of {resource}; retrying with more"
            return self._retry(task, more, retrying)
        if end.outcome is Outcome.FAILED:
            self._failures[task] += 1
            if end.hopeless or self._failures[task] > self.rules.retries:
                return self._fail(task, NOT_RETRIED)
            return self._retry(task, decisions, f"retrying ({self._failures[task]} of {self.rules.retries})")
        if end.killed:
            self._killed[task] += 1
            if self._killed[task] > self.rules.kills:
                return self._fail(task, f"killed {self._killed[task]} times; {NOT_RETRIED}")
        retrying = "retrying with the same size" if end.note else f"{end.outcome}; retrying with the same size"
        return self._retry(task, decisions, "held until it is released" if end.held else retrying)

    def _retry(self, task: int, decisions: tuple[Decision, ...], reason: str) -> Settled:
        self._again[task] = decisions
        if task in self._sent:
            self._set(task, State.SENT)  # the batch job retries it
        else:
            self._make_ready(task)
        return Settled(task, State.READY, reason)

    def _fail(self, task: int, reason: str) -> Settled:
        self._set(task, State.FAILED)
        if not reason.endswith(NOT_RETRIED):
            self._failed_at.pop(task, None)  # no node is to blame
        self._again.pop(task, None)
        self._sent.discard(task)
        if self.rules.fail_fast:
            self.closed = True
        return Settled(task, State.FAILED, reason)

    # Actions

    def adjust(self, now: float) -> list[Adjustment]:
        """Return what changes for running attempts, given what they were seen to use; it takes effect from here on."""
        if self._elastic is None:
            return []
        changes: list[Adjustment] = []
        for machine in self._elastic.changed():
            found = [*self._elastic.adjust(machine, now)]
            for one in found:
                self._apply(one)
            self._room.hold_back(machine, self._elastic.held_back(machine))
            changes += found
        return changes

    def stopped_as(self, attempt: int) -> Outcome | None:
        """Return how the end of a running attempt counts if it is being stopped to make room; None if it is not."""
        return self._stopped.get(attempt)

    def _apply(self, change: Adjustment) -> None:
        ran = self.running[change.attempt]
        if self._elastic is None:
            return
        if change.action is Action.GROW and change.memory is not None and ran.need is not None:
            cores, _, disk = ran.need
            need = cores, change.memory, disk
            self._room.grow(ran.start.machine, ran.need, need)
            ran.need, ran.grew_to = need, change.memory
            self._learn_need(ran.start, Resource.MEMORY, self._elastic.used(change.attempt))
        elif change.action is Action.STOP:
            outgrew = self._elastic.outgrew(change.attempt)
            self._stopped[change.attempt] = Outcome.EXHAUSTED if outgrew else Outcome.PREEMPTED

    def admit(self, now: float = 0.0) -> list[Start]:
        """Return the tasks to start now; they count as running from here on.

        Tasks start in order. A task for which there is no room lets others overtake it, but not indefinitely.
        """
        if self.closed:
            return []
        self._apply_what_was_learnt()
        starts = [*self._on_reserved_machines(now)]
        self._queue.wake(self._room.gained())
        last = -1
        while self._may_start and (kind := self._queue.next()) is not None:
            machine = self._find(kind)
            if machine is not None:
                last = max(last, kind.key)
                starts.append(self._start(kind, machine, now))
        if starts:
            self._be_patient(last)
        return starts

    def _find(self, kind: Kind) -> int | None:
        """Return a machine for the first task of a kind, preferably another one than that on which it failed."""
        need, failed_on = kind.decided[1], self._failed_on.get(task_of(kind.key))
        other = None if failed_on is None else self._room.find(need, but=failed_on)
        return self._room.find(need) if other is None else other

    @property
    def _may_start(self) -> bool:
        """Whether there is a number for another attempt, and fewer run than may."""
        at_once = self.rules.at_once
        return not self.used_up and (at_once is None or len(self.running) < at_once)

    def refused(self) -> list[Settled]:
        """Return the tasks that failed without an attempt since the last call, because no machine is large enough."""
        found, self._refused = self._refused, []
        return found

    def _start(self, kind: Kind, machine: int, now: float) -> Start:
        """Start the first task of a kind."""
        task, (decisions, need) = task_of(kind.key), kind.decided
        attempt, self._next_attempt = self._next_attempt, self._next_attempt + 1
        self._attempts[task] += 1
        start = Start(attempt, task, self._attempts[task], machine, decisions, self._inputs.get(task, nan))
        self._occupy(start, need, now)
        self.running[attempt] = _Running(start, need)
        self._set(task, State.RUNNING)
        self._queue.started(kind)
        return start

    def _occupy(self, start: Start, need: Need, now: float) -> None:
        """Take the room of an attempt that starts."""
        self._room.take(start.machine, need)
        if self._elastic is not None:
            # A task that its author or its own past sized is not expected to outgrow that.
            known = self.tasks[start.task].request.memory is not None or any(
                one.resource is Resource.MEMORY and one.strategy == AS_BEFORE for one in start.decisions
            )
            self._elastic.started(start.attempt, start.machine, need[1], now, known=known)
            self._room.hold_back(start.machine, self._elastic.held_back(start.machine))

    def _be_patient(self, last: int) -> None:
        """Count overtakings of the first blocked task, and reserve a machine for it once there were too many."""
        first = self._queue.first_blocked(self._reserved.values())
        if first is None:
            return
        if first.key != self._patient:
            self._patient, self._passed = first.key, 0
        if last > first.key:
            self._passed += 1
        if self._passed >= _MOST_OVERTAKES:
            machine = self._room.reserve(first.decided[1])
            if machine is not None:
                self._reserved[machine] = first.key

    def _on_reserved_machines(self, now: float) -> Iterator[Start]:
        """Start the tasks for which machines were kept free, if there is room now."""
        for machine, key in list(self._reserved.items()):
            kind = self._queue.head(key)
            if kind is not None and self._room.fits_on(machine, kind.decided[1]) and self._may_start:
                yield self._start(kind, machine, now)
            elif kind is not None and self._room.fits_when_empty(machine, kind.decided[1]):
                continue
            del self._reserved[machine]
            self._room.release(machine)

    def _decide(self, task: int) -> Decided | None:
        """Return what a task is allocated; None if it fails because no machine is large enough."""
        decisions = self._again.get(task)
        if decisions is None:
            requested = self.tasks[task].request
            too_much = None if requested is NOTHING_KNOWN else exceeded(requested, self._capacity)
            if too_much is not None:
                amount, most = (
                    too_much.format_amount(getattr(requested, too_much)),
                    too_much.format_amount(self._capacity[too_much]),
                )
                problem = f"requests {amount} of {too_much}, but only {most} is available"
                self._refused.append(self._fail(task, problem))
                return None
            decisions = self.learner.decide(self.tasks[task].category, requested, self._inputs.get(task, nan))
        need = need_of(decisions)
        if not self._room.fits_an_empty_machine(need):
            self._refused.append(self._fail(task, "no machine is large enough"))
            return None
        return decisions, need

    # State

    def _set(self, task: int, state: State) -> None:
        self.counts[self.states[task]] -= 1
        self.counts[state] += 1
        self.states[task] = state

    def _make_ready(self, task: int) -> None:
        self._set(task, State.READY)
        size = self._inputs.get(task)
        if size is None:
            size = self._input_bytes(task)
            if not isnan(size):
                self._inputs[task] = size
        alike = task not in self._again and not size > 0  # NaN, an unknown size, is not greater than 0 either
        self._queue.put(*self._queued_as(task), alike=alike)

    def _queued_as(self, task: int) -> tuple[int, str, Hashable]:
        """Return the key of a task in the queue, its category, and a name shared by tasks with the same allocation."""
        one, decided, size = self.tasks[task], self._again.get(task), self._inputs.get(task, nan)
        # If the size of the inputs matters, tasks with similar sizes get nearly the same.
        magnitude = int(log2(size)) if size > 0 else None
        return self._key(task), one.category, (one.request, magnitude) if decided is None else need_of(decided)

    def _key(self, task: int) -> int:
        return key_of(self._places[task], task)

    def _children_of(self, task: int) -> "array[int]":
        if task + 1 >= len(self._child_start):
            return _NO_TASKS
        return self._children[self._child_start[task] : self._child_start[task + 1]]

    def _carry(self, task: int, known: Carried) -> None:
        """Adopt what is known about a task; a size for which no machine is large enough any more is decided anew."""
        self._attempts[task] = known.attempts
        if known.decisions is not None and self._room.fits_an_empty_machine(need_of(known.decisions)):
            self._again[task] = known.decisions

    def _restore(self, done: Iterable[int], sent: Iterable[int], carried: Mapping[int, Carried]) -> None:
        self.counts[State.WAITING] = len(self.tasks)
        self.send(sent)
        for task in done:
            self._set(task, State.DONE)
            for child in self._children_of(task):
                self._missing[child] -= 1
        for task, known in carried.items():
            self._carry(task, known)
        for task, state in enumerate(self.states):
            if state == State.WAITING and not self._missing[task]:
                self._make_ready(task)


_NO_TASKS: "array[int]" = array("i")


def _links(workflow: Workflow | None, size: int) -> "tuple[array[int], array[int], array[int]]":
    """Return the children of all tasks, the offset of each task's children, and each task's number of parents."""
    if workflow is None or workflow.dependencies is None:
        return array("i"), array("q"), array("q", bytes(8 * size))
    graph = workflow.dependencies
    children, start, missing = array("i"), array("q"), array("q")
    children.frombytes(graph.child.astype("i4").tobytes())
    start.frombytes(graph.child_start.astype("i8").tobytes())
    missing.frombytes(graph.indegree.astype("i8").tobytes())
    return children, start, missing
