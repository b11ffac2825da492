"""Workflows on their way through a simulated queue: what is promised whatever happens, and small cases by hand."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batch.workloads import NODES, workload
from tests.pack.workflows import chain, timed_workflows, workflow
from tonnage.batch import POLICIES, REQUESTS, Cluster, Workload
from tonnage.errors import InputError
from tonnage.pack import ORDERS, PACKERS, Carried, Outcome, Packed, Settings, Situation, Submission, Work, simulate
from tonnage.workflow import Workflow, read

Packer = Callable[[Situation, Settings], Packed]
Add = Callable[[Packer], str]

EXACT = Settings(fudge=1.0)
seeds = st.integers(0, 2**32 - 1)


# What holds whatever happens.


@st.composite
def backgrounds(draw: st.DrawFn) -> Workload:
    """Other users' jobs: about as long as tasks."""
    times = st.integers(0, 4000)
    jobs = st.tuples(st.integers(0, 12000), st.integers(1, NODES), times, times)
    rows = draw(st.lists(jobs, max_size=15))
    return workload([(submit, nodes, run, max(1, run + more)) for submit, nodes, run, more in rows])


@st.composite
def clusters(draw: st.DrawFn, max_running: int | None = None, max_submitted: int | None = None) -> Cluster:
    cluster = Cluster(
        NODES,
        draw(backgrounds()),
        requests=draw(st.sampled_from(REQUESTS)),
        policy=draw(st.sampled_from(POLICIES)),
        contiguous=draw(st.integers(0, 3)) == 0,
        max_running=max_running,
        max_submitted=max_submitted,
    )
    cluster.advance(cluster.now + draw(st.integers(0, 8000)))
    return cluster


caps = st.none() | st.integers(1, 4)


@st.composite
def actual_times(draw: st.DrawFn, made: Workflow) -> np.ndarray[Any, np.dtype[np.int64]]:
    """As expected, or anything from nothing to four times that."""
    percent = st.just(100) | st.integers(0, 400)
    factors = draw(st.lists(percent, min_size=len(made), max_size=len(made)))
    return (made.seconds.astype(np.int64) * factors) // 100


def most_at_once(spans: Sequence[tuple[int, int]]) -> int:
    """How many spans of time overlap at most."""
    return max((sum(begin <= moment < end for begin, end in spans) for moment, _ in spans), default=0)


def last_holder(outcome: Outcome, task: int) -> Carried:
    return [one for one in outcome.carried if task in one.job.tasks and one.started is not None][-1]


def check(made: Workflow, actual: Sequence[int], begin: int, outcome: Outcome) -> None:
    """Every task ran once to its end, after all that it waits for, inside of a batch job and on a node of it."""
    ends = outcome.ends.tolist()
    starts = [end - time for end, time in zip(ends, actual, strict=True)]
    inside: dict[int, list[tuple[int, int]]] = {}
    for task in range(len(made)):
        assert starts[task] >= max((ends[one] for one in made.graph.parents_of(task).tolist()), default=begin)
        holder = last_holder(outcome, task)
        assert holder.started is not None
        assert holder.ended is not None
        assert holder.started <= starts[task] <= ends[task] <= holder.ended
        inside.setdefault(id(holder), []).append((starts[task], ends[task]))
    assert outcome.makespan == max(ends) - begin
    path, _ = made.graph.longest_path(actual)
    assert outcome.makespan >= path
    for one in outcome.carried:
        assert most_at_once(inside.get(id(one), [])) <= one.job.nodes
        assert one.ended is not None
        assert begin <= one.submitted <= (one.ended if one.started is None else one.started)
        assert one.started is not None or one.cancelled
        if one.started is not None:
            assert 0 <= one.ended - one.started <= one.job.seconds
            assert not one.expired or one.ended - one.started == one.job.seconds
            assert one.idle >= 0
        # It holds its nodes no longer than its last task needs them.
        assert one.expired or one.cancelled or one.ended == max(ends[task] for task in one.job.tasks)
    # What counts was done once.
    assert sum(one.busy for one in outcome.carried) == sum(actual)
    assert outcome.expired == sum(one.expired for one in outcome.carried)
    assert outcome.reasons
    assert all(outcome.reasons)


def spans(outcome: Outcome, *, waiting: bool) -> list[tuple[int, int]]:
    """When each batch job was in the system, or on its nodes."""
    found = []
    for one in outcome.carried:
        begin = one.submitted if waiting else one.started
        if begin is not None and one.ended is not None:
            found.append((begin, one.ended))
    return found


@pytest.mark.parametrize("strategy", PACKERS)
@given(timed_workflows(), st.sampled_from(ORDERS), caps, caps, st.data())
def test_every_task_ends_once_after_its_parents_and_within_a_batch_job(
    strategy: str, made: Workflow, order: str, max_running: int | None, max_submitted: int | None, data: st.DataObject
) -> None:
    cluster = data.draw(clusters(max_running=max_running, max_submitted=max_submitted))
    twin, begin = cluster.copy(), cluster.now
    work = Work.of(made, order)
    outcome = simulate(work, cluster, strategy)
    check(made, work.seconds.tolist(), begin, outcome)
    assert most_at_once(spans(outcome, waiting=True)) <= (max_submitted or len(made) + 2)
    assert most_at_once(spans(outcome, waiting=False)) <= (max_running or NODES)
    again = simulate(work, twin, strategy)
    assert (again.ends.tolist(), again.reasons) == (outcome.ends.tolist(), outcome.reasons)
    assert [told(one) for one in again.carried] == [told(one) for one in outcome.carried]


def told(one: Carried) -> tuple[Any, ...]:
    return (one.job.tasks.tolist(), one.job.nodes, one.job.seconds, one.submitted, one.started, one.ended)


@pytest.mark.parametrize("strategy", PACKERS)
@given(timed_workflows(), caps, caps, st.data())
def test_tasks_that_take_longer_than_expected_run_again_until_all_are_done(
    strategy: str, made: Workflow, max_running: int | None, max_submitted: int | None, data: st.DataObject
) -> None:
    cluster = data.draw(clusters(max_running=max_running, max_submitted=max_submitted))
    actual = data.draw(actual_times(made))
    begin = cluster.now
    outcome = simulate(Work.of(made), cluster, strategy, actual=actual)
    check(made, actual.tolist(), begin, outcome)
    assert most_at_once(spans(outcome, waiting=True)) <= (max_submitted or len(made) + 2)


@pytest.fixture
def packer() -> Iterator[Add]:
    """Lets a strategy of the test's own take part; returns its name."""

    def add(one: Packer) -> str:
        PACKERS["made up"] = one
        return "made up"

    yield add
    PACKERS.pop("made up", None)


def moody(random: np.random.Generator) -> Packer:
    """Packs anything, sometimes for too short a time or much too early; at some point each task goes on its own."""

    def decide(situation: Situation, settings: Settings) -> Packed:
        left = situation.left
        if situation.pending > random.integers(0, 2):
            return Packed()
        if random.random() < 0.15:
            return Packed(reason="tired of it", singly=True)
        last = int(random.integers(0, left.last + 1))
        runs = left.run_times(0, last, situation.queue.nodes)
        nodes = int(random.integers(1, len(runs) + 1))
        run = int(runs[nodes - 1])
        seconds = max(
            1, int(run * settings.fudge * settings.more * random.choice([0.5, 0.9, 1.0]) + random.choice([0, 0, 3000]))
        )
        levels = (int(left.levels[0]), int(left.levels[last]))
        return Packed((Submission(left.tasks(0, last), levels, nodes, seconds, 0, run),), "for fun")

    return decide


@given(timed_workflows(), seeds, st.booleans(), st.data())
def test_whatever_is_submitted_everything_is_done_in_the_end(
    made: Workflow, seed: int, late: bool, data: st.DataObject
) -> None:
    cluster = data.draw(clusters(max_submitted=data.draw(caps)))
    actual = data.draw(actual_times(made)) if late else made.seconds.astype(np.int64)
    begin = cluster.now
    PACKERS["moody"] = moody(np.random.default_rng(seed))
    try:
        outcome = simulate(Work.of(made), cluster, "moody", actual=actual)
    finally:
        del PACKERS["moody"]
    check(made, actual.tolist(), begin, outcome)


@given(timed_workflows())
def test_on_an_empty_machine_one_job_takes_as_long_as_its_schedule(made: Workflow) -> None:
    work = Work.of(made)
    outcome = simulate(work, Cluster(NODES), "one-job")
    (one,) = outcome.carried
    assert outcome.makespan == one.job.run == work.everything().run_times(0, made.graph.level.max(), NODES).min()
    assert (one.job.wait, one.started, one.ended) == (0, 0, one.job.run)
    assert outcome.idle == outcome.makespan * one.job.nodes - int(made.seconds.sum())


@given(timed_workflows(), backgrounds())
def test_one_job_takes_its_wait_and_its_run_time_where_requests_are_accurate(made: Workflow, log: Workload) -> None:
    log = workload([row for row in zip(log.submit, log.nodes, log.run, log.request, strict=True) if row[2]])
    cluster = Cluster(NODES, log)
    cluster.advance(cluster.now)
    outcome = simulate(Work.of(made), cluster, "one-job")
    (one,) = outcome.carried
    assert one.job.wait is not None
    assert outcome.makespan == one.job.wait + one.job.run


# By hand. Machines of few nodes, and requests that are exact: all times are whole minutes.


def crossed(
    made: Workflow, nodes: int, log: list[tuple[int, int, int]], strategy: str, **options: Any
) -> list[tuple[list[int], int, int | None, int | None]]:
    """What was carried when: tasks, nodes, start and end. The log's jobs: submitted, nodes, run time."""
    settings = options.pop("settings", EXACT)
    actual = options.pop("actual", None)
    rows = [(submit, width, run, run) for submit, width, run in log]
    cluster = Cluster(nodes, workload(rows, nodes), **options)
    cluster.advance(0)
    outcome = simulate(Work.of(made), cluster, strategy, settings, actual=None if actual is None else np.array(actual))
    check(made, made.seconds.astype(int).tolist() if actual is None else actual, 0, outcome)
    return [(one.job.tasks.tolist(), one.job.nodes, one.started, one.ended) for one in outcome.carried]


A, B, C = range(3)
FORK = [(A, C), (B, C)]
ALL = [A, B, C]


@pytest.mark.parametrize("strategy", ["one-job", "zhang", "zhang-printed", "zhang-improved", "glume"])
def test_one_job_for_all_keeps_its_place_in_the_queue(strategy: str) -> None:
    """Both nodes are busy until 1000; somebody comes at 100 and wants both for 480 seconds."""
    made = workflow([600, 600, 300], FORK)
    assert crossed(made, 2, [(0, 2, 1000), (100, 2, 480)], strategy) == [(ALL, 2, 1000, 1900)]


@pytest.mark.parametrize(
    ("strategy", "first"),
    [("level-by-level", [([A, B], 2, 1000, 1600)]), ("per-task", [([A], 1, 1000, 1600), ([B], 1, 1000, 1600)])],
)
def test_who_submits_late_waits_for_others(strategy: str, first: list[Any]) -> None:
    made = workflow([600, 600, 300], FORK)
    assert crossed(made, 2, [(0, 2, 1000), (100, 2, 480)], strategy) == [*first, ([C], 1, 2080, 2380)]


HOLE = [(0, 1, 1800), (0, 2, 600)]
"""On two nodes: one is free until 1800, none until 2400."""


@pytest.mark.parametrize("strategy", sorted(set(PACKERS) - {"one-job"}))
def test_what_fits_into_a_hole_goes_there(strategy: str) -> None:
    assert crossed(chain(900, 2100), 2, HOLE, strategy) == [([A], 1, 0, 900), ([B], 1, 2400, 4500)]


def test_one_job_does_not_fit_into_the_hole() -> None:
    assert crossed(chain(900, 2100), 2, HOLE, "one-job") == [([A, B], 1, 2400, 5400)]


LATER = [(0, 1, 600), (0, 2, 900), (0, 4, 9000)]
"""On five nodes: two are free until 600, three until 900, then one for a long time."""


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        # The second job may start too early, at 600: it asks for 300 seconds more, and idles until 900.
        ("zhang", [([A, B], 2, 0, 900), ([C], 1, 600, 3000)]),
        ("zhang-printed", [([A, B], 2, 0, 900), ([C], 1, 600, 3000)]),
        ("zhang-improved", [([A, B], 2, 0, 900), ([C], 1, 600, 3000)]),
        # A leeway of more than a tenth of the run time is not considered.
        ("glume", [(ALL, 1, 0, 3900)]),
        ("one-job", [(ALL, 1, 0, 3900)]),
        ("level-by-level", [([A, B], 2, 0, 900), ([C], 1, 900, 3000)]),
        ("per-task", [([A], 1, 0, 900), ([B], 1, 0, 900), ([C], 1, 900, 3000)]),
    ],
)
def test_a_job_that_starts_too_early_idles_until_its_parents_are_done(strategy: str, expected: list[Any]) -> None:
    assert crossed(workflow([900, 900, 2100], FORK), 5, LATER, strategy) == expected


@pytest.mark.parametrize("strategy", ["zhang", "zhang-printed", "zhang-improved"])
def test_zhang_lets_each_task_go_on_its_own_where_the_wait_is_long(strategy: str) -> None:
    made = workflow([60, 60, 60], FORK)
    found = crossed(made, 2, [(0, 2, 1000)], strategy)
    assert found == [([A], 1, 1000, 1060), ([B], 1, 1000, 1060), ([C], 1, 1060, 1120)]


def test_zhang_goes_singly_when_a_group_runs_and_tasks_of_the_group_stay_in_it() -> None:
    """The first level fits into the hole; from then on the wait is more than twice the rest's run time."""
    made = workflow([900, 600, 120, 120], [(A, 2), (B, 2), (A, 3)])
    found = crossed(made, 3, [(0, 1, 1000), (0, 3, 6000)], "zhang")
    assert found == [([A, B], 2, 0, 900), ([3], 1, 7000, 7120), ([2], 1, 7000, 7120)]


# Expiry.


@pytest.mark.parametrize("strategy", ["one-job", "glume", "zhang", "level-by-level"])
def test_a_job_that_expires_is_followed_by_one_that_asks_for_half_as_much_again(strategy: str) -> None:
    """The second task takes 500 seconds instead of 300: 450 are asked for, rounded up, then 675. What is done stays."""
    found = crossed(workflow([600, 300]), 1, [], strategy, actual=[600, 500])
    assert found == [([A, B], 1, 0, 900), ([B], 1, 900, 1380), ([B], 1, 1380, 1880)]


def scripted(*steps: Packed) -> Packer:
    """Answers one step after the other, then nothing."""
    todo = list(steps)
    return lambda situation, settings: todo.pop(0) if todo else Packed()


def job(*tasks: int, nodes: int = 1, seconds: int) -> Packed:
    return Packed((Submission(np.array(tasks), (0, 0), nodes, seconds, 0, seconds),), "scripted")


SINGLY = Packed((), "scripted", singly=True)


def test_a_job_behind_an_expired_one_is_cancelled_and_its_tasks_run_again(packer: Add) -> None:
    name = packer(scripted(job(A, seconds=300), job(B, seconds=1000), job(A, B, seconds=1000)))
    found = crossed(chain(500, 100), 2, [], name)
    assert found == [([A], 1, 0, 300), ([B], 1, 0, 300), ([A, B], 1, 300, 900)]


def test_a_job_may_start_in_the_second_in_which_the_one_before_it_expires(packer: Add) -> None:
    """The machine has one node: the second job starts when the first expires, and is cancelled at once."""
    name = packer(scripted(job(A, seconds=300), job(B, seconds=1000), job(A, B, seconds=1000)))
    assert crossed(chain(500, 100), 1, [], name) == [([A], 1, 0, 300), ([B], 1, 300, 300), ([A, B], 1, 300, 900)]


def test_a_job_behind_may_end_in_the_second_in_which_the_one_before_it_expires(packer: Add) -> None:
    made = workflow([500, 300, 100], [(A, C)])
    name = packer(scripted(job(A, seconds=300), job(B, C, seconds=300), job(A, C, seconds=1000)))
    assert crossed(made, 2, [], name) == [([A], 1, 0, 300), ([B, C], 1, 0, 300), ([A, C], 1, 300, 900)]
    made = workflow([500, 300])
    name = packer(scripted(job(A, seconds=300), job(B, seconds=300), job(A, seconds=1000)))
    assert crossed(made, 2, [], name) == [([A], 1, 0, 300), ([B], 1, 0, 300), ([A], 1, 300, 800)]


def test_a_job_that_started_too_early_and_expires_leaves_the_one_before_it_alone(packer: Add) -> None:
    """The second one waits for the first until its time is over; the first goes on, and nobody asks for more time."""
    asked: list[float] = []
    steps = scripted(job(A, seconds=900), job(B, seconds=300), job(B, seconds=1200))

    def noted(situation: Situation, settings: Settings) -> Packed:
        asked.append(settings.more)
        return steps(situation, settings)

    found = crossed(chain(900, 100), 2, [], packer(noted))
    assert found == [([A], 1, 0, 900), ([B], 1, 0, 300), ([B], 1, 300, 1000)]
    assert set(asked) == {1.0}


def test_a_group_may_expire_while_tasks_go_on_their_own(packer: Add) -> None:
    """The first job holds A and C for too short a time; B is on its way and stays there."""
    made = workflow([600, 900, 100, 50], [(A, C), (B, 3), (C, 3)])
    found = crossed(made, 3, [], packer(scripted(job(A, C, seconds=300), SINGLY)))
    assert found == [
        ([A, C], 1, 0, 300),
        ([B], 1, 0, 900),
        ([A], 1, 300, 900),
        ([C], 1, 900, 1000),
        ([3], 1, 1000, 1050),
    ]


def test_a_task_alone_in_a_group_that_expires_waits_for_its_parents_all_the_same(packer: Add) -> None:
    """B started too early and expired, while A still runs; then each task goes on its own."""
    found = crossed(chain(900, 100, 50), 3, [], packer(scripted(job(A, seconds=900), job(B, seconds=300), SINGLY)))
    assert found == [([A], 1, 0, 900), ([B], 1, 0, 300), ([B], 1, 900, 1000), ([C], 1, 1000, 1050)]


def test_tasks_of_a_running_group_set_their_children_free_once(packer: Add) -> None:
    """When tasks begin to go on their own, A is done and B is not; both are in one group. D waits for A and for C."""
    made = workflow([60, 900, 3000, 60], [(A, 3), (C, 3)])
    steps = scripted(job(A, B, nodes=2, seconds=900), job(C, seconds=3000), SINGLY)
    found = crossed(made, 4, [(0, 2, 120)], packer(steps))
    assert found == [([A, B], 2, 0, 900), ([C], 1, 120, 3120), ([3], 1, 3120, 3180)]


def test_many_tasks_on_their_own_may_expire() -> None:
    """Each asks for more time on its own: fifty that take a little longer do not make others ask for days."""
    found = crossed(workflow([600] * 50), 50, [], "per-task", actual=[700] * 50)
    assert found == [([task], 1, 0, 600) for task in range(50)] + [([task], 1, 600, 1300) for task in range(50)]


def test_tasks_that_take_no_time_are_done_at_once() -> None:
    made = workflow([60, 60, 60], FORK)
    for strategy in PACKERS:
        found = crossed(made, 2, [], strategy, actual=[0, 0, 0])
        assert {(start, end) for _, _, start, end in found} == {(0, 0)}


@pytest.mark.parametrize("strategy", PACKERS)
@pytest.mark.parametrize("variation", [0, 0.3, 1])
def test_a_task_that_expired_gets_more_time_whatever_run_times_vary_by(strategy: str, variation: float) -> None:
    settings = Settings(variation=variation)
    outcome = simulate(Work.of(workflow([6000])), Cluster(1), strategy, settings, actual=np.array([60_000]))
    asked = [one.job.seconds for one in outcome.carried]
    assert all(more >= 1.5 * one - 60 for one, more in pairwise(asked))


@pytest.mark.parametrize("strategy", PACKERS)
def test_a_task_that_takes_hundreds_of_times_as_long_as_expected_is_an_error(strategy: str) -> None:
    with pytest.raises(InputError, match="more than 100 times as long as expected"):
        simulate(Work.of(chain(60, 60)), Cluster(4), strategy, actual=np.array([60, 60 * 200]))


# Caps, other jobs.


@pytest.mark.parametrize("strategy", PACKERS)
def test_one_job_at_a_time_is_enough(strategy: str) -> None:
    """Where no second one may be submitted, the next one is submitted when the first has ended."""
    found = crossed(chain(900, 2100), 2, HOLE, strategy, max_submitted=1)
    expected = [([A, B], 1, 2400, 5400)] if strategy == "one-job" else [([A], 1, 0, 900), ([B], 1, 2400, 4500)]
    assert found == expected


def test_jobs_that_others_submit_here_are_left_alone() -> None:
    cluster = Cluster(2)
    other = cluster.submit(2, 1000, 500, user=7)
    outcome = simulate(Work.of(chain(60, 60)), cluster, "one-job", EXACT)
    assert outcome.makespan == 620
    assert [one.started for one in outcome.carried] == [500]
    assert other == 0


def test_a_workflow_may_cross_after_another_one() -> None:
    cluster = Cluster(2)
    for place, strategy in enumerate(PACKERS):
        outcome = simulate(Work.of(chain(60, 60)), cluster, strategy, EXACT)
        assert (outcome.makespan, cluster.now) == (120, 120 * (place + 1))
        assert (cluster.running, cluster.queued) == (0, 0)


def test_where_others_have_used_up_the_room_a_workflow_waits_until_there_is_some() -> None:
    for strategy in PACKERS:
        cluster = Cluster(2, max_submitted=1)
        cluster.submit(2, 1000, 500)
        outcome = simulate(Work.of(chain(60)), cluster, strategy, EXACT)
        assert (outcome.makespan, len(outcome.carried)) == (560, 1)


def test_a_thousand_tasks_on_their_own_go_a_few_at_a_time() -> None:
    outcome = simulate(Work.of(workflow([60] * 1000)), Cluster(100, max_submitted=16), "per-task", EXACT)
    assert outcome.makespan == 60 * 63
    assert [one.job.tasks.tolist() for one in outcome.carried] == [[task] for task in range(1000)]


def test_a_strategy_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match='"magic" is not a strategy'):
        simulate(Work.of(chain(60)), Cluster(2), "magic")


# Real ones.


@pytest.mark.parametrize("name", ["MONTAGE_250_1800000", "CYBERSHAKE_500_1800000"])
def test_glume_beats_zhang_on_a_real_log(data: Path, name: str) -> None:
    """KTH, accurate requests, at most 16 in the system: ten submissions half a day apart."""
    log = Workload.load(data / "queues" / "kth-sp2.swf.gz")
    work = Work.of(read(data / "workflows" / "glume" / f"{name}.dax"))
    cluster = Cluster(log.machine_nodes, log, max_submitted=16)
    cluster.advance(cluster.now + 86400)
    makespans: dict[str, list[int]] = {"glume": [], "zhang": []}
    for _ in range(10):
        for strategy, found in makespans.items():
            outcome = simulate(work, cluster.copy(), strategy)
            assert outcome.expired == 0
            found.append(outcome.makespan)
        cluster.advance(cluster.now + 43200)
    assert np.mean(makespans["glume"]) < 0.95 * np.mean(makespans["zhang"])
