"""Snapshots of a queue: values that answer "what if" questions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batch.workloads import NODES, kernels_compiled, workloads
from tonnage.batch import POLICIES, Cluster, Snapshot, Workload
from tonnage.errors import InputError

sizes, lengths, laters = st.integers(1, NODES), st.integers(1, 30), st.integers(0, 60)


def literal(snapshot: Snapshot, nodes: int, seconds: int, after: int) -> int:
    """Try every second."""
    start = after
    while True:
        places = np.searchsorted(snapshot.times, np.arange(start, start + seconds), "right") - 1
        if len(snapshot.busy):
            used = np.max(snapshot.busy[places], axis=0)
            fits = any(not used[first : first + nodes].any() for first in range(NODES - nodes + 1))
        else:
            fits = bool((snapshot.free[places] >= nodes).all())
        if fits:
            return start
        start += 1


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    log = draw(workloads())
    options = {"policy": draw(st.sampled_from(POLICIES)), "contiguous": draw(st.booleans())}
    cluster = Cluster(NODES, log, requests="real", **options)  # type: ignore[arg-type]
    cluster.advance(cluster.now + draw(st.integers(0, 40)))
    return cluster.snapshot()


@given(snapshots(), sizes, lengths, laters, st.booleans())
def test_the_earliest_start_is_the_first_second_at_which_it_fits(
    snapshot: Snapshot, nodes: int, seconds: int, later: int, compiled: bool
) -> None:
    with kernels_compiled(compiled):
        assert snapshot.earliest(nodes, seconds) == literal(snapshot, nodes, seconds, snapshot.now)
        after = snapshot.now + later
        assert snapshot.earliest(nodes, seconds, after) == literal(snapshot, nodes, seconds, after)


@given(snapshots(), st.lists(st.tuples(sizes, lengths), max_size=5), laters)
def test_many_questions_have_the_answers_of_each(snapshot: Snapshot, jobs: list[tuple[int, int]], later: int) -> None:
    nodes, seconds = [job[0] for job in jobs], [job[1] for job in jobs]
    after = snapshot.now + later
    assert snapshot.earliest_many(nodes, seconds, after).tolist() == [snapshot.earliest(*job, after) for job in jobs]
    table = snapshot.earliest_many(np.arange(1, NODES + 1)[:, None], [[5, 9]])
    assert table.tolist() == [[snapshot.earliest(n, s) for s in (5, 9)] for n in range(1, NODES + 1)]


@given(snapshots(), st.lists(st.tuples(sizes, lengths, laters), max_size=6))
def test_a_job_holds_the_place_that_it_would_get(snapshot: Snapshot, jobs: list[tuple[int, int, int]]) -> None:
    for nodes, seconds, later in jobs:
        after = snapshot.now + later
        start = snapshot.earliest(nodes, seconds, after)
        changed = snapshot.with_job(nodes, seconds, after)
        for moment in range(snapshot.now, int(snapshot.times[-1]) + later + 60):
            before = snapshot.free[np.searchsorted(snapshot.times, moment, "right") - 1]
            behind = changed.free[np.searchsorted(changed.times, moment, "right") - 1]
            assert before - behind == (nodes if start <= moment < start + seconds else 0)
        assert (np.diff(changed.times) > 0).all()
        assert changed.free[-1] == NODES
        snapshot = changed


@given(workloads(), st.integers(0, 40), st.lists(st.tuples(sizes, lengths), min_size=1, max_size=5), st.booleans())
def test_a_snapshot_with_jobs_is_that_of_a_cluster_with_them(
    log: Workload, until: int, jobs: list[tuple[int, int]], contiguous: bool
) -> None:
    cluster = Cluster(NODES, log, requests="real", contiguous=contiguous)
    cluster.advance(cluster.now + until)
    snapshot = cluster.snapshot()
    for nodes, seconds in jobs:
        assert cluster.start_of(cluster.submit(nodes, seconds)) == snapshot.earliest(nodes, seconds)
        snapshot = snapshot.with_job(nodes, seconds)
        seen = cluster.snapshot()
        assert (snapshot.times.tolist(), snapshot.free.tolist()) == (seen.times.tolist(), seen.free.tolist())
        assert snapshot.busy.tolist() == seen.busy.tolist()


def test_a_snapshot_needs_no_cluster_behind_it() -> None:
    snapshot = Snapshot(now=100, nodes=4, times=np.array([100, 160]), free=np.array([1, 4]))
    assert snapshot.earliest(1, 3600) == 100
    assert snapshot.earliest(2, 3600) == 160
    assert snapshot.earliest(2, 3600, after=50) == 160
    assert snapshot.earliest(1, 3600, after=130) == 130
    assert snapshot.with_job(1, 100).earliest(4, 10) == 200
    with pytest.raises(InputError, match="1 to 4 nodes, not 9"):
        snapshot.earliest_many([1, 9], 10)
    assert snapshot.earliest_many([], []).tolist() == []
