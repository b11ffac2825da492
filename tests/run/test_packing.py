"""What packers are told about a run: what is left of it, how long that takes, and what each task needs of a node."""

import numpy as np
import pytest

from tonnage.batch import Snapshot
from tonnage.errors import InputError
from tonnage.jobs import SHARED, Amounts, Outcome, Resource
from tonnage.run.backends.batch.packing import InFlightPack, Packing
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, State
from tonnage.run.machines import Machine, QueueRoom
from tonnage.size import Plan
from tonnage.size.learner import Learner
from tonnage.workflow import Task, Workflow

GB = 1e9
NODE = Machine(4.0, 16 * GB)
WORKFLOW = Workflow.build("chain", [Task(name, command="true") for name in "abcd"], ([0, 1, 2], [1, 2, 3]))


def engine_of(workflow: Workflow = WORKFLOW) -> Engine:
    learner = Learner(Plan(machine=NODE.amounts(), resources=SHARED))
    return Engine(workflow.tasks, learner, QueueRoom([NODE], 100), workflow=workflow)


def packing_of(strategy: str = "one-job", seconds: dict[int, float] | None = None) -> Packing:
    known = dict.fromkeys(range(4), 100.0) if seconds is None else seconds
    return Packing(strategy, WORKFLOW, range(4), NODE, known)


def idle(nodes: int = 8) -> Snapshot:
    return Snapshot(1000, nodes, np.array([1000]), np.array([nodes]))


def test_all_that_is_left_goes_into_one_job() -> None:
    packed = packing_of().ask(engine_of(), idle(), [], None)
    assert packed is not None
    (job,) = packed.jobs
    assert job.tasks.tolist() == [0, 1, 2, 3]
    assert (job.nodes, job.run) == (1, 400)
    assert job.seconds >= 400


def test_what_is_done_or_on_its_way_is_not_packed_again() -> None:
    engine = engine_of()
    (start,) = engine.admit()
    engine.ended(Ended(attempt=start.attempt, outcome=Outcome.DONE, used=Amounts.of(wall_time=100)))
    engine.send([1])
    way = InFlightPack(np.array([1]), ends=1100, must_end=1200)
    packed = packing_of("glume").ask(engine, idle(), [way], None)
    assert packed is not None
    assert [job.tasks.tolist() for job in packed.jobs] == [[2, 3]]


def test_behind_a_task_that_failed_nothing_is_packed() -> None:
    engine = engine_of()
    (start,) = engine.admit()
    engine.ended(Ended(attempt=start.attempt, outcome=Outcome.FAILED, hopeless=True))
    assert engine.states[0] == State.FAILED
    assert packing_of().ask(engine, idle(), [], None) is None


def test_run_times_come_from_earlier_runs_then_from_the_category_then_from_the_file() -> None:
    engine = engine_of()
    assert packing_of(seconds={}).unknown(engine) == [0, 1, 2, 3]
    engine.learner.observe("task", Amounts.of(wall_time=30))
    assert packing_of(seconds={}).unknown(engine) == []
    assert packing_of(seconds={2: 7.0}).work(engine).seconds.tolist() == [30, 30, 7, 30]


def test_tasks_share_a_node_by_what_they_were_given() -> None:
    workflow = Workflow.build("bag", [Task(f"t{number}", command="true") for number in range(8)])
    engine = engine_of(workflow)
    engine.learner.observe("task", Amounts.of(cores=1, memory=GB, wall_time=10))
    packing = Packing("one-job", workflow, range(8), NODE, {})
    packed = packing.ask(engine, idle(), [], None)
    assert packed is not None
    (job,) = packed.jobs
    assert job.nodes == 2  # four side by side on each
    assert job.run == 10
    given = {one.resource: one.amount for one in engine.next_try(0).decisions or ()}
    assert given[Resource.CORES] == 1


def test_after_a_time_limit_more_is_asked_for_but_not_for_ever() -> None:
    packing = packing_of()
    before = packing.ask(engine_of(), idle(), [], None)
    packing.more_time()
    after = packing.ask(engine_of(), idle(), [], None)
    assert before is not None
    assert after is not None
    assert after.jobs[0].seconds > before.jobs[0].seconds
    with pytest.raises(InputError, match="100 times"):
        for _ in range(20):
            packing.more_time()
