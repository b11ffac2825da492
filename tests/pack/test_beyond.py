"""Beyond the paper: shared nodes, a floor on utilisation, run times that vary, levels side by side, and auto."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batch.workloads import kernels_compiled
from tests.pack.workflows import timed_workflows
from tonnage.batch import Cluster, Snapshot
from tonnage.errors import InputError
from tonnage.jobs import Amounts
from tonnage.pack import PACKERS, Settings, Situation, Work, simulate
from tonnage.pack.decisions import requested
from tonnage.pack.glume import best_nodes, on_nodes
from tonnage.pack.remaining import actual_times
from tonnage.pack.simple import split_level
from tonnage.workflow import Task, Workflow
from tonnage.workflow.families import FAMILIES

NODE = Amounts.of(cores=4, memory=1000)


def bag(*tasks: tuple[float, float | None, int | None]) -> Workflow:
    """Tasks that wait for nothing: seconds, cores, memory."""
    return Workflow.build(
        "bag",
        [
            Task(f"t{number}", request=Amounts.of(cores=cores, memory=memory), expected=Amounts.of(wall_time=seconds))
            for number, (seconds, cores, memory) in enumerate(tasks)
        ],
    )


def empty(nodes: int = 8) -> Snapshot:
    return Cluster(nodes).snapshot()


def test_tasks_share_a_node_as_far_as_its_cores_and_memory_go() -> None:
    by_cores = Work.of(bag(*[(100, 1, 10)] * 8), node=NODE)
    assert by_cores.run_times(np.arange(8), 2).tolist() == [200, 100]
    by_memory = Work.of(bag(*[(100, 1, 500)] * 8), node=NODE)
    assert by_memory.run_times(np.arange(8), 4).tolist() == [400, 200, 200, 100]
    unknown = Work.of(bag(*[(100, None, 10)] * 3), node=NODE)
    assert unknown.run_times(np.arange(3), 3).tolist() == [300, 200, 100]


def test_a_small_task_passes_one_that_does_not_fit() -> None:
    work = Work.of(bag((100, 3, 1), (90, 3, 1), (80, 1, 1)), node=NODE)
    assert work.ends(np.arange(3), 1, np.zeros(3, np.int64)).tolist() == [100, 190, 80]


@pytest.mark.parametrize("compiled", [False, True])
@given(timed_workflows(), st.integers(1, 5), st.data())
def test_shared_nodes_never_hold_more_than_they_have(
    compiled: bool, made: Workflow, nodes: int, data: st.DataObject
) -> None:
    """At every moment the running tasks fit onto the nodes in sum, and none starts before what it waits for ends."""
    drawn = st.tuples(st.integers(1, 4), st.integers(1, 1000))
    needs = data.draw(st.lists(drawn, min_size=len(made), max_size=len(made)))
    tasks = [
        Task(task.name, request=Amounts.of(cores=cores, memory=memory), expected=task.expected)
        for task, (cores, memory) in zip(made.tasks, needs, strict=True)
    ]
    shared = Workflow.build("shared", tasks, (made.graph.edge_parents(), made.graph.child))
    with kernels_compiled(compiled):
        work = Work.of(shared, node=NODE)
        ends = work.ends(np.arange(len(made)), nodes, np.zeros(len(made), np.int64))
    starts = ends - work.seconds
    for moment in starts:
        here = (starts <= moment) & (moment < ends)
        assert sum(needs[task][0] for task in np.flatnonzero(here)) <= 4 * nodes
        assert sum(needs[task][1] for task in np.flatnonzero(here)) <= 1000 * nodes
    assert (starts[made.graph.child] >= ends[made.graph.edge_parents()]).all()


def test_a_task_larger_than_a_node_is_refused() -> None:
    with pytest.raises(InputError, match="a node has"):
        Work.of(bag((100, 5, 10)), node=NODE)


@given(timed_workflows(), st.floats(0, 1))
def test_no_batch_job_is_used_less_than_the_floor_says(made: Workflow, floor: float) -> None:
    work = Work.of(made)
    situation = Situation(work.everything(), empty())
    settings = Settings(min_utilisation=floor)
    best = best_nodes(situation, settings, 0, 0, situation.left.last)
    widest = on_nodes(situation, settings, 0, situation.left.last)
    for found in (best, widest):
        assert work.seconds.sum() >= floor * found.nodes * found.run * (1 - 1e-9)


@pytest.mark.parametrize("strategy", [name for name in PACKERS if name != "per-task"])
def test_every_strategy_keeps_to_the_floor(strategy: str) -> None:
    work = Work.of(bag((1000, 1, 1), (400, 1, 1), (400, 1, 1)))
    free, floored = (simulate(work, Cluster(8), strategy, Settings(min_utilisation=floor)) for floor in (0.0, 1.0))
    assert free.idle > floored.idle == 0


def test_a_shared_node_is_used_as_far_as_the_scarcer_of_its_cores_and_memory() -> None:
    work = Work.of(bag((100, 1, 500), (100, 1, 500), (100, 2, 250)), node=NODE)
    assert [work.use(np.array(tasks, int)) for tasks in ([], [0], [0, 1], [2], [0, 1, 2])] == [0, 50, 100, 50, 125]
    outcome = simulate(work, Cluster(1), "one-job", Settings(fudge=1.0))
    (job,) = outcome.carried
    assert (outcome.makespan, job.busy, job.idle) == (200, 125, 75)
    floored = Settings(min_utilisation=0.9)
    assert best_nodes(Situation(work.everything(), empty()), floored, 0, 0, 0).nodes == 1


@pytest.mark.parametrize(("tasks", "nodes"), [(1, 1), (8, 8), (40, 4), (200, 50)])
def test_where_run_times_vary_enough_time_is_asked_for(tasks: int, nodes: int) -> None:
    work = Work.of(bag(*[(1000.0, 1, 1)] * tasks))
    everything, settings = np.arange(tasks), Settings(fudge=1.0, variation=0.3)
    run = int(work.run_times(everything, nodes)[-1])
    asked = int(requested(run, settings, tasks, nodes))
    none = np.zeros(tasks, np.int64)
    runs = [work.taking(actual_times(work, 0.3, seed=seed)).ends(everything, nodes, none).max() for seed in range(200)]
    assert np.mean(np.array(runs) <= asked) >= 0.95
    assert asked < 3 * run
    assert int(requested(run, Settings(fudge=1.0), tasks, nodes)) < asked


def test_times_that_vary_have_the_mean_and_the_variation_that_were_asked_for() -> None:
    work = Work.of(bag(*[(100_000.0, 1, 1)] * 20_000))
    drawn = actual_times(work, 0.5, seed=1)
    assert drawn.mean() == pytest.approx(100_000, rel=0.02)
    assert drawn.std() == pytest.approx(50_000, rel=0.05)
    assert actual_times(work, 0.0, seed=1) is work.seconds


def test_a_level_is_cut_into_parts_that_fit_into_gaps() -> None:
    """Four of eight nodes are busy for an hour: four tasks start now, and the four others must wait either way."""
    queue = empty().with_job(4, 3600)
    work = Work.of(bag(*[(3000.0, 1, 1)] * 8))
    packed = split_level(Situation(work.everything(), queue), Settings(fudge=1.0))
    assert sorted(task for job in packed.jobs for task in job.tasks.tolist()) == list(range(8))
    one = PACKERS["level-by-level"](Situation(work.everything(), queue), Settings(fudge=1.0))
    ends = max((job.wait or 0) + job.run for job in packed.jobs)
    assert ends <= (one.jobs[0].wait or 0) + one.jobs[0].run
    assert split_level(Situation(work.everything(), queue, room=1), Settings()).jobs[0].tasks.tolist() == list(range(8))


def test_auto_says_what_it_chose_and_what_the_others_would_take() -> None:
    work = Work.of(FAMILIES["montage"].generate(60))
    packed = PACKERS["auto"](Situation(work.everything(), empty(16)), Settings())
    assert "forecast to finish" in packed.reason
    assert packed.estimate is not None
    outcome = simulate(work, Cluster(16), "auto")
    assert outcome.makespan <= packed.estimate


@given(timed_workflows())
def test_auto_on_an_empty_machine_is_no_later_than_glume(made: Workflow) -> None:
    """Nobody else comes, so what is forecast happens."""
    work = Work.of(made)
    assert simulate(work, Cluster(8), "auto").makespan <= simulate(work, Cluster(8), "glume").makespan


def test_auto_does_not_know_how_long_tasks_really_take() -> None:
    """Its first decision is the same whatever happens later, and the workflow comes to its end."""
    work = Work.of(FAMILIES["montage"].generate(80))
    first = [
        simulate(work, Cluster(8), "auto", actual=actual).reasons[0]
        for actual in (work.seconds, work.seconds * 5 // 2, actual_times(work, 1.0, seed=3))
    ]
    assert len(set(first)) == 1
