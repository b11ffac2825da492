"""The live queue as a snapshot."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tonnage.batch import Cluster
from tonnage.batch.slurm.queue_snapshot import Queue, Queued, Reservation, queued, reservations, snapshot
from tonnage.batch.slurm.scontrol import machines, partitions

NOW = 1_000_000
HOUR = 3600
MIB = 1 << 20
PARTITIONS = partitions(
    "PartitionName=main Default=YES MaxTime=UNLIMITED Nodes=n[1-4] PriorityTier=1 State=UP\n"
    "PartitionName=all Default=NO MaxTime=UNLIMITED Nodes=n[1-8] PriorityTier=1 State=UP\n"
    "PartitionName=other Default=NO MaxTime=UNLIMITED Nodes=n[5-8] PriorityTier=9 State=UP\n"
    "PartitionName=vip Default=NO MaxTime=UNLIMITED Nodes=n[1-4] PriorityTier=9 State=UP\n"
)
MACHINES = machines(
    "".join(f"NodeName=n{number} CPUAlloc=4 CPUEfctv=4 RealMemory=1000 State=MIXED\n" for number in range(1, 9))
)


def queue(jobs: Sequence[Queued], **changes: object) -> Queue:
    return replace(Queue(NOW, PARTITIONS["main"], PARTITIONS, MACHINES, jobs), **changes)  # type: ignore[arg-type]


def runs(*hosts: str, seconds: float = HOUR, since: float = 0) -> Queued:
    return Queued(number=1, runs=True, partitions=("main",), seconds=seconds, started=NOW - since, hosts=hosts)


def waits(nodes: int, seconds: float = HOUR, priority: int = 0, partition: str = "main", number: int = 2) -> Queued:
    return Queued(
        number=number, runs=False, partitions=(partition,), seconds=seconds, nodes=nodes, cores=4 * nodes, alone=True,
        priority=priority,
    )  # fmt: skip


def starts(given: Queue, nodes: int, seconds: int = HOUR, run_fraction: float = 1.0) -> int:
    return snapshot(given, run_fraction).earliest(nodes, seconds) - NOW


def test_an_empty_queue_is_all_free() -> None:
    found = snapshot(queue([]))
    assert (found.now, found.nodes, found.times.tolist(), found.free.tolist()) == (NOW, 4, [NOW], [4])


def test_a_node_is_free_when_the_last_of_its_jobs_has_ended() -> None:
    given = queue([runs("n1", "n2", since=600), runs("n2", seconds=2 * HOUR), runs("n7", seconds=9 * HOUR)])
    assert starts(given, 2) == 0
    assert starts(given, 3) == HOUR - 600
    assert starts(given, 4) == 2 * HOUR


def test_jobs_are_expected_to_end_before_their_limits() -> None:
    given = queue([runs("n1", since=600)])
    assert starts(given, 4, run_fraction=0.5) == HOUR / 2 - 600
    assert starts(given, 4, run_fraction=0.1) == 60  # it should have ended by now: expected any moment
    assert starts(queue([runs("n1", since=HOUR + 5)]), 4) == 1


def test_a_job_without_limit_runs_for_very_long_but_not_for_ever() -> None:
    given = queue([runs("n1", seconds=float("inf"))])
    assert starts(given, 4) == 365 * 86400


def test_what_waits_is_placed_by_tier_priority_and_number() -> None:
    running = runs("n1", "n2", "n3", "n4", seconds=100)
    # The first one takes all nodes for 1000 s; a short one does not fit in before it.
    given = queue([running, waits(4, 1000, priority=1, number=5), waits(4, 2000, priority=9), waits(4, 5, number=4)])
    found = snapshot(given)
    assert found.times.tolist() == [NOW, NOW + 3105]
    given = queue([running, waits(3, 1000, priority=9), waits(2, 500, priority=1, partition="vip")])
    assert snapshot(given).earliest(1, 400) - NOW == 100  # beside the one with priority, which goes first
    assert snapshot(given).earliest(2, 400) - NOW == 100
    assert snapshot(given).earliest(2, 600) - NOW == 1600


def test_small_jobs_go_before_where_they_delay_nobody() -> None:
    given = queue([runs("n1", seconds=1000), waits(4, 1000)])
    assert starts(given, 3, 1000) == 0
    assert starts(given, 3, 1001) == 2000


def test_jobs_that_fill_parts_of_nodes_share_them() -> None:
    quarter = replace(waits(1), cores=1, alone=False)
    assert snapshot(queue([quarter] * 8)).free.tolist() == [2, 4]
    heavy = replace(quarter, memory=600 * MIB)
    assert snapshot(queue([heavy] * 3)).free.tolist() == [1, 4]
    longer = replace(quarter, seconds=2 * HOUR)
    assert snapshot(queue([quarter, longer])).times.tolist() == [NOW, NOW + 2 * HOUR]
    wide = replace(quarter, cores=9)
    assert snapshot(queue([wide])).free.tolist() == [1, 4]


def test_jobs_of_other_partitions_take_the_nodes_that_are_shared() -> None:
    assert snapshot(queue([waits(4, partition="other")])).free.tolist() == [4]
    assert snapshot(queue([waits(4, partition="all")])).free.tolist() == [2, 4]
    assert snapshot(queue([waits(9)])).free.tolist() == [4]  # more nodes than there are: it cannot run


def test_nodes_that_are_down_are_not_there() -> None:
    down = machines("NodeName=n2 CPUEfctv=4 RealMemory=1000 State=DOWN*\nNodeName=n3 RealMemory=1 State=IDLE+DRAIN\n")
    assert snapshot(queue([], machines=MACHINES | down)).nodes == 2


def test_reservations_keep_nodes_for_a_while() -> None:
    kept = [
        Reservation("m", ("n1", "n2", "n7"), NOW + 1000, NOW + 2000),
        Reservation("past", ("n1",), 0, NOW - 1),
        Reservation("now", ("n3",), NOW - 50, NOW + 60),
    ]
    given = queue([runs("n1", seconds=1500), runs("n2", seconds=100)], reservations=kept)
    found = snapshot(given)
    assert (found.times - NOW).tolist() == [0, 60, 100, 1000, 2000]
    assert found.free.tolist() == [1, 2, 3, 2, 4]


def test_nodes_of_hidden_jobs_come_free_one_after_the_other() -> None:
    found = snapshot(queue([runs("n1", seconds=50)], hidden=(NOW + 100, NOW + 300)))
    assert (found.times - NOW).tolist() == [0, 50, 100, 200, 300]


SQUEUE = """\
PENDING|main|1|1|cpu=1,mem=100M,node=1,billing=1|1:00|N/A|4294901756|OK||(null)|4|JobArrayTaskLimit|
PENDING|main|7|7|cpu=7,mem=14000M,node=7,billing=7|UNLIMITED|1794849204|4294901754|NO||(null)|6|Resources|
PENDING|main,short|1|1|cpu=1,mem=2000M,node=1,billing=1|1-00:00:00|N/A|4294901752|OK||(null)|9|Priority|
PENDING|main|1|1|cpu=1,mem=100M,node=1,billing=1|UNLIMITED|N/A|0|OK||(null)|7|JobHeldUser|
PENDING|main|1|1|cpu=1,mem=100M,node=1,billing=1|UNLIMITED|N/A|0|OK||(null)|17|Dependency|
PENDING|main|1|1|cpu=1,mem=100M,node=1,billing=1|UNLIMITED|N/A|0|OK||(null)|18|QOSMaxJobsPerUserLimit|
PENDING|main|1|1|cpu=1,mem=100M,node=1,billing=1|UNLIMITED|N/A|0|OK||course|19|Priority|
RUNNING|main|1|1|cpu=1,mem=100M,node=1,billing=1|1:00|1794848904|4294901757|OK|n1|(null)|3|None|
RUNNING|main|2|8|cpu=8,mem=400M,node=2,billing=8|5:00|1794848904|4294901755|NO|n[3-4]|(null)|5|None|
COMPLETING|main|1|1|cpu=1,mem=100M,node=1,billing=1|5:00|1794848904|4294901755|OK|n8|course|20|None|
"""


def test_jobs_as_squeue_prints_them() -> None:
    found = {job.number: job for job in queued(SQUEUE)}
    assert set(found) == {6, 9, 3, 5, 20}
    assert found[6] == Queued(
        number=6, runs=False, partitions=("main",), seconds=float("inf"), nodes=7, cores=7, memory=14000 * MIB,
        alone=True, priority=4294901754,
    )  # fmt: skip
    assert found[9].partitions == ("main", "short")
    assert (found[5].hosts, found[5].started, found[5].seconds) == (("n3", "n4"), 1794848904.0, 300.0)
    assert found[20].leaves


def test_reservations_as_scontrol_prints_them() -> None:
    text = (
        "ReservationName=maint StartTime=1794850006 EndTime=1794853606 Duration=01:00:00 Nodes=n[1-2] NodeCnt=2"
        " Flags=MAINT,SPEC_NODES Users=root State=INACTIVE\nReservationName=lic StartTime=1 EndTime=2 Nodes=(null)\n"
    )
    assert list(reservations(text)) == [Reservation("maint", ("n1", "n2"), 1794850006.0, 1794853606.0)]
    assert list(reservations("No reservations in the system\n")) == []


JOBS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 500), st.integers(0, 5)), max_size=12)


@given(JOBS, st.lists(st.integers(1, 300), max_size=4))
def test_it_is_the_simulated_cluster_that_places_jobs(jobs: list[tuple[int, int, int]], running: list[int]) -> None:
    """With whole nodes and full time limits, waiting jobs start when a simulated cluster would start them."""
    here = [runs(f"n{place}", seconds=seconds) for place, seconds in enumerate(running, start=1)]
    waiting = [
        waits(nodes, seconds, priority, number=10 + place) for place, (nodes, seconds, priority) in enumerate(jobs)
    ]
    found = snapshot(queue([*waiting, *here]))
    cluster = Cluster(4)
    cluster.advance(NOW)
    for seconds in running:
        cluster.submit(1, seconds)
    cluster.advance(NOW)
    for job in sorted(waiting, key=lambda job: (-job.priority, job.number)):
        cluster.submit(job.nodes, int(job.seconds))
    expected = cluster.snapshot()
    assert found.free.min() >= 0
    assert np.array_equal(found.times, expected.times)
    assert np.array_equal(found.free, expected.free)
