"""The engine where others start tasks: what is sent away comes back once, and queues have room for so many."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import graphs
from tonnage.jobs import SHARED, Amounts, Outcome, Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Start, State
from tonnage.run.machines import Machine, QueueRoom, Room
from tonnage.run.retry_rules import Rules
from tonnage.size import Plan
from tonnage.size.learner import Learner
from tonnage.workflow import Graph, Task, Workflow

GB = 1e9
NODE = Machine(4.0, 16 * GB, 100 * GB)
OUTCOMES = (Outcome.DONE, Outcome.DONE, Outcome.EXHAUSTED, Outcome.LOST, Outcome.PREEMPTED)


def learner() -> Learner:
    return Learner(Plan(machine=NODE.amounts(), resources=SHARED))


def workflow_of(graph: Graph) -> Workflow:
    return Workflow("w", tuple(Task(f"t{number}", command="true") for number in range(graph.size)), graph)


def end_of(start: Start, outcome: Outcome) -> Ended:
    if outcome is Outcome.EXHAUSTED and start.allocated.memory == NODE.memory:
        outcome = Outcome.LOST  # it would fail for good, because there is no more
    exhausted = Resource.MEMORY if outcome is Outcome.EXHAUSTED else None
    return Ended(attempt=start.attempt, outcome=outcome, exhausted=exhausted, used=Amounts.of(memory=GB, wall_time=1))


class BatchJobs:
    """Sends what it likes, as a packer would, starts it as a batch job does, and breaks off at any moment."""

    def __init__(self, engine: Engine, graph: Graph, random: Random) -> None:
        self.engine, self.graph, self.random = engine, graph, random
        self.sent: set[int] = set()
        self.running: dict[int, Start] = {}
        self.tries: dict[int, int] = {}
        self.done: list[int] = []

    def step(self) -> None:
        self.random.choice((self.send, self.start, self.start, self.end, self.end, self.break_off))()

    def send(self) -> None:
        left = [task for task, state in enumerate(self.engine.states) if state in (State.WAITING, State.READY)]
        chosen = self.random.sample(left, self.random.randint(0, len(left)))
        self.engine.send(chosen)
        self.sent |= set(chosen)

    def start(self) -> None:
        able = [
            task
            for task in self.sent
            if self.engine.states[task] == State.SENT
            and all(self.engine.states[parent] == State.DONE for parent in self.graph.parents_of(task))
        ]
        for task in self.random.sample(able, self.random.randint(0, len(able))):
            known = self.engine.next_try(task)
            start = Start(self.engine.skip_attempts(1), task, known.attempts + 1, 7, known.decisions or (), 0.0)
            self.engine.adopt(start)
            self.running[start.attempt] = start

    def end(self) -> None:
        for attempt in self.random.sample(sorted(self.running), self.random.randint(0, len(self.running))):
            start = self.running.pop(attempt)
            settled = self.engine.ended(end_of(start, self.random.choice(OUTCOMES)))
            if settled.state is State.DONE:
                self.done.append(start.task)
                self.sent.discard(start.task)

    def break_off(self) -> None:
        for attempt in sorted(self.running):
            self.engine.ended(end_of(self.running.pop(attempt), Outcome.LOST))
        for task in self.sent:
            self.engine.take_back(task)
        self.sent.clear()


@given(graphs(), st.randoms(use_true_random=False))
def test_what_batch_jobs_do_not_finish_comes_back_and_is_done_once(
    edges: tuple[int, list[tuple[int, int]]], random: Random
) -> None:
    size, pairs = edges
    graph = Graph.from_edges(size, [one for one, _ in pairs], [other for _, other in pairs])
    workflow = workflow_of(graph)
    engine = Engine(workflow.tasks, learner(), Room([NODE, NODE]), workflow=workflow)
    jobs = BatchJobs(engine, graph, random)
    for _ in range(20):
        jobs.step()
        assert engine.counts[State.SENT] == sum(state == State.SENT for state in engine.states)
    jobs.break_off()
    assert not engine.counts[State.SENT] and not engine.running
    here = []
    while starts := engine.admit():
        for start in starts:
            assert all(engine.states[parent] == State.DONE for parent in graph.parents_of(start.task))
            here.append(start.task)
            engine.ended(end_of(start, Outcome.DONE))
    assert sorted(jobs.done + here) == list(range(graph.size))
    assert engine.finished


@given(st.integers(1, 8), st.integers(1, 30), st.randoms(use_true_random=False))
def test_a_queue_holds_so_many_and_is_filled_again(most: int, tasks: int, random: Random) -> None:
    engine = Engine([Task(f"t{number}") for number in range(tasks)], learner(), QueueRoom([NODE], most))
    running: list[Start] = []
    while not engine.finished:
        running += engine.admit()
        assert len(running) == min(most, tasks - engine.counts[State.DONE])
        engine.ended(end_of(running.pop(random.randrange(len(running))), Outcome.DONE))
    assert engine.counts[State.DONE] == tasks


def test_what_an_earlier_engine_has_submitted_takes_room_and_is_not_started_again() -> None:
    tasks = [Task("a"), Task("b"), Task("c")]
    first = Engine(tasks, learner(), QueueRoom([NODE], 2))
    running = first.admit()
    engine = Engine(tasks, learner(), QueueRoom([NODE], 2), sent=[start.task for start in running])
    for start in running:
        engine.adopt(start, in_our_room=True)
    assert engine.admit() == []
    engine.ended(end_of(running[0], Outcome.DONE))
    (last,) = engine.admit()
    assert last.task == 2
    assert last.attempt > max(start.attempt for start in running)


def test_what_a_task_outgrew_in_a_batch_job_is_known_to_the_engine_that_sent_it() -> None:
    """It is lost with its batch job; otherwise, its next attempt would have to grow all the way again."""
    engine = Engine([Task("a"), Task("b")], learner(), QueueRoom([NODE], 2), rules=Rules(elastic=True), sent=[0, 1])
    (amount,) = [one.amount for one in engine.next_try(0).decisions or () if one.resource is Resource.MEMORY]
    known = engine.next_try(0).decisions or ()
    engine.adopt(Start(1, 0, 1, 7, known, 0.0))
    engine.grew(1, amount + GB)
    engine.adopt(Start(2, 1, 1, 7, known, 0.0), grew_to=amount + 2 * GB)  # it grew before this engine began
    for attempt, held in ((1, amount + GB), (2, amount + 2 * GB)):
        engine.ended(Ended(attempt=attempt, outcome=Outcome.LOST))
        again = engine.next_try(attempt - 1).decisions or ()
        assert [one.amount for one in again if one.resource is Resource.MEMORY] == [held]


def test_a_task_waits_for_tasks_of_other_engines() -> None:
    engine = Engine([Task("a"), Task("b")], learner(), Room([NODE]), awaited={1: 2})
    (start,) = engine.admit()
    assert start.task == 0
    engine.awaited_is_done(1)
    assert engine.admit() == []
    engine.awaited_is_done(1)
    assert [start.task for start in engine.admit()] == [1]


def test_nothing_starts_on_a_machine_that_was_lost() -> None:
    tasks = [Task(f"t{number}", request=Amounts.of(cores=4, memory=GB)) for number in range(4)]
    engine = Engine(tasks, learner(), Room([NODE, NODE]))
    starts = engine.admit()
    engine.lose(0)
    for start in starts:
        engine.ended(end_of(start, Outcome.LOST if start.machine == 0 else Outcome.DONE))
    seen = []
    while starts := engine.admit():
        seen += [start.machine for start in starts]
        for start in starts:
            engine.ended(end_of(start, Outcome.DONE))
    assert set(seen) == {1}
    assert engine.counts[State.DONE] == len(tasks)


def test_what_no_node_has_is_refused_by_a_queue_too() -> None:
    engine = Engine([Task("a", request=Amounts.of(memory=17 * GB))], learner(), QueueRoom([NODE], 10))
    assert engine.admit() == []
    (settled,) = engine.refused()
    assert "17 GB" in settled.reason
