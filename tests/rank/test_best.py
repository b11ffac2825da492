"""The best of several orders keeps at least as many tasks eligible as PRIO and first in, first out, and says more."""

from pathlib import Path

import pytest

from tonnage.rank import best as room
from tonnage.rank.best import best
from tonnage.rank.eligible import is_possible, mean_eligible
from tonnage.rank.orders import fifo
from tonnage.rank.prio import prio
from tonnage.workflow import Task, Workflow, read
from tonnage.workflow.families import FAMILIES


def check(workflow: Workflow) -> None:
    graph = workflow.graph
    found = best(workflow)
    assert is_possible(graph, found.order)
    least = max(mean_eligible(graph, prio(graph)), mean_eligible(graph, fifo(graph)))
    assert mean_eligible(graph, found.order) >= 0.99 * least
    assert found.bound is None or found.bound >= mean_eligible(graph, found.order)
    assert {"prio", "fifo", "critical-path", "descendants", "gain"} <= {one.method for one in found.candidates}


@pytest.mark.parametrize("tasks", [100_000, pytest.param(10_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_keeps_as_many_eligible_on_every_family(family: str, tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_TASKS", tasks)  # whatever the runs say, this holds
    check(FAMILIES[family].generate(min(FAMILIES[family].tasks, 1_000)))


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.long)])
def test_it_keeps_as_many_eligible_on_every_shared_workflow(
    data: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(room, "_TASKS", 100_000)
    paths = [*sorted(data.glob("workflows/*/*")), *sorted(data.glob("dagman/*.dag"))]
    paths = [path for path in paths if "cycle-A" not in path.name]  # that one is invalid on purpose
    assert len(paths) > 70
    for path in paths[::step]:
        check(read(path))


def test_it_finds_what_prio_does_not_see_on_ligo() -> None:
    workflow = FAMILIES["ligo"].generate(1_000)
    found = best(workflow)
    assert found.method not in ("prio", "fifo")
    assert mean_eligible(workflow.graph, found.order) > 1.05 * mean_eligible(workflow.graph, prio(workflow.graph))


def test_it_says_how_much_sooner_in_runs_that_it_did_not_choose_by() -> None:
    found = best(FAMILIES["airsn"].generate(773))
    over_fifo = next(gain for gain in found.gains if gain.rival == "fifo")
    assert over_fifo.low < over_fifo.ratio < over_fifo.high < 0.95
    assert found.runs > 100


def test_equal_jobs_go_by_the_work_behind_them_where_run_times_are_known() -> None:
    timed = FAMILIES["airsn"].generate(773)
    untimed = Workflow(timed.name, tuple(Task(task.name) for task in timed.tasks), timed.graph)
    assert "+critical-path" in best(timed).method
    assert not any("+critical-path" in one.method for one in best(untimed).candidates)


def test_one_task_and_none() -> None:
    assert best(Workflow.build("one", [Task("a")])).order.tolist() == [0]
    assert best(Workflow.build("none", [])).order.tolist() == []
