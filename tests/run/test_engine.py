"""The engine: nothing too early, nothing too much, nothing lost, nothing starved."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import graphs
from tonnage.jobs import NOTHING_KNOWN, SHARED, Amounts, Outcome, Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Carried, Ended, Settled, Start, State
from tonnage.run.machines import Machine, Need, Room
from tonnage.run.queue import places_of
from tonnage.run.retry_rules import Rules
from tonnage.size import Plan
from tonnage.size.learner import Learner
from tonnage.workflow import Task, Workflow

GB = 1e9
ONE = Machine(4.0, 16 * GB, 100 * GB)
SAME_AGAIN = (Outcome.LOST, Outcome.PREEMPTED, Outcome.FAILED)


def engine_of(
    tasks: Sequence[Task], machines: Sequence[Machine] = (ONE,), strategy: str = "auto", **options: object
) -> Engine:
    largest = max(machines, key=lambda one: (one.memory, one.cores))
    rules = options.get("rules")
    can_grow = isinstance(rules, Rules) and rules.elastic
    plan = Plan(strategy=strategy, machine=largest.amounts(), resources=SHARED, can_grow=can_grow)
    return Engine(tasks, Learner(plan), Room(machines), **options)  # type: ignore[arg-type]


def asking(name: str, cores: float = 1, memory: float = GB, category: str = "task") -> Task:
    return Task(name, category=category, request=Amounts.of(cores=cores, memory=memory))


def done(start: Start, memory: float = GB) -> Ended:
    used = Amounts.of(cores=1, memory=memory, disk=GB, wall_time=1)
    return Ended(attempt=start.attempt, outcome=Outcome.DONE, used=used)


def ran_out(start: Start, seen: float) -> Ended:
    used = Amounts.of(memory=seen, wall_time=1)
    return Ended(attempt=start.attempt, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY, used=used)


def names(engine: Engine, starts: Sequence[Start]) -> list[str]:
    return [engine.tasks[start.task].name for start in starts]


class Backend:
    """Drives an engine, lets anything go wrong, and looks whether the engine keeps its promises."""

    def __init__(self, engine: Engine, workflow: Workflow | None, machines: Sequence[Machine], random: Random) -> None:
        self.engine = engine
        self.machines = machines
        self.random = random
        self.parents: dict[int, list[int]] = defaultdict(list)
        if workflow is not None:
            for parent, child in zip(
                workflow.graph.edge_parents().tolist(), workflow.graph.child.tolist(), strict=True
            ):
                self.parents[child].append(parent)
        self.running: list[Start] = []
        self.last: dict[int, tuple[Start, Ended]] = {}
        self.refused: list[Settled] = []
        self.outcomes: Counter[Outcome] = Counter()

    def go(self, needs: Sequence[Amounts], faults: float, most: int = 10**6) -> None:
        """Run all, or until so many attempts have ended."""
        while self.admit() and most:
            start = self.running.pop(self.random.randrange(len(self.running)))
            self.end(start, needs[start.task], faults)
            most -= 1
        for start in self.running if not most else ():
            self.engine.running.pop(start.attempt)

    def admit(self) -> bool:
        for start in self.engine.admit():
            self.check_start(start)
            self.running.append(start)
        self.refused += self.engine.refused()
        self.check_room()
        assert len(self.running) <= (self.engine.rules.at_once or len(self.running))
        assert self.engine.counts == Counter(dict.fromkeys(State, 0)) | Counter(self.engine.states)
        return bool(self.running)

    def check_start(self, start: Start) -> None:
        states = self.engine.states
        assert all(states[parent] == State.DONE for parent in self.parents[start.task])
        assert states[start.task] == State.RUNNING
        before = self.last.get(start.task)
        if before is None:
            return
        first, end = before
        assert start.number == first.number + 1
        if end.outcome in SAME_AGAIN:
            assert start.decisions == first.decisions
        for one, other in zip(first.decisions, start.decisions, strict=True):
            grows = end.outcome is Outcome.EXHAUSTED and one.resource is end.exhausted
            assert other.amount > one.amount if grows else other.amount == one.amount

    def check_room(self) -> None:
        for number, machine in enumerate(self.machines):
            here = [start for start in self.running if start.machine == number]
            for resource, amount in machine.amounts().items():
                given = sum(one.amount for start in here for one in start.decisions if one.resource is resource)
                assert given <= amount + len(here)  # sums are in whole bytes

    def end(self, start: Start, need: Amounts, faults: float) -> None:
        outcome = Outcome.DONE
        exhausted = next(
            (one.resource for one in start.decisions if (getattr(need, one.resource) or 0) > one.amount), None
        )
        if self.random.random() < faults:
            outcome = self.random.choice([*SAME_AGAIN, Outcome.CANCELLED])
        elif exhausted is not None:
            outcome = Outcome.EXHAUSTED
        self.outcomes[outcome] += 1
        end = Ended(
            attempt=start.attempt,
            outcome=outcome,
            used=need if outcome is Outcome.DONE else NOTHING_KNOWN,
            exhausted=exhausted if outcome is Outcome.EXHAUSTED else None,
        )
        self.last[start.task] = start, end
        settled = self.engine.ended(end)
        assert settled.task == start.task
        assert settled.state == self.engine.states[start.task]
        assert settled.reason or settled.state is State.DONE

    def behind(self, states: tuple[State, ...]) -> set[int]:
        """Return the tasks that wait for one of these states, directly or not."""
        found: set[int] = set()
        for _ in self.engine.tasks:
            found |= {
                child
                for child, parents in self.parents.items()
                if any(self.engine.states[one] in states or one in found for one in parents)
            }
        return found


@st.composite
def machines(draw: st.DrawFn) -> list[Machine]:
    kinds = st.builds(
        Machine,
        st.integers(1, 16).map(float),
        st.integers(1, 64).map(lambda size: size * GB),
        st.sampled_from([float("inf"), 50 * GB, 7.3 * GB]),
    )
    return draw(st.lists(kinds, min_size=1, max_size=4))


_gb = st.floats(0.01, 70, allow_nan=False).map(lambda size: size * GB)
needs = st.builds(Amounts.of, cores=st.integers(1, 20), memory=_gb, disk=_gb, wall_time=st.floats(0, 1000))
requests = st.just(NOTHING_KNOWN) | st.builds(
    Amounts.of, cores=st.none() | st.integers(1, 20), memory=st.none() | _gb, disk=st.none() | _gb
)


@st.composite
def workflows(draw: st.DrawFn) -> tuple[Workflow, list[Amounts]]:
    size, edges = draw(graphs())
    tasks = [Task(str(number), category=draw(st.sampled_from("abc")), request=draw(requests)) for number in range(size)]
    pairs = [one for one, _ in edges], [other for _, other in edges]
    return Workflow.build("any", tasks, pairs), [draw(needs) for _ in range(size)]


chance = st.sampled_from([0.0, 0.1, 0.5])
randoms = st.randoms(use_true_random=False)
sizes = st.sampled_from(["auto", "max-seen", "ladder", "whole-machine", "declared", "k-means"])


@given(workflows(), machines(), randoms, chance, sizes, st.booleans(), st.none() | st.integers(1, 4))
def test_whatever_goes_wrong_every_promise_is_kept(
    drawn: tuple[Workflow, list[Amounts]],
    machines: list[Machine],
    random: Random,
    faults: float,
    strategy: str,
    sized: bool,
    at_once: int | None,
) -> None:
    workflow, needs = drawn
    inputs: Callable[[int], float] = lambda task: 1e6 * (task + 1) if sized else float("nan")  # noqa: E731
    rules = Rules(retries=2, at_once=at_once)
    engine = engine_of(workflow.tasks, machines, strategy, workflow=workflow, rules=rules, input_bytes=inputs)
    backend = Backend(engine, workflow, machines, random)
    backend.go(needs, faults)
    assert engine.finished
    assert not engine.running
    assert set(engine.states) <= {State.DONE, State.FAILED, State.STOPPED, State.WAITING}
    waiting = {task for task, state in enumerate(engine.states) if state == State.WAITING}
    assert waiting == backend.behind((State.FAILED, State.STOPPED)) & waiting
    assert set(engine.unreachable()) == backend.behind((State.FAILED,)) & waiting
    assert all(one.reason for one in backend.refused)
    assert {one.task for one in backend.refused} <= {
        task for task, state in enumerate(engine.states) if state == State.FAILED
    }
    failures = Counter(task for task, (_, end) in backend.last.items() if end.outcome is Outcome.FAILED)
    assert all(engine.states[task] == State.FAILED for task in failures)


@given(workflows(), randoms, chance, st.integers(0, 40))
def test_another_engine_goes_on_where_one_was_killed(
    drawn: tuple[Workflow, list[Amounts]], random: Random, faults: float, most: int
) -> None:
    workflow, needs = drawn
    rules = Rules(retries=10**6)
    first = engine_of(workflow.tasks, workflow=workflow, rules=rules)
    backend = Backend(first, workflow, [ONE], random)
    backend.go(needs, faults, most)
    achieved = [task for task, state in enumerate(first.states) if state == State.DONE]
    carried = {task: Carried(start.number, start.decisions) for task, (start, _) in backend.last.items()}
    second = engine_of(workflow.tasks, workflow=workflow, rules=rules, done=achieved, carried=carried, first_attempt=99)
    starts = second.admit()
    assert not {start.task for start in starts} & set(achieved)
    assert all(start.attempt >= 99 for start in starts)
    for start in starts:
        before = carried.get(start.task)
        assert start.number == (before.attempts + 1 if before else 1)
        assert before is None or start.decisions == before.decisions
    left = [state in (State.READY, State.RUNNING) for state in second.states]
    other = engine_of(workflow.tasks, workflow=workflow, rules=rules, done=achieved)
    other.admit()
    assert left == [state in (State.READY, State.RUNNING) for state in other.states]


@given(st.permutations(range(30)))
def test_tasks_that_are_alike_start_in_the_order_of_their_places(places: list[int]) -> None:
    engine = engine_of([Task(str(number)) for number in range(30)], places=places)
    order = []
    while starts := engine.admit():
        order += [places[start.task] for start in starts]
        for start in starts:
            engine.ended(done(start))
    assert order == sorted(order)


def test_priorities_go_before_the_ranking() -> None:
    tasks = [Task("a"), Task("b", priority=5), Task("c", priority=-1), Task("d", priority=5)]
    workflow = Workflow.build("w", tasks)
    assert places_of(workflow, [3, 2, 1, 0]) == [2, 1, 3, 0]
    assert places_of(Workflow.build("w", [Task("a"), Task("b")]), [1, 0]) == [1, 0]


def test_the_first_in_the_order_goes_first_whatever_its_category() -> None:
    tasks = [asking(f"{number}", 1 + number % 3, category=f"c{number % 5}") for number in range(20)]
    engine = engine_of(tasks, [Machine(1e3, 1e3 * GB)], "declared", places=list(range(20))[::-1])
    assert names(engine, engine.admit()) == [str(number) for number in reversed(range(20))]


def small_ones(engine: Engine, most: int) -> Iterator[Start]:
    """Keep a machine busy with tasks of one core that end one at a time, and yield what else starts."""
    running: list[Start] = []
    for number in range(most):
        engine.add(asking(f"small{number}"))
        engine.add(asking(f"also{number}"))
        for start in engine.admit():
            if not engine.tasks[start.task].name.startswith(("small", "also")):
                yield start
            running.append(start)
        engine.ended(done(running.pop(0)))


def test_a_task_that_needs_a_whole_machine_does_not_starve() -> None:
    engine = engine_of([asking("early"), asking("large", cores=4)], strategy="declared")
    assert names(engine, list(small_ones(engine, 200))) == ["early", "large"]


def test_while_one_machine_is_kept_free_the_others_are_used() -> None:
    two = [ONE, Machine(2.0, 4 * GB)]
    engine = engine_of([asking("early"), asking("large", cores=4)], two, "declared")
    used: Counter[int] = Counter()
    running: list[Start] = []
    for number in range(400):
        engine.add(asking(f"small{number}"))
        running += engine.admit()
        used[sum(start.machine == 1 for start in running)] += 1
        if any(engine.tasks[start.task].name == "large" for start in running):
            break
        engine.ended(done(running.pop(0)))
    else:
        pytest.fail("it never started")
    assert used[0] < 5


def test_many_kinds_that_find_no_room_hide_no_task_that_does() -> None:
    large = [asking(f"l{number}", 1, (8 + number / 100) * GB, f"large{number}") for number in range(500)]
    engine = engine_of([*large, asking("small")], [ONE, Machine(1.0, 2 * GB)], "declared")
    assert "small" in names(engine, engine.admit())


def looks_per_task(monkeypatch: pytest.MonkeyPatch, categories: int) -> float:
    """Return how often room is looked for, for each task, where every task is of its own category."""
    looks = Counter[str]()
    find = Room.find

    def counted(room: Room, need: Need) -> int | None:
        looks["find"] += 1
        return find(room, need)

    random = Random(1)
    tasks = [asking(str(number), 1, random.uniform(1, 15) * GB, f"c{number}") for number in range(categories)]
    engine = engine_of(tasks, strategy="declared")
    with monkeypatch.context() as patched:
        patched.setattr(Room, "find", counted)
        Backend(engine, None, [ONE], random).go([NOTHING_KNOWN] * categories, 0.0)
    assert engine.counts[State.DONE] == categories
    return looks["find"] / categories


def test_a_task_costs_the_same_however_many_categories_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = looks_per_task(monkeypatch, 300), looks_per_task(monkeypatch, 3000)
    assert many < 1.5 * few


def test_shares_fill_a_machine_and_leave_it_empty_again() -> None:
    third = Machine(3.0, 100 * GB + 1)
    engine = engine_of([Task(str(number), category=f"c{number % 7}") for number in range(200)], [third])
    random = Random(2)
    running = engine.admit()
    assert len(running) == 3
    while running:
        start = running.pop(random.randrange(len(running)))
        engine.ended(done(start, random.uniform(0.1, 30) * GB))
        running += engine.admit()
    engine.add(asking("whole", 3, 100 * GB + 1))
    assert names(engine, engine.admit()) == ["whole"]


def test_a_request_beyond_every_machine_is_refused_with_a_reason_and_the_rest_goes_on() -> None:
    engine = engine_of([asking("huge", memory=17 * GB), asking("wide", cores=5), asking("fine")])
    assert names(engine, engine.admit()) == ["fine"]
    reasons = {one.task: one.reason for one in engine.refused()}
    assert reasons == {
        0: "requests 17 GB of memory, but only 16 GB is available",
        1: "requests 5 of cores, but only 4 is available",
    }
    assert engine.refused() == []


def test_what_no_single_machine_has_is_refused() -> None:
    plan = Plan(strategy="declared", machine={Resource.CORES: 8, Resource.MEMORY: 16 * GB}, resources=SHARED)
    tasks = [asking("both", cores=8, memory=16 * GB), asking("fine")]
    engine = Engine(tasks, Learner(plan), Room([ONE, Machine(8.0, 2 * GB)]))
    assert names(engine, engine.admit()) == ["fine"]
    assert engine.refused() == [Settled(0, State.FAILED, "no machine is large enough")]


def test_a_task_that_always_runs_out_is_given_up_at_the_top() -> None:
    engine = engine_of([Task("hungry")])
    amounts = []
    while starts := engine.admit():
        (start,) = starts
        amounts.append(start.decisions[1].amount)
        end = Ended(attempt=start.attempt, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY)
        settled = engine.ended(end)
    assert amounts == sorted(set(amounts))
    assert amounts[-1] == 16 * GB
    assert settled == Settled(0, State.FAILED, "needs more memory than is available")


def test_a_task_that_ran_out_is_never_given_less_than_it_was_seen_to_use() -> None:
    engine = engine_of([asking("a", memory=GB)])
    (start,) = engine.admit()
    engine.ended(ran_out(start, seen=5.5 * GB))
    (start,) = engine.admit()
    assert start.decisions[1].amount > 5.5 * GB


def test_what_one_task_ran_out_of_is_not_tried_with_the_others_of_its_category() -> None:
    engine = engine_of([Task(str(number), category="a") for number in range(6)] + [Task("other", category="b")])
    first = engine.admit()
    seen = 1.2 * first[0].decisions[1].amount
    engine.ended(ran_out(first[0], seen))
    for task in (0, 5):
        decisions = engine.next_try(task).decisions
        assert decisions is not None
        assert decisions[1].amount > seen
        assert "ran out" in decisions[1].reason
    other = engine.next_try(6).decisions
    assert other is not None
    assert other[1].amount < seen


def test_a_task_that_was_seen_to_use_more_than_there_is_is_given_up() -> None:
    engine = engine_of([asking("a", memory=GB)])
    (start,) = engine.admit()
    assert engine.ended(ran_out(start, seen=17 * GB)).state is State.FAILED


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_failures_are_tried_again_as_often_as_the_rules_say(retries: int) -> None:
    engine = engine_of([Task("bad"), Task("hopeless")], rules=Rules(retries=retries))
    attempts: Counter[int] = Counter()
    while starts := engine.admit():
        for start in starts:
            attempts[start.task] += 1
            hopeless = start.task == 1
            engine.ended(Ended(attempt=start.attempt, outcome=Outcome.FAILED, hopeless=hopeless))
    assert attempts == {0: retries + 1, 1: 1}
    assert engine.counts[State.FAILED] == 2


def test_after_the_first_failure_nothing_starts_where_the_rules_say_so() -> None:
    engine = engine_of(
        [asking(str(number), 4) for number in range(3)], rules=Rules(fail_fast=True), strategy="declared"
    )
    (start,) = engine.admit()
    engine.ended(Ended(attempt=start.attempt, outcome=Outcome.FAILED))
    assert engine.admit() == []
    assert engine.finished
    assert engine.counts[State.READY] == 2


def test_a_task_that_is_killed_again_and_again_is_given_up() -> None:
    engine = engine_of([Task("victim")])
    attempts = 0
    while starts := engine.admit():
        attempts += 1
        settled = engine.ended(Ended(attempt=starts[0].attempt, outcome=Outcome.LOST, killed=True))
    assert attempts == 6
    assert "killed 6 times" in settled.reason


def test_a_cancelled_task_never_starts_nor_those_behind_it() -> None:
    tasks = [asking("first", 4), asking("second", 4), asking("third", 4), asking("behind"), asking("waiting")]
    workflow = Workflow.build("w", tasks, ([1, 0], [3, 4]))
    engine = engine_of(tasks, workflow=workflow, strategy="declared")
    (start,) = engine.admit()
    assert engine.cancel(1)
    assert engine.cancel(4), "one that waits for others has not started either"
    assert not engine.cancel(0), "it runs"
    assert not engine.cancel(1), "it is cancelled already"
    engine.ended(done(start))
    (start,) = engine.admit()
    assert engine.tasks[start.task].name == "third"
    engine.ended(done(start))
    assert engine.admit() == []
    assert engine.finished
    assert [State(state).name for state in engine.states] == ["DONE", "STOPPED", "DONE", "WAITING", "STOPPED"]


def test_tasks_that_are_added_run_like_the_others() -> None:
    workflow = Workflow.build("w", [asking("a", 4), asking("b", 4)], ([0], [1]))
    engine = engine_of(workflow.tasks, workflow=workflow, strategy="declared")
    assert engine.add(asking("c", 4)) == 2
    order = []
    while starts := engine.admit():
        order += names(engine, starts)
        engine.ended(done(starts[0]))
    assert order == ["a", "b", "c"]


def test_what_a_smaller_machine_cannot_give_again_is_decided_anew() -> None:
    before = engine_of([Task("t")], [Machine(4.0, 64 * GB)], "whole-machine")
    (start,) = before.admit()
    engine = engine_of([Task("t")], strategy="whole-machine", carried={0: Carried(1, start.decisions)})
    (start,) = engine.admit()
    assert start.number == 2
    assert start.decisions[1].amount == 16 * GB


def test_decisions_change_for_tasks_that_are_ready_when_something_is_learnt() -> None:
    engine = engine_of([Task(str(number)) for number in range(12)])
    first = engine.admit()
    assert {start.decisions[1].amount for start in first} == {4 * GB}
    for start in first:
        engine.ended(done(start, 0.5 * GB))
    second = engine.admit()
    assert second[0].decisions[1].samples
    assert second[0].decisions[1].amount < 2 * GB
