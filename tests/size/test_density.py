"""Categories that nobody named: found by what jobs used, and given back to workflows."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.size import collect
from tonnage.size.discover import WEIGHTS, apply, by_density, discover, merge
from tonnage.workflow import Task, Workflow

MB = 1e6


def job(memory: float, seconds: float = 100, **more: object) -> Attempt:
    requested = more.pop("requested", Amounts())
    used = Amounts.of(cores=1, memory=memory * MB, disk=10 * MB, wall_time=seconds)
    return Attempt(used=used, requested=requested, **more)  # type: ignore[arg-type]


def small_and_large(number: int = 5) -> list[Attempt]:
    return [job(1000 + n) for n in range(number)] + [job(9000 + n, 500) for n in range(number - 1)]


def test_jobs_that_used_alike_amounts_are_one_cluster_the_largest_first() -> None:
    found = discover(merge(small_and_large()), radii=[100.0])
    assert [(one.label, one.tasks) for one in found.clusters] == [("cluster-1", 5), ("cluster-2", 4)]
    assert found.clusters[0].maxima[Resource.MEMORY] == 1004 * MB
    assert found.clusters[1].maxima[Resource.WALL_TIME] == 500
    assert found.cluster.tolist() == [0] * 5 + [1] * 4
    assert found.chosen_by == "given"


def test_a_distance_is_weighted_and_in_cores_megabytes_and_seconds() -> None:
    """Two jobs 100 MB apart are sqrt(0.7) * 100 apart, as the paper has it."""
    tasks = merge([job(1000), job(1100)])
    assert len(discover(tasks, radii=[83.0]).clusters) == 2
    assert len(discover(tasks, radii=[84.0]).clusters) == 1
    other = {**WEIGHTS, Resource.MEMORY: 0.01}
    assert len(discover(tasks, radii=[10.1], weights=other).clusters) == 1


def test_of_many_distances_the_one_that_matches_the_categories_is_taken() -> None:
    jobs = [job(1000 + 50 * n, category="a") for n in range(4)] + [job(1400 + 50 * n, category="b") for n in range(4)]
    found = discover(merge(jobs), radii=[1.0, 45.0, 1000.0])
    assert (found.eps, found.score, found.chosen_by) == (45.0, 1.0, "structure")
    assert [dict(one.categories) for one in found.clusters] == [{"a": 4}, {"b": 4}]


def test_without_categories_programs_tell_the_structure() -> None:
    jobs = [job(1000, executable="bwa"), job(1010, executable="bwa"), job(5000, executable="sort")]
    assert discover(merge(jobs), radii=[20.0, 9999.0]).chosen_by == "structure"


def test_without_any_names_the_score_decides() -> None:
    found = discover(merge(small_and_large()), radii=[0.1, 100.0, 1e9])
    assert (found.eps, found.chosen_by) == (100.0, "calinski-harabasz")


def test_several_runs_of_a_task_are_one_with_the_most_of_each() -> None:
    tasks = merge([job(900, 300, task="t", run="1"), job(1000, 200, task="t", run="2"), job(5, task="u", run="2")])
    assert [(task.name, task.used[Resource.MEMORY], task.used[Resource.WALL_TIME]) for task in tasks] == [
        ("t", 1000 * MB, 300),
        ("u", 5 * MB, 100),
    ]


def test_jobs_of_one_run_with_the_same_name_are_different_tasks() -> None:
    assert len(merge([job(900, task="align", run="1"), job(100, task="align", run="1")])) == 2


def test_jobs_that_did_not_finish_say_nothing() -> None:
    jobs = [job(1000), job(5, outcome=Outcome.FAILED), job(7, outcome=Outcome.EXHAUSTED)]
    assert len(merge(jobs)) == 1


def test_what_a_log_does_not_know_is_not_compared() -> None:
    jobs = [Attempt(used=Amounts.of(memory=n * MB, wall_time=10)) for n in (100, 101, 5000)]
    found = discover(merge([*jobs, Attempt(used=Amounts.of(wall_time=3))]), radii=[10.0])
    assert found.features == (Resource.MEMORY, Resource.WALL_TIME)
    assert [one.tasks for one in found.clusters] == [2, 1]
    assert found.left_out == 1


def test_nothing_known_is_an_error() -> None:
    with pytest.raises(InputError, match="no task finished"):
        discover(merge([Attempt()]))
    with pytest.raises(InputError, match="no job finished"):
        by_density(collect([Attempt()]))


def test_an_allocation_is_the_most_and_a_margin_in_whole_cores() -> None:
    (cluster,) = discover(merge([Attempt(used=Amounts.of(cores=1.5, memory=1000 * MB, disk=10 * MB))])).clusters
    assert cluster.allocation(0.05) == Amounts.of(cores=2, memory=1050 * MB, disk=10.5 * MB)


def test_savings_are_against_what_was_requested() -> None:
    asked = Amounts.of(cores=2, memory=10_000 * MB, disk=20 * MB)
    found = discover(merge([job(1000, 100, requested=asked), job(5000, 300, requested=asked)]), radii=[1.0])
    saved = found.savings(0.0)
    assert found.compared_with == "requested"
    assert saved[Resource.CORES] == pytest.approx(0.5)
    assert saved[Resource.MEMORY] == pytest.approx(1 - (1000 * 100 + 5000 * 300) / (10_000 * 400))
    assert saved[Resource.DISK] == pytest.approx(0.5)


def test_savings_are_against_one_size_for_all_where_requests_are_not_known() -> None:
    found = discover(merge([job(1000, 100), job(5000, 300)]), radii=[1.0])
    assert found.compared_with == "one size for all"
    assert found.savings(0.0)[Resource.MEMORY] == pytest.approx(1 - (1000 * 100 + 5000 * 300) / (5000 * 400))


@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 900)), min_size=1, max_size=30))
def test_no_task_fails_with_its_clusters_allocation(jobs: Sequence[tuple[int, int]]) -> None:
    found = discover(merge(job(memory, seconds) for memory, seconds in jobs))
    for task, number in zip(found.tasks, found.cluster.tolist(), strict=True):
        given_amounts = found.clusters[number].allocation(0.0)
        assert (given_amounts.memory or 0) >= task.used[Resource.MEMORY]
    assert sum(one.tasks for one in found.clusters) == len(jobs)


def test_by_density_replaces_categories_by_clusters() -> None:
    records = by_density(collect([*small_and_large(), job(5, outcome=Outcome.FAILED)], "none"))
    assert len(records) == 9
    assert set(records.names) == {"cluster-1", "cluster-2"}
    histories = records.histories()
    assert histories["cluster-1"].used[Resource.MEMORY].max() == 1004 * MB
    assert np.all(histories["cluster-2"].used[Resource.MEMORY] >= 9000 * MB)


def workflow(*tasks: Task) -> Workflow:
    return Workflow.build("w", tasks, ((), ()))


def test_a_task_that_ran_gets_its_own_cluster() -> None:
    known = workflow(Task("one", "x"), Task("two", "x"))
    jobs = [
        job(1000, task="one", run="1", workflow_checksum=known.checksum),
        job(9000, task="two", run="1", workflow_checksum=known.checksum),
        job(77, task="one", run="1", workflow_checksum="of another workflow"),
    ]
    applied = apply(discover(merge(jobs), radii=[1.0]), known, margin=0.0)
    assert [task.request.memory for task in applied.workflow.tasks] == [1000 * MB, 9000 * MB]
    assert applied.found_by == {"identity": 2}


def test_a_task_that_has_not_run_gets_the_cluster_of_its_category_then_program_then_level() -> None:
    jobs = [job(1000, category="align", task="other"), job(5000, category="", executable="sort", task="third")]
    new = Workflow.build(
        "w",
        [Task("a", "bwa x", "align"), Task("b", "/usr/bin/sort f", "unknown"), Task("c", None, "unknown"), Task("d")],
        ((0, 0), (3, 3)),
    )
    applied = apply(discover(merge(jobs), radii=[1.0]), new, margin=0.0)
    found = {task.name: task.request.memory for task in applied.workflow.tasks}
    assert found == {"a": 1000 * MB, "b": 5000 * MB, "c": 5000 * MB, "d": None}
    assert applied.found_by == {"category": 1, "program": 1, "level": 1, "nothing": 1}


def test_a_mixed_category_gets_the_most_but_a_few_outliers_do_not_count() -> None:
    mixed = [job(1000 + n / 100, category="a") for n in range(10)] + [job(5000, category="a")]
    single = [job(1000 + n / 100, category="b") for n in range(30)] + [job(5000, category="b")]
    found = discover(merge([*mixed, *single]), radii=[1.0])
    applied = apply(found, workflow(Task("x", category="a"), Task("y", category="b")), margin=0.0)
    assert [round((task.request.memory or 0) / MB) for task in applied.workflow.tasks] == [5000, 1000]


def test_what_a_task_asked_for_otherwise_stays() -> None:
    one = Task("one", category="a", request=Amounts.of(wall_time=60, memory=1))
    applied = apply(discover(merge([job(1000, category="a")])), workflow(one), margin=0.0)
    assert applied.workflow.tasks[0].request == Amounts.of(cores=1, memory=1000 * MB, disk=10 * MB, wall_time=60)


def test_a_structure_of_close_jobs_is_found_by_distances_below_the_usual() -> None:
    jobs = [job(1000 + n / 10, category="a") for n in range(5)] + [job(1010 + n / 10, category="b") for n in range(5)]
    jobs += [job(100_000 * n, category=f"far{n}") for n in range(2, 60)]
    assert discover(merge(jobs)).score == 1.0
