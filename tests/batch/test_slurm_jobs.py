"""Jobs as squeue and sacct print them; the texts are from a real Slurm 22.05."""

import pytest

from tonnage.batch.scheduler import JobStatus, QueueEntry
from tonnage.batch.slurm.jobs import ACCOUNTED, FIELDS, accounted, asked, joined, queue_entries, remembered
from tonnage.jobs import Outcome, Resource

# JobArrayID|State|exit_code|RestartCnt|StartTime|EndTime|NodeList|Reason|
SQUEUE = """\
4_2|PENDING|0|0|N/A|N/A||JobArrayTaskLimit|
6|PENDING|0|0|1794849204|NONE||Resources|
7_[8-9%2]|PENDING|0|0|N/A|N/A||ReqNodeNotAvail, UnavailableNodes:n[1-3]|
13|PENDING|0|1|1794849866|1794850166||BeginTime|
3|RUNNING|0|0|1794848904|1794848964|n1|None|
5|RUNNING|0|2|1794848904|1794849204|n[3-4]|None|
15|COMPLETING|0|0|1794848904|1794849204|n6|None|
1|COMPLETED|0|0|1794848904|1794848904|n1|None|
2|FAILED|51200|0|1794848904|1794848904|n1|NonZeroExitCode|
33|FAILED|11|0|1794848904|1794848904|n2|JobLaunchFailure|
34|FAILED|0|0|1794848904|1794848904|n2|JobLaunchFailure|
8|CANCELLED|15|0|1794848904|1794848905|n1|None|
9_[1,3]|CANCELLED|0|0|1794848905|1794848905||JobHeldUser|
12|NODE_FAIL|0|0|1794849743|1794849745|n5|NodeDown|
11|TIMEOUT|0|0|1794849640|1794849670|n1|TimeLimit|
16|PREEMPTED|0|0|1794849640|1794849670|n1|None|
17|OUT_OF_MEMORY|125|0|1794849640|1794849670|n1|OutOfMemory|
18|DEADLINE|0|0|1794849640|1794849670|n1|DeadLine|
19|REVOKED|0|0|1794849640|1794849670||None|
"""

# A job whose batch step ran out of memory (OverMemoryKill), exit status 200, a cancelled array, a lost node.
SACCT = f"""\
{ACCOUNTED.replace(",", "|")}
7|7|FAILED|0:9|1794849593|1794849594|1794849595|1||1|billing=1,cpu=1,mem=50M,node=1|||n1
7.batch|7.batch|CANCELLED by 0|0:9|1794849594|1794849594|1794849595|1|1|1|cpu=1,mem=50M,node=1|223555584||n1
8|8|FAILED|72:0|1794849593|1794849594|1794849594|0||1|billing=1,cpu=1,mem=50M,node=1|||n1
8.batch|8.batch|FAILED|72:0|1794849594|1794849594|1794849594|0|1|1|cpu=1,mem=50M,node=1||energy=0|n1
9|9_[0-2]|CANCELLED by 1000|0:0|1794849593|1794849593|1794849593|0||0||||None assigned
12|12|NODE_FAIL|0:0|1794849743|1794849743|1794849745|2||1|billing=1,cpu=1,mem=50M,node=1|||n5
12.batch|12.batch|CANCELLED||1794849743|1794849743|1794849745|2|1|1|cpu=1,mem=50M,node=1|||n5
14|14|RUNNING|0:0|1794849745|1794849745|Unknown|2||1|billing=1,cpu=1,mem=50M,node=1|||n4
22|20_1|COMPLETED|0:0|1794849745|1794849745|1794849746|1||1|billing=1,cpu=1,mem=50M,node=1|||n4
20|20_2|TIMEOUT|0:0|1794849745|1794849745|1794849805|60||1|billing=1,cpu=1,mem=50M,node=1|||n4
"""


def test_looks_show_what_waits_and_what_runs() -> None:
    found = queue_entries(SQUEUE)
    assert set(found) == {"4_2", "6", "7_8", "7_9", "13", "3", "5", "15"}
    assert found["6"] == QueueEntry(JobStatus.WAITING, "Resources")  # the expected start is not the actual start
    assert found["7_9"].reason == "ReqNodeNotAvail, UnavailableNodes:n[1-3]"
    assert found["5"] == QueueEntry(JobStatus.RUNNING, "", 1794848904.0, 2, ("n3", "n4"))
    assert found["13"].restarts == 1
    assert found["15"].status is JobStatus.RUNNING  # being cleaned up, and still on its node


@pytest.mark.parametrize(
    ("number", "outcome", "exhausted", "status", "signal", "note"),
    [
        ("1", Outcome.DONE, None, 0, None, ""),
        ("2", Outcome.FAILED, None, 200, None, ""),
        ("33", Outcome.FAILED, None, None, 11, ""),
        ("34", Outcome.LOST, None, None, None, "it could not run: JobLaunchFailure"),
        ("8", Outcome.CANCELLED, None, None, 15, "it was cancelled"),
        ("9_3", Outcome.CANCELLED, None, None, None, "it was cancelled"),
        ("12", Outcome.LOST, None, None, None, "one of its nodes failed (n5)"),
        ("11", Outcome.EXHAUSTED, Resource.WALL_TIME, None, None, "its time limit was reached"),
        ("16", Outcome.PREEMPTED, None, None, None, "it was preempted"),
        ("17", Outcome.EXHAUSTED, Resource.MEMORY, None, None, "it was killed for exceeding its memory"),
        ("18", Outcome.CANCELLED, None, None, None, "it reached its deadline before it was done"),
        ("19", Outcome.LOST, None, None, None, "it was moved to another cluster"),
    ],
)
def test_the_controller_tells_how_jobs_ended(
    number: str, outcome: Outcome, exhausted: Resource | None, status: int | None, signal: int | None, note: str
) -> None:
    verdict = remembered(SQUEUE)[number]
    assert (verdict.outcome, verdict.exhausted, verdict.note) == (outcome, exhausted, note)
    assert (verdict.exit_status, verdict.signal) == (status, signal)


def test_the_controller_tells_of_nothing_that_has_not_ended() -> None:
    assert remembered(SQUEUE).keys().isdisjoint(queue_entries(SQUEUE))


def test_a_job_that_never_started_has_no_start() -> None:
    assert remembered(SQUEUE)["9_1"].started is None
    assert remembered(SQUEUE)["9_1"].ended == 1794848905.0
    assert remembered(SQUEUE)["1"].started == 1794848904.0


def test_the_accounting_tells_how_jobs_ended() -> None:
    found = accounted(SACCT)
    assert set(found) == {"7", "8", "9_0", "9_1", "9_2", "12", "20_1", "20_2"}
    assert (found["7"].outcome, found["7"].exhausted) == (Outcome.EXHAUSTED, Resource.MEMORY)
    assert found["8"].exit_status == 72
    assert found["9_1"].note == "it was cancelled by user 1000"
    assert found["9_1"].started is None
    assert found["12"].outcome is Outcome.LOST
    assert found["20_1"].outcome is Outcome.DONE
    assert found["20_2"].exhausted is Resource.WALL_TIME


def test_the_controller_knows_the_status_and_the_accounting_the_memory() -> None:
    controller = remembered("7|FAILED|9|0|1|2|n1|JobLaunchFailure|\n8|FAILED|51200|0|1|2|n1|NonZeroExitCode|\n")
    found = joined(controller, accounted(SACCT))
    assert found["7"].exhausted is Resource.MEMORY
    assert found["8"].exit_status == 200
    assert found["12"].outcome is Outcome.LOST


@pytest.mark.parametrize("text", ["", "\n\n", "sacct: error\n", "slurm_load_jobs error: x|y\n"])
def test_what_is_no_table_tells_nothing(text: str) -> None:
    assert not queue_entries(text)
    assert not remembered(text)
    assert not accounted(text)


def test_no_field_holds_what_users_write() -> None:
    names = {field.lower() for field in FIELDS} | {field.lower() for field in ACCOUNTED.split(",")}
    assert names.isdisjoint({"name", "jobname", "comment", "command", "workdir", "account", "wckey"})


def test_many_elements_are_asked_for_by_their_array() -> None:
    few = [f"7_{number}" for number in range(3)]
    many = [f"8_{number}" for number in range(1000)]
    assert asked([*many, *few, "5"]) == ["5", *few, "8"]
