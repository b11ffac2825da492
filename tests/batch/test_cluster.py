"""The simulated cluster: starts agree with brute force, and promises are kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batch.reference import FOREVER, Job, Reference
from tests.batch.workloads import NODES, jobs_of, kernels_compiled, rows_of, several, workload, workloads
from tonnage.batch import POLICIES, REQUESTS, Cluster, Event, Workload, replay
from tonnage.errors import InputError, QueueFullError

submissions = st.tuples(
    st.just("submit"), st.integers(1, NODES), st.integers(1, 12), st.none() | st.integers(0, 14), st.integers(0, 1)
)
operations = st.one_of(
    submissions,
    submissions,
    st.tuples(st.just("advance"), st.integers(0, 15)),
    st.tuples(st.just("will_run"), st.integers(0, 99), st.none() | st.integers(0, 14)),
    st.tuples(st.just("finish"), st.integers(0, 99)),
    st.tuples(st.just("cancel"), st.integers(0, 99), st.integers(0, 99)),
)
sequences = several(operations, 30)
caps = st.none() | st.integers(1, 3)


class Twins:
    """A cluster and brute force, with the same input and necessarily the same output."""

    def __init__(self, log: Workload, *, requests: str, policy: str, **options: Any) -> None:
        self.starts = np.full(len(log), -1, np.int64)
        self.cluster = Cluster(NODES, log, requests=requests, policy=policy, starts=self.starts, **options)
        self.log = jobs_of(log, requests)
        self.reference = Reference(NODES, self.log, easy=policy == "easy", **options)

    def do(self, operation: tuple[Any, ...]) -> None:
        name, *values = operation
        getattr(self, name)(*values)
        self.compare()

    def submit(self, nodes: int, request: int, run: int | None, user: int) -> None:
        job = self.cluster.submit(nodes, request, run, user=user)
        assert job == self.reference.submit(nodes, request, run, user).number

    def advance(self, more: int | None) -> list[Event]:
        until = None if more is None else self.cluster.now + more
        events = self.cluster.advance(until)
        assert events == self.reference.advance(FOREVER if until is None else until)
        return events

    def will_run(self, which: int, run: int | None) -> None:
        for job in self._pick(which, self.reference.queue + self.reference.running):
            self.cluster.will_run(job.number, run)
            self.reference.will_run(job, run)

    def finish(self, which: int) -> None:
        for job in self._pick(which, self.reference.running):
            self.cluster.finish(job.number)
            self.reference.leave(job)

    def cancel(self, *which: int) -> None:
        jobs = {
            job.number: job for one in which for job in self._pick(one, self.reference.queue + self.reference.running)
        }
        if jobs:
            self.cluster.cancel(*jobs)
            self.reference.leave(*jobs.values())

    def _pick(self, which: int, jobs: list[Job]) -> list[Job]:
        ours = [job for job in jobs if job.ours]
        return [ours[which % len(ours)]] if ours else []

    def compare(self) -> None:
        cluster, reference = self.cluster, self.reference
        assert cluster.now == reference.now
        assert (cluster.queued, cluster.running) == (len(reference.queue), len(reference.running))
        for job in reference.queue + reference.running:
            if job.ours:
                assert cluster.start_of(job.number) == (job.start if job.start < FOREVER else None)
        if not reference.easy:
            seen = cluster.snapshot()
            assert seen.free.tolist() == [reference.free(moment) for moment in seen.times.tolist()]
            assert (np.diff(seen.times) > 0).all()
            assert seen.free[-1] == NODES
            if reference.contiguous:
                taken = [reference.taken(moment) for moment in seen.times.tolist()]
                assert [set(np.flatnonzero(row).tolist()) for row in seen.busy] == taken
                assert (seen.busy[1:] != seen.busy[:-1]).any(1).all()
            else:
                assert (seen.free[1:] != seen.free[:-1]).all()

    def run_dry(self) -> None:
        while self.advance(None):
            self.compare()
        self.compare()
        assert self.starts.tolist() == [job.start for job in self.log]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@given(
    workloads(),
    sequences,
    st.sampled_from(REQUESTS),
    st.booleans(),
    caps,
)
def test_starts_are_those_of_brute_force(
    policy: str,
    compiled: bool,
    log: Workload,
    todo: list[tuple[Any, ...]],
    requests: str,
    contiguous: bool,
    max_running: int | None,
) -> None:
    with kernels_compiled(compiled):
        twins = Twins(log, requests=requests, policy=policy, contiguous=contiguous, max_running=max_running)
        for operation in todo:
            twins.do(operation)
        twins.run_dry()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("requests", REQUESTS)
@pytest.mark.parametrize("jobs", [400, pytest.param(2000, marks=pytest.mark.long)])
def test_starts_of_the_first_jobs_of_kth_are_those_of_brute_force(
    data: Path, requests: str, policy: str, jobs: int
) -> None:
    # EASY plans anew at every event, which is slow in the plain reference.
    log = Workload.load(data / "queues" / "kth-sp2.swf.gz").head(jobs if policy == "easy" else 2 * jobs + jobs // 2)
    expected = jobs_of(log, requests)
    Reference(log.machine_nodes, expected, easy=policy == "easy").advance(FOREVER)
    assert replay(log, requests=requests, policy=policy).tolist() == [job.start for job in expected]


def most_used(log: Workload, starts: np.ndarray[Any, Any]) -> int:
    """The peak number of nodes in use."""
    change = np.concatenate([log.nodes, -log.nodes])
    order = np.lexsort((change, np.concatenate([starts, starts + log.run])))
    return int(np.cumsum(change[order]).max(initial=0))


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["hpc2n-part", "kth-sp2", pytest.param("sdsc-sp2", marks=pytest.mark.long)])
def test_no_real_log_uses_more_nodes_than_there_are(data: Path, name: str, policy: str, contiguous: bool) -> None:
    log = Workload.load(data / "queues" / f"{name}.swf.gz")
    for requests in REQUESTS:
        starts = replay(log, requests=requests, policy=policy, contiguous=contiguous)
        assert (starts >= log.submit).all()
        assert most_used(log, starts) <= log.machine_nodes


@given(workloads(), st.sampled_from(POLICIES), st.booleans())
def test_no_more_nodes_are_used_than_there_are(log: Workload, policy: str, contiguous: bool) -> None:
    starts = replay(log, requests="real", policy=policy, contiguous=contiguous)
    assert (starts >= log.submit).all()
    assert most_used(log, starts) <= NODES


@given(workloads(), sequences, st.booleans(), caps)
def test_no_job_starts_after_its_first_promise(
    log: Workload, todo: list[tuple[Any, ...]], contiguous: bool, max_running: int | None
) -> None:
    twins = Twins(log, requests="real", policy="conservative", contiguous=contiguous, max_running=max_running)
    promised: dict[int, int] = {}
    for operation in [*todo, *[("advance", 1000)] * 60]:
        twins.do(operation)
        for job in twins.reference.queue:
            if job.ours:
                start = twins.cluster.start_of(job.number)
                assert start is not None
                assert start <= promised.setdefault(job.number, start)
        for job in twins.reference.running:
            if job.ours:
                assert job.start <= promised.get(job.number, job.start)
    for job in twins.log:
        assert job.start <= job.promises[0]


@given(workloads(), st.integers(0, 40), st.integers(1, NODES), st.integers(1, 12), st.sampled_from(REQUESTS))
def test_an_estimate_is_what_happens_when_nothing_else_arrives_or_a_bound(
    log: Workload, until: int, nodes: int, request: int, requests: str
) -> None:
    log = workload([row for row in rows_of(log) if row[2]])  # a job that takes no time cannot request that
    begin = int(log.submit[0]) if len(log) else 0
    early = log.head(int((log.submit <= begin + until).sum()))
    cluster = Cluster(NODES, early, requests=requests)
    cluster.advance(begin + until)
    estimate = cluster.snapshot().earliest(nodes, request)
    job = cluster.submit(nodes, request)
    assert cluster.start_of(job) == estimate
    (started,) = cluster.advance()
    assert (started.job, started.kind) == (job, "started")
    assert started.time <= estimate
    if requests == "accurate":
        assert started.time == estimate


@given(workloads(), st.integers(0, 30), st.sampled_from(POLICIES), st.booleans())
def test_what_is_asked_or_done_to_a_copy_changes_nothing(
    log: Workload, until: int, policy: str, contiguous: bool
) -> None:
    starts = np.full(len(log), -1, np.int64)
    cluster = Cluster(NODES, log, requests="real", policy=policy, contiguous=contiguous, starts=starts)
    cluster.advance(cluster.now + until)
    seen = cluster.snapshot()
    seen.earliest(3, 5)
    seen.with_job(3, 5)
    seen.earliest_many([1, 2], [3, 4])
    twin = cluster.copy()
    for nodes in (1, NODES, 3):
        twin.submit(nodes, 20, 7)
    while twin.advance():
        pass
    after = cluster.snapshot()
    assert (after.now, after.times.tolist(), after.free.tolist()) == (seen.now, seen.times.tolist(), seen.free.tolist())
    cluster.advance()
    assert starts.tolist() == replay(log, requests="real", policy=policy, contiguous=contiguous).tolist()


def test_what_happens_in_one_second() -> None:
    """Nodes that become free are used at once; the log's jobs of a second come before ours."""
    cluster = Cluster(NODES, workload([(0, 8, 10, 10), (10, 8, 5, 5)]))
    cluster.advance(10)
    assert (cluster.queued, cluster.running) == (0, 1)
    job = cluster.submit(1, 1)
    assert cluster.start_of(job) == 15
    assert cluster.advance() == [(job, "started", 15)]
    assert cluster.advance() == [(job, "expired", 16)]


def test_a_job_that_takes_no_time_lets_the_next_one_in_at_once() -> None:
    cluster = Cluster(NODES)
    first, second = cluster.submit(8, 100, 0), cluster.submit(8, 100, 20)
    assert cluster.start_of(second) == 100
    assert cluster.advance() == [(first, "started", 0), (first, "ended", 0), (second, "started", 0)]
    assert cluster.advance(15) == []
    assert cluster.now == 15
    assert cluster.advance() == [(second, "ended", 20)]


def test_a_job_that_is_done_when_its_request_is_over_has_ended_and_any_longer_one_has_expired() -> None:
    cluster = Cluster(NODES)
    exact, longer, unknown = cluster.submit(1, 10, 10), cluster.submit(1, 10, 11), cluster.submit(1, 10)
    cluster.advance()
    assert cluster.advance() == [(exact, "ended", 10), (longer, "expired", 10), (unknown, "expired", 10)]


def test_how_long_a_job_takes_may_become_known_while_it_runs() -> None:
    cluster = Cluster(NODES)
    job, behind = cluster.submit(8, 100), cluster.submit(8, 10)
    cluster.advance()
    cluster.advance(30)
    cluster.will_run(job, 40)
    assert cluster.start_of(behind) == 100  # no job in the queue knows
    assert cluster.advance() == [(job, "ended", 40), (behind, "started", 40)]
    cluster.will_run(behind, 0)
    assert cluster.advance() == [(behind, "ended", 40)]


def test_a_job_above_the_cap_on_running_jobs_waits_and_keeps_nobody_else_waiting() -> None:
    for policy in POLICIES:
        cluster = Cluster(NODES, max_running=2, policy=policy)
        jobs = [cluster.submit(1, 10) for _ in range(5)]
        other = cluster.submit(1, 10, user=1)
        started: dict[int, int] = {}
        while events := cluster.advance():
            started |= {event.job: event.time for event in events if event.kind == "started"}
        assert [started[job] for job in jobs] == [0, 0, 10, 10, 20]
        assert started[other] == 0


def test_a_job_above_the_cap_on_submitted_jobs_is_refused() -> None:
    cluster = Cluster(NODES, max_submitted=2)
    first = cluster.submit(8, 10)
    assert cluster.room() == 1
    cluster.submit(8, 10)
    assert cluster.room() == 0
    assert cluster.room(user=1) == 2
    with pytest.raises(QueueFullError, match="user 0 already has 2 jobs in the system"):
        cluster.submit(1, 1)
    cluster.submit(1, 1, user=1)
    cluster.cancel(first)
    cluster.submit(1, 1)
    assert Cluster(NODES).room() is None


def test_neighbouring_nodes_are_the_lowest_that_are_free_throughout() -> None:
    cluster = Cluster(NODES, contiguous=True)
    jobs = [cluster.submit(2, 10, run) for run in (10, 5, 10, 5)]  # nodes 0-1, 2-3, 4-5, 6-7
    cluster.advance()
    assert [event.job for event in cluster.advance()] == [jobs[1], jobs[3]]
    assert cluster.snapshot().earliest(2, 10) == 5
    assert cluster.snapshot().earliest(3, 10) == 10  # four are free, but no three adjacent ones
    assert Cluster(NODES).snapshot().earliest(3, 10) == 0


def test_a_job_that_cannot_start_earlier_keeps_the_nodes_that_it_was_promised() -> None:
    cluster = Cluster(NODES, contiguous=True)
    for nodes, request, run in ((2, 20, 5), (3, 10, 10), (2, 10, 10), (1, 20, 5)):  # nodes 0-1, 2-4, 5-6, 7
        cluster.submit(nodes, request, run)
    job = cluster.submit(3, 30)  # nodes 2-4, from 10 on
    cluster.advance()
    assert len(cluster.advance()) == 2  # nodes 0, 1 and 7 are free: three, but not adjacent
    assert cluster.start_of(job) == 10
    seen = cluster.snapshot()
    assert np.flatnonzero(seen.busy[seen.times == 10][0]).tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Cluster(0), "at least one node, not 0"),
        (lambda: Cluster(4, policy="fair"), '"fair" is not a policy: expected conservative or easy'),
        (
            lambda: Cluster(8, workload([]), requests="exact"),
            '"exact" is not a kind of requests: expected accurate or real',
        ),
        (lambda: Cluster(8, max_running=0), "at least 1, not 0"),
        (lambda: Cluster(4, workload([(0, 5, 1, 1)])), "jobs of 5 nodes, but the cluster has only 4"),
        (lambda: Cluster(4).submit(5, 10), "1 to 4 nodes, not 5"),
        (lambda: Cluster(4).submit(1, 0), "seconds, not 0"),
        (lambda: Cluster(4).submit(1, 1, -1), "cannot run for -1 seconds"),
        (lambda: Cluster(4).cancel(0), "no job 0 is queued or running"),
        (lambda: Cluster(4).advance(-1), "cannot go back to -1"),
        (lambda: Cluster(4).snapshot().earliest(5, 1), "1 to 4 nodes, not 5"),
        (lambda: Cluster(4).snapshot().earliest(1, 0), "at least 1 second, not 0"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wrong()


def test_a_job_that_waits_cannot_finish_and_one_that_is_gone_cannot_be_cancelled() -> None:
    cluster = Cluster(NODES)
    running, waiting = cluster.submit(8, 10), cluster.submit(8, 10)
    cluster.advance()
    with pytest.raises(InputError, match=f"job {waiting} is not running yet"):
        cluster.finish(running, waiting)
    assert cluster.running == 1
    cluster.finish(running)
    assert cluster.advance() == [(waiting, "started", 0)]
    with pytest.raises(InputError, match=f"no job {running} is queued or running"):
        cluster.cancel(running)


def test_there_is_room_for_any_number_of_jobs() -> None:
    with kernels_compiled(True):
        cluster = Cluster(2, workload([(0, 1, 5, 5)] * 1000, nodes=2), contiguous=True, max_running=1)
        ours = [cluster.submit(2, 3) for _ in range(300)]
        assert cluster.start_of(ours[-1]) == 3 * 299
        events = [event for _ in range(600) for event in cluster.advance()]
    assert {event.job for event in events} == set(ours)
    assert [event.time for event in events if event.kind == "started"] == [3 * place for place in range(300)]


def test_a_cluster_after_a_snapshot_keeps_what_was_promised_and_counts_its_own_jobs() -> None:
    before = Cluster(4)
    before.submit(3, 100, 100)
    after = Cluster.after(before.snapshot(), max_running=1, max_submitted=2)
    first, second = after.submit(1, 50, 50), after.submit(1, 50, 50)
    assert (after.start_of(first), after.start_of(second)) == (0, 50)
    assert after.room() == 0
    assert after.snapshot().earliest(2, 10) == 100


def test_what_is_expected_is_the_past_again_and_nobody_knows_how_long_running_jobs_take() -> None:
    hour = 3600
    cluster = Cluster(NODES, workload([(0, 1, 5, 5), (100, 1, 20, 50), (2 * hour - 9, 1, 20, 50)]), requests="real")
    cluster.advance(2 * hour)
    found = cluster.expected(7 * 24 * hour, 3 * hour)
    assert found.submit.tolist() == [2 * hour + 100, 4 * hour - 9, 4 * hour + 100, 6 * hour - 9]
    assert found.request.tolist() == [50] * 4
    assert found.run.tolist() == [20, 50] * 2
    assert cluster.expected(hour, hour).submit.tolist() == [3 * hour - 9, 4 * hour - 9]


def test_a_moment_of_the_past_says_nothing_about_days_to_come() -> None:
    cluster = Cluster(NODES, workload([(0, 1, 5, 5), (1, 1, 5, 5), (9000, 1, 5, 5)]))
    cluster.advance(1)
    assert len(cluster.expected(7 * 86_400, 4 * 86_400)) == 0
