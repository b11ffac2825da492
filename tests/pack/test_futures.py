"""What may become of a queue: it begins as the queue is, knows nothing of what is to come, and learns from the past."""

import numpy as np
import pytest

from tonnage.batch import Cluster, Snapshot, Workload
from tonnage.pack import PACKERS, Settings, Situation, Work, simulate
from tonnage.pack.simulation import forecast, futures
from tonnage.workflow.families import FAMILIES

NODES = 32
DAY = 86_400


def log(days: int = 40, seed: int = 0, part: float = 0.5) -> Workload:
    """Jobs that all take the same part of what they request."""
    draw = np.random.default_rng(seed)
    size = days * 45
    submit = np.sort(draw.integers(0, days * DAY, size))
    request = draw.integers(10, 400, size) * 60
    rows = np.stack([submit, draw.integers(1, NODES // 2, size), request, np.ceil(request * part).astype(np.int64)])
    return Workload.of(NODES, rows)


def queue(workload: Workload, at: int = 30 * DAY, requests: str = "real") -> Cluster:
    cluster = Cluster(NODES, workload, requests=requests)
    cluster.advance(at)
    return cluster


def begun(future: Workload, now: int) -> Cluster:
    empty = Snapshot(now, NODES, np.array([now]), np.array([NODES]))
    cluster = Cluster.after(empty, future)
    cluster.advance(now)
    return cluster


@pytest.mark.parametrize("requests", ["accurate", "real"])
def test_a_future_begins_with_the_queue_as_it_is(requests: str) -> None:
    for at in range(22 * DAY, 32 * DAY, DAY):
        cluster = queue(log(), at, requests)
        for future in futures(cluster):
            found = begun(future, cluster.now)
            assert (found.running, found.queued) == (cluster.running, cluster.queued)
            assert future.submit.min() >= cluster.now
            assert (np.diff(future.submit) >= 0).all()
            assert ((future.run >= 1) & (future.run <= future.request)).all()


def test_with_accurate_requests_the_queue_of_a_future_is_what_happens() -> None:
    cluster = queue(log(), requests="accurate")
    sizes = np.arange(1, NODES + 1)
    for future in futures(cluster):
        found = begun(future, cluster.now).snapshot()
        assert found.earliest_many(sizes, 600).tolist() == cluster.snapshot().earliest_many(sizes, 600).tolist()


def test_jobs_end_as_early_as_others_did() -> None:
    cluster = queue(log(part=0.5))
    present = cluster.running + cluster.queued
    for future in futures(cluster):
        waiting = slice(cluster.running, present)
        # Some of the last jobs have not ended, so nobody knows how early they do: few take all of their request.
        half = future.run[waiting] <= future.request[waiting] / 2 + 1
        assert cluster.queued
        assert half.mean() >= 0.8
        assert (future.run[: cluster.running] < future.request[: cluster.running]).mean() >= 0.5


def test_futures_do_not_know_what_is_to_come() -> None:
    """Neither when jobs will end, nor who arrives: another log with the same past has the same futures."""
    first = log()
    now = 30 * DAY
    cluster = queue(first, now)
    ended = Cluster(NODES, first, requests="real", starts=(starts := np.full(len(first), -1, np.int64)))
    ended.advance(now)
    known = (starts >= 0) & (starts + first.run <= now)
    run = np.where(known, first.run, first.request)
    come = first.submit <= now
    other = Workload.of(NODES, np.stack([first.submit, first.nodes, first.request, run])[:, come])
    for one, two in zip(futures(cluster), futures(queue(other, now)), strict=True):
        for name in ("submit", "nodes", "request", "run"):
            assert getattr(one, name).tolist() == getattr(two, name).tolist()


def test_each_future_lets_another_week_happen_again() -> None:
    cluster = queue(log())
    now, present = cluster.now, cluster.running + cluster.queued
    past = log().submit
    for weeks, future in enumerate(futures(cluster), start=1):
        came = past[(past > now - weeks * 7 * DAY) & (past <= now - (weeks - 1) * 7 * DAY)] + weeks * 7 * DAY
        arriving = future.submit[present:]
        assert np.isin(came, arriving).all()
        assert len(arriving) - len(came) <= 2  # the clock may have stood still for a moment since the last one came


@pytest.mark.parametrize("hours", [0, 1, 30, 24 * 9])
def test_a_log_that_has_just_begun_has_futures_too(hours: int) -> None:
    workload = log()
    cluster = Cluster(NODES, workload, requests="real")
    cluster.advance(int(workload.submit[0]) + hours * 3600)
    for future in futures(cluster):
        assert begun(future, cluster.now).running == cluster.running


def test_a_machine_without_a_log_has_empty_futures() -> None:
    assert [len(future) for future in futures(Cluster(NODES))] == [0, 0, 0]


def test_a_forecast_does_not_wait_for_tasks_of_a_batch_job_that_will_expire() -> None:
    """Such tasks never end; once, whoever waited for them was submitted again and again."""
    work = Work.of(FAMILIES["montage"].generate(40))
    left = work.everything()
    mask = left.mask.copy()
    mask[left.tasks(0, 0)] = False
    ends = np.full(len(mask), 2**62, np.int64)
    situation = Situation(type(left)(work, mask), Cluster(NODES).snapshot(), delay=600, running=1, ends=ends)
    assert forecast(situation, None, PACKERS["glume"], Settings()) is not None


def test_auto_comes_to_its_end_on_a_busy_queue() -> None:
    work = Work.of(FAMILIES["montage"].generate(40))
    cluster = queue(log())
    outcome = simulate(work, cluster, "auto")
    assert "forecast to finish" in outcome.reasons[0]
