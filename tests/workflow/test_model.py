"""A workflow: names, categories, times, files, identity."""

import pytest
from hypothesis import given

from tests.strategies import workflows
from tonnage.errors import CycleError, InputError
from tonnage.jobs import Amounts
from tonnage.workflow import Task, Workflow
from tonnage.workflow.model import file_edges


def timed(name: str, seconds: float | None) -> Task:
    return Task(name, expected=Amounts.of(wall_time=seconds))


def diamond(times: tuple[float | None, ...] = (1, 5, 2, 1)) -> Workflow:
    tasks = [timed(name, time) for name, time in zip("abcd", times, strict=True)]
    return Workflow.build("diamond", tasks, ([0, 0, 1, 2], [1, 2, 3, 3]))


def test_the_critical_path_is_the_slowest_chain() -> None:
    workflow = diamond()
    assert workflow.total_seconds == 9
    critical = workflow.critical_path
    assert critical is not None
    assert critical.seconds == 7
    assert [workflow.tasks[number].name for number in critical.tasks] == ["a", "b", "d"]


def test_times_are_unknown_as_soon_as_one_is() -> None:
    workflow = diamond((1, None, 2, 1))
    assert workflow.total_seconds is None
    assert workflow.critical_path is None


def test_a_cycle_is_reported_with_its_names() -> None:
    tasks = [Task(name) for name in "abc"]
    with pytest.raises(CycleError, match=r"cycle: b -> c -> b|cycle: c -> b -> c"):
        Workflow.build("round", tasks, ([0, 1, 2], [1, 2, 1]))
    with pytest.raises(CycleError, match='"b" depends on itself'):
        Workflow.build("self", tasks, ([1], [1]))


def test_a_long_cycle_is_shortened_in_the_message() -> None:
    tasks = [Task(f"t{number}") for number in range(1000)]
    with pytest.raises(CycleError) as caught:
        Workflow.build("ring", tasks, (range(1000), [*range(1, 1000), 0]))
    assert len(caught.value.names) == 1000
    assert "more" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_names_are_unique() -> None:
    with pytest.raises(InputError, match='two tasks are named "a"'):
        Workflow.build("twice", [Task("a"), Task("a")])


def test_whoever_reads_a_file_waits_for_its_writer() -> None:
    tasks = [Task("w", outputs=("x/y",)), Task("r", inputs=("./x/y", "other")), Task("n")]
    assert file_edges(tasks) == ([0], [1])


def test_a_file_has_one_writer() -> None:
    with pytest.raises(InputError, match='"x" is written by two tasks: "a" and "b"'):
        file_edges([Task("a", outputs=("x",)), Task("b", outputs=("x",))])


@given(workflows(special=False))
def test_the_checksum_knows_what_is_run_but_not_in_what_order_or_how_sized(workflow: Workflow) -> None:
    ranked = workflow.with_priorities({task.name: number for number, task in enumerate(workflow.tasks)})
    assert ranked.checksum == workflow.checksum
    turned = list(range(len(workflow)))[::-1]
    parents = [turned[int(parent)] for parent in workflow.graph.edge_parents()]
    children = [turned[int(child)] for child in workflow.graph.child]
    assert Workflow.build("other", workflow.tasks[::-1], (parents, children)).checksum == workflow.checksum


def test_the_checksum_changes_with_a_command_a_category_or_a_dependency() -> None:
    tasks = [Task("a", "x"), Task("b", "y")]
    sums = {
        Workflow.build("w", tasks).checksum,
        Workflow.build("w", tasks, ([0], [1])).checksum,
        Workflow.build("w", [Task("a", "x"), Task("b", "z")]).checksum,
        Workflow.build("w", [Task("a", "x"), Task("b", "y", category="c")]).checksum,
    }
    sums.add(Workflow.build("w", [Task("a", "x"), Task("b", None)]).checksum)
    sums.add(Workflow.build("w", [Task("a", "x"), Task("b", "")]).checksum)
    assert len(sums) == 6


def test_priorities_are_set_by_name() -> None:
    workflow = diamond().with_priorities({"b": 3})
    assert [task.priority for task in workflow.tasks] == [None, 3, None, None]
