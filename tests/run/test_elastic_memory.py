"""Elastic memory: tasks outgrow their allocations while there is room, pause before one is stopped; none starves."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.run.test_engine import engine_of
from tonnage.jobs import Amounts, Outcome, Resource
from tonnage.run.elastic_memory import as_grown, resized
from tonnage.run.engine import Engine
from tonnage.run.events import Action, Ended, Start, State
from tonnage.run.machines import Machine
from tonnage.run.retry_rules import Rules
from tonnage.workflow import Task

MB = 10**6
TICK = 0.05
MEMORY = 1024.0 * MB
FLOOR = MEMORY / 128  # of the machine that always stays free, if growth is bounded as it is here


@dataclass
class Growing:
    """A task of the model: its memory rises evenly until half of its time."""

    start: Start
    need: float
    seconds: float
    began: float
    done: float = 0.0
    paused: bool = False

    @property
    def used(self) -> float:
        return self.need * min(1.0, self.done / (self.seconds / 2))


@dataclass
class Neighbour:
    """Another program, whose memory rises evenly at some time, and falls as evenly later."""

    most: float
    begins: float
    ends: float
    rate: float = FLOOR / (4 * TICK)

    def used(self, now: float) -> float:
        rises, falls = (max(0.0, now - moment) * self.rate for moment in (self.begins, self.ends))
        return max(0.0, min(self.most, rises) - falls)


class Model:
    """Runs an engine's tasks in small steps of time, and checks its promises at every step."""

    def __init__(self, engine: Engine, needs: list[tuple[float, float]], neighbour: Neighbour | None = None) -> None:
        self.engine = engine
        self.needs = needs
        self.neighbour = neighbour
        self.running: dict[int, Growing] = {}
        self.now = 0.0
        self.stopped = 0

    def go(self) -> None:
        self.look()
        self.admit()
        for _ in range(200_000):
            if not self.running:
                return
            self.step()
        raise AssertionError("a task starves")

    def step(self) -> None:
        self.now += TICK
        for one in list(self.running.values()):
            one.done += 0.0 if one.paused else TICK
            if one.done >= one.seconds:
                self.end(one, Outcome.DONE, one.need)
            else:
                self.engine.saw(one.start.attempt, one.used, one.done)
        used = self.look()
        assert used <= MEMORY - FLOOR or len(self.running) == 1, f"{used / MB:.0f} MB used"
        self.adjust()
        assert not self.running or not all(one.paused for one in self.running.values())
        self.admit()

    def look(self) -> float:
        """Return what is used of the machine, after telling the engine what is left."""
        used = sum(one.used for one in self.running.values())
        if self.neighbour is not None:
            used += self.neighbour.used(self.now)
            self.engine.available(0, MEMORY - used)
        return used

    def adjust(self) -> None:
        while changes := self.engine.adjust(self.now):
            for change in changes:
                one = self.running[change.attempt]
                if change.action is Action.STOP:
                    self.stopped += 1
                    self.end(one, self.engine.stopped_as(change.attempt) or Outcome.LOST, one.used)
                elif change.action is not Action.GROW:
                    one.paused = change.action is Action.PAUSE

    def admit(self) -> None:
        starts = self.engine.admit(self.now)
        for start in starts:
            self.running[start.attempt] = Growing(start, *self.needs[start.task], self.now)
        claims = sum(one.need[1] for one in self.engine.running.values() if one.need)
        assert not starts or claims <= MEMORY, f"claims of {claims / MB:.0f} MB at admission"

    def end(self, one: Growing, outcome: Outcome, memory: float) -> None:
        del self.running[one.start.attempt]
        exhausted = Resource.MEMORY if outcome is Outcome.EXHAUSTED else None
        used = Amounts.of(cores=1, memory=memory, wall_time=one.done)
        self.engine.ended(Ended(attempt=one.start.attempt, outcome=outcome, exhausted=exhausted, used=used))


@st.composite
def bounded(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Return tasks with a need and a time, so long that at most 8 of them grow by FLOOR in a step."""
    needs = draw(st.lists(st.floats(5, 1023), min_size=1, max_size=25))
    slower = draw(st.floats(1, 3))
    return [(need * MB, slower * 2 * need * MB * 8 * TICK / FLOOR + TICK) for need in needs]


@given(bounded(), st.sampled_from(["auto", "max-seen", "whole-machine"]))
@settings(max_examples=40, deadline=None)
def test_claims_fit_use_stays_below_the_floor_and_all_is_done(needs: list[tuple[float, float]], strategy: str) -> None:
    tasks = [Task(f"{number}", category="ab"[number % 2]) for number in range(len(needs))]
    engine = engine_of(tasks, [Machine(8, MEMORY)], strategy, rules=Rules(elastic=True))
    model = Model(engine, needs)
    model.go()
    assert engine.counts[State.DONE] == len(needs)
    assert engine._room.find((8.0, MEMORY, 0.0)) == 0, "the machine is empty again"


@given(bounded(), st.floats(0, 100), st.floats(0, 500), st.sampled_from(["auto", "whole-machine"]))
@settings(max_examples=40, deadline=None)
def test_the_same_beside_a_greedy_neighbour_that_leaves_room_for_the_largest_task(
    needs: list[tuple[float, float]], begins: float, lasts: float, strategy: str
) -> None:
    tasks = [Task(f"{number}", category="ab"[number % 2]) for number in range(len(needs))]
    engine = engine_of(tasks, [Machine(8, MEMORY)], strategy, rules=Rules(elastic=True))
    most = max(0.0, MEMORY * 7 / 8 - max(need for need, _ in needs))  # the reserve is at most an eighth
    Model(engine, needs, Neighbour(most, begins, begins + lasts)).go()
    assert engine.counts[State.DONE] == len(needs)


def test_the_last_task_continues_although_it_uses_what_should_stay_free() -> None:
    tasks = [Task(f"{number}", category="some") for number in range(2)]
    engine = engine_of(tasks, [Machine(8, MEMORY)], rules=Rules(elastic=True))
    small, large = (start.attempt for start in engine.admit(0.0))
    engine.saw(small, 10 * MB, 1.0)
    engine.saw(large, MEMORY - 50 * MB, 1.0)
    assert (large, Action.PAUSE) in [(one.attempt, one.action) for one in engine.adjust(1.0)]
    engine.ended(Ended(attempt=small, outcome=Outcome.DONE, used=Amounts.of(memory=10 * MB)))
    assert [(one.attempt, one.action) for one in engine.adjust(2.0)] == [(large, Action.RESUME)]


def test_tasks_that_all_grow_late_to_more_than_the_machine_has_are_all_done() -> None:
    needs = [(600.0 * MB, 100.0)] * 8
    tasks = [Task(f"{number}", category="late") for number in range(8)]
    model = Model(engine_of(tasks, [Machine(8, MEMORY)], rules=Rules(elastic=True)), needs)
    model.go()
    assert model.engine.counts[State.DONE] == 8
    assert model.stopped > 0


def test_no_task_is_stopped_that_would_free_next_to_nothing() -> None:
    tasks = [Task(name, category=name) for name in ("small", "large", "larger")]
    engine = engine_of(tasks, [Machine(4, MEMORY)], rules=Rules(elastic=True))
    small, large, larger = engine.admit(0.0)
    engine.saw(small.attempt, MEMORY / 300, 1.0)
    engine.saw(large.attempt, 0.45 * MEMORY, 1.0)
    engine.saw(larger.attempt, 0.545 * MEMORY, 1.0)
    stopped = [change.attempt for change in engine.adjust(1.0) if change.action is Action.STOP]
    assert stopped == [large.attempt]


@pytest.mark.parametrize("cores", [1, 2, 4, 12])
def test_as_many_tasks_as_cores_start_although_nothing_is_known_about_them(cores: int) -> None:
    tasks = [Task(f"{number}", category=f"kind {number}") for number in range(20)]
    engine = engine_of(tasks, [Machine(cores, MEMORY)], rules=Rules(elastic=True))
    assert len(engine.admit(0.0)) == cores


def test_tasks_whose_authors_requested_all_of_the_machine_are_never_paused() -> None:
    tasks = [Task(f"{number}", request=Amounts.of(cores=1, memory=256 * 1024 * 1000)) for number in range(4)]
    needs = [(256.0 * 1024 * 1000 * 0.999, 100.0)] * 4
    engine = engine_of(tasks, [Machine(4, 4 * 256 * 1024 * 1000.0)], "declared", rules=Rules(elastic=True))
    running = engine.admit(0.0)
    assert len(running) == 4
    for start in running:
        engine.saw(start.attempt, needs[start.task][0], 1.0)
    assert engine.adjust(1.0) == []


def test_when_other_programs_take_the_memory_nothing_starts_then_tasks_pause_and_the_last_one_stays() -> None:
    tasks = [Task(f"{number}", category="some") for number in range(12)]
    engine = engine_of(tasks, [Machine(4, MEMORY)], rules=Rules(elastic=True))
    running = engine.admit(0.0)
    for start in running:
        engine.saw(start.attempt, 60 * MB, 1.0)
    engine.available(0, MEMORY / 8)
    assert list(engine.adjust(1.0)) == [], "there is still enough for those that run"
    first = running[0]
    engine.ended(Ended(attempt=first.attempt, outcome=Outcome.DONE, used=Amounts.of(memory=60 * MB)))
    assert engine.admit(1.1) == []
    for start in running[1:]:
        engine.saw(start.attempt, 70 * MB, 2.0)
    engine.available(0, 0)
    actions = [change.action for change in engine.adjust(2.0)]
    assert Action.PAUSE in actions
    assert actions.count(Action.STOP) == 1
    stopped = [start for start in running[1:] if engine.stopped_as(start.attempt)]
    assert stopped == running[-1:], "the youngest"
    assert [engine.stopped_as(one.attempt) for one in stopped] == [Outcome.PREEMPTED], "it was within its allocation"


def test_nothing_grows_while_a_task_is_being_stopped_to_make_room() -> None:
    tasks = [Task(f"{number}", category="some") for number in range(3)]
    engine = engine_of(tasks, [Machine(8, MEMORY)], rules=Rules(elastic=True))
    running = [start.attempt for start in engine.admit(0.0)]
    for attempt in running:
        engine.saw(attempt, (MEMORY - 5 * MB) / 3, 1.0)
    changes = [one for one in engine.adjust(1.0) if one.action is not Action.GROW]
    assert sorted(one.action for one in changes) == [Action.PAUSE, Action.PAUSE, Action.STOP]
    assert {one.attempt for one in changes} == set(running)
    (stopped,) = [one.attempt for one in changes if one.action is Action.STOP]
    used = Amounts.of(memory=1.0)
    engine.ended(Ended(attempt=stopped, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY, used=used))
    assert Action.RESUME in [one.action for one in engine.adjust(2.0)]


def test_paused_tasks_resume_one_after_the_other_as_room_for_their_growth_comes() -> None:
    tasks = [Task(f"{number}", category="some") for number in range(8)]
    engine = engine_of(tasks, [Machine(8, MEMORY)], rules=Rules(elastic=True))
    running = [start.attempt for start in engine.admit(0.0)]
    paused: set[int] = set()
    for step, used in enumerate((100, 129, 138, 142, 144, 146), 1):
        for attempt in set(running) - paused:
            engine.saw(attempt, used * MB, float(step))
            paused |= {one.attempt for one in engine.adjust(float(step)) if one.action is Action.PAUSE}
    assert len(paused) >= 5
    assert len(paused) < len(running), "one always continues"
    for attempt in set(running) - paused:
        engine.ended(Ended(attempt=attempt, outcome=Outcome.DONE, used=Amounts.of(memory=130 * MB)))
    resumed: list[int] = []
    for step in range(7, 10):
        resumed += [one.attempt for one in engine.adjust(float(step)) if one.action is Action.RESUME]
        assert len(resumed) == 1, "they are alike: together they would fill the room at once"
        engine.saw(resumed[0], (140 + step) * MB, float(step))


def test_the_next_attempt_starts_above_what_was_seen_and_a_grown_one_with_what_it_held() -> None:
    engine = engine_of([Task("a")], [Machine(4, MEMORY)], rules=Rules(elastic=True))
    (start,) = engine.admit(0.0)
    (memory,) = [one for one in start.decisions if one.resource is Resource.MEMORY]
    again = resized(start.decisions, memory.amount * 2)
    assert again is not None
    (larger,) = [one for one in again if one.resource is Resource.MEMORY]
    assert memory.amount * 2 < larger.amount < memory.amount * 3
    assert larger.ladder == tuple(sorted(larger.ladder))
    assert larger.ladder[-1] == memory.ladder[-1]
    assert larger.reason == f"{memory.reason}; it ran out at {Resource.MEMORY.format_amount(memory.amount * 2)}"
    assert resized(start.decisions, MEMORY) is None
    (kept,) = [one for one in as_grown(start.decisions, memory.amount * 2) if one.resource is Resource.MEMORY]
    assert kept.amount == pytest.approx(memory.amount * 2, rel=1e-6)
    assert kept.reason == f"{memory.reason}; it had grown to {Resource.MEMORY.format_amount(memory.amount * 2)}"
