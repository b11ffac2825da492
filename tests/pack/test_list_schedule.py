"""List schedules: how long some tasks take on so many nodes, and when each of them ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batch.workloads import kernels_compiled
from tests.pack.reference import list_schedule
from tests.pack.workflows import chain, timed_workflows, workflow
from tonnage.errors import InputError
from tonnage.jobs import Amounts
from tonnage.pack import ORDERS, Remaining, Work
from tonnage.rank import rank
from tonnage.workflow import Task, Workflow
from tonnage.workflow.families import FAMILIES

nodes_ = st.integers(1, 8)


def keys(made: Workflow, order: str) -> list[int]:
    """Who goes first: the one with the smallest."""
    if order == "rank":
        return np.argsort(rank(made)).tolist()  # type: ignore[no-any-return]
    return [int(time) if order == "shortest" else -int(time) for time in made.seconds]


def plain(made: Workflow, tasks: list[int], order: str, nodes: int, release: list[int]) -> list[int]:
    key = keys(made, order)
    ends = list_schedule(
        {task: int(made.seconds[task]) for task in tasks},
        {task: [one for one in made.graph.parents_of(task).tolist() if one in tasks] for task in tasks},
        {task: key[task] for task in tasks},
        nodes,
        dict(zip(tasks, release, strict=True)),
    )
    return [ends[task] for task in tasks]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@given(timed_workflows(), nodes_, st.data())
def test_each_free_node_takes_the_first_task_that_could_start(
    order: str, compiled: bool, made: Workflow, nodes: int, data: st.DataObject
) -> None:
    tasks = data.draw(st.lists(st.sampled_from(range(len(made))), unique=True, min_size=1).map(sorted), "tasks")
    size = len(tasks)
    release = data.draw(st.lists(st.sampled_from([0, 0, 60]) | st.integers(0, 5000), min_size=size, max_size=size))
    with kernels_compiled(compiled):
        ends = Work.of(made, order).ends(np.array(tasks), nodes, np.array(release))
    assert ends.tolist() == plain(made, tasks, order, nodes, release)


@given(timed_workflows(), nodes_, st.data())
def test_tasks_that_turn_out_to_take_no_time_let_others_in_at_once(
    made: Workflow, nodes: int, data: st.DataObject
) -> None:
    size = len(made)
    actual = data.draw(st.lists(st.sampled_from([0, 0, 7]), min_size=size, max_size=size))
    tasks, none = np.arange(size), np.zeros(size, np.int64)
    ends = Work.of(made).taking(np.array(actual)).ends(tasks, nodes, none)
    parents = {task: made.graph.parents_of(task).tolist() for task in range(size)}
    # They go in the order of what was expected of them.
    expected = {task: -int(time) for task, time in enumerate(made.seconds)}
    literal = list_schedule(dict(enumerate(actual)), parents, expected, nodes, dict.fromkeys(range(size), 0))
    assert ends.tolist() == [literal[task] for task in range(size)]


@pytest.mark.parametrize("compiled", [False, True])
@given(timed_workflows(), st.sampled_from(ORDERS), st.data())
def test_run_times_of_levels_are_those_of_schedules_on_1_2_and_so_on_nodes(
    compiled: bool, made: Workflow, order: str, data: st.DataObject
) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(made), max_size=len(made))))
    mask[data.draw(st.integers(0, len(made) - 1))] = True
    left = Remaining(Work.of(made, order), mask)
    first = data.draw(st.integers(0, left.last))
    last = data.draw(st.integers(first, left.last))
    machine = data.draw(nodes_)
    tasks = left.tasks(first, last).tolist()
    with kernels_compiled(compiled):
        found = left.run_times(first, last, machine).tolist()
    level = made.graph.level
    levels = sorted({int(level[task]) for task in np.flatnonzero(mask)})[first : last + 1]
    assert tasks == [task for task in np.flatnonzero(mask) if level[task] in levels]
    widest = max(sum(level[task] == one for task in tasks) for one in levels)
    assert left.width(first, last) == widest
    expected = [max(plain(made, tasks, order, n, [0] * len(tasks))) for n in range(1, min(widest, machine) + 1)]
    assert found == expected
    assert left.run_times(first, last, machine).tolist() == expected


@given(timed_workflows(most=20), st.sampled_from(ORDERS))
def test_no_schedule_beats_the_critical_path_or_the_work_divided_by_the_nodes(made: Workflow, order: str) -> None:
    work = Work.of(made, order)
    path, _ = made.graph.longest_path(made.seconds)
    runs = work.run_times(np.arange(len(made)), len(made)).tolist()
    for nodes, run in enumerate(runs, start=1):
        assert run >= max(path, made.seconds.sum() / nodes)
        assert run <= path + made.seconds.sum() / nodes  # Graham: never twice as long as it could take
    assert runs[0] == made.seconds.sum()
    assert runs[-1] == path


@pytest.mark.parametrize("family", ["montage", "cybershake", "sipht"])
def test_a_real_workflow_has_the_same_schedules_compiled_and_not(family: str) -> None:
    made = FAMILIES[family].generate(200, seed=1)
    found = []
    for compiled in (False, True):
        with kernels_compiled(compiled):
            found.append(Work.of(made).everything().run_times(0, made.graph.level.max(), 50).tolist())
    assert found[0] == found[1]
    assert found[0][0] == int(np.ceil(np.maximum(made.seconds, 1)).sum())


def test_which_task_goes_first_is_a_choice() -> None:
    made = workflow([10, 20, 30, 40])
    ends = {order: Work.of(made, order).ends(np.arange(4), 2, np.zeros(4, np.int64)).tolist() for order in ORDERS}
    assert ends["longest"] == [50, 50, 30, 40]
    assert ends["shortest"] == [10, 20, 40, 60]
    with pytest.raises(InputError, match='"fair" is not an order'):
        Work.of(made, "fair")


def test_run_times_are_whole_seconds_and_at_least_one() -> None:
    assert Work.of(chain(0, 0.2, 1, 1.5, 1e30)).seconds.tolist() == [1, 1, 1, 2, 2**40]


def test_work_without_tasks_or_with_an_unknown_run_time_is_refused() -> None:
    with pytest.raises(InputError, match='"empty" has no tasks'):
        Work.of(Workflow.build("empty", []))
    tasks = [Task("known", expected=Amounts.of(wall_time=1)), Task("unknown")]
    with pytest.raises(InputError, match=r'of 1 of 2 tasks are unknown \(first: "unknown"\)'):
        Work.of(Workflow.build("half", tasks))
