"""Slurm as a batch system, on a real Slurm."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cgroups import unusable
from tests.slurm.cluster import SlurmCluster
from tests.waiting import until
from tonnage.batch.scheduler import JobStatus, Request, Scheduler, Verdict
from tonnage.batch.slurm import Slurm, SlurmOptions
from tonnage.batch.slurm.host_lists import expanded
from tonnage.batch.slurm.jobs import accounted
from tonnage.errors import InputError, SchedulerUnreachableError, SubmissionRejectedError
from tonnage.jobs import Outcome, Resource

MIB = 1 << 20
SlurmWith = Callable[..., SlurmCluster]


class Submitter:
    """Where jobs are submitted from, each in a folder of its own."""

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self.folder = folder
        self.slurm = slurm
        self._count = 0

    def request(self, *words: str, **amounts: Any) -> Request:
        self._count += 1
        name = f"job-{self._count}.{time.time_ns()}"
        sizes = {"memory": 10 * MIB, "seconds": 60} | amounts
        return Request(name=name, words=words, folder=self.folder, output=self.folder / f"{name}.out", **sizes)

    def submit(self, *words: str, **amounts: Any) -> str:
        return self.submitted(self.request(*words, **amounts))

    def submitted(self, request: Request) -> str:
        script = self.folder / f"{request.name}.sh"
        script.write_text(self.slurm.script(request))
        return self.slurm.submit(request, script)

    def ended(self, *numbers: str) -> dict[str, Verdict]:
        """Wait for jobs, and return what became of them."""
        until(lambda: self.slurm.poll().keys().isdisjoint(numbers), f"the end of {numbers}")
        until(lambda: self.slurm.verdicts(numbers).keys() == set(numbers), f"verdicts on {numbers}")
        return self.slurm.verdicts(numbers)


@pytest.fixture
def submitter(clear_slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitter:
    monkeypatch.setenv("SLURM_CONF", str(clear_slurm.conf))
    return Submitter(tmp_path, Slurm())


def submitter_at(cluster: SlurmCluster, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Submitter:
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    return Submitter(folder, Slurm(SlurmOptions(**options)))


def test_it_is_a_scheduler() -> None:
    scheduler: Scheduler = Slurm()
    assert scheduler.name == "slurm"


def test_limits_take_three_calls(submitter: Submitter) -> None:
    limits = submitter.slurm.limits()
    assert [node.name for node in limits.nodes] == [f"n{number}" for number in range(1, 9)]
    node = limits.nodes[0]
    assert (node.cores, node.memory, node.disk, node.usable) == (4, 2000 * MIB, 10000 * MIB, True)
    assert limits.array == 10001
    assert (limits.seconds, limits.job_nodes, limits.submitted) == (float("inf"), None, None)
    assert submitter.slurm.calls == {"scontrol": 3}
    submitter.slurm.limits()
    assert submitter.slurm.calls == {"scontrol": 4}  # only nodes change


def test_an_unknown_partition_is_told_with_those_there_are(submitter: Submitter) -> None:
    with pytest.raises(InputError, match='no such partition: "mian"') as problem:
        Slurm(SlurmOptions(partition="mian")).limits()
    assert problem.value.hint == "did you mean main? partitions: main"


def test_jobs_of_every_kind_and_what_became_of_them(submitter: Submitter, clear_slurm: SlurmCluster) -> None:
    # Others may call their jobs whatever they like.
    clear_slurm.command("sbatch", "--mem=1", "--output=/dev/null", "--job-name=a|b\nJobState=X|c", "--wrap=sleep 60")
    done = submitter.submit("sh", "-c", "pwd; echo wörds >&2")
    failed = submitter.submit("sh", "-c", "exit 200")
    killed = submitter.submit("sh", "-c", "kill -SEGV $$")
    array = submitter.submit("sh", "-c", "echo $SLURM_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID", elements=3)
    cancelled = submitter.submit("sleep", "100", nodes=2, whole_nodes=True)
    until(lambda: submitter.slurm.poll()[cancelled].status is JobStatus.RUNNING, "a job to run")
    entry = submitter.slurm.poll()[cancelled]
    assert (len(entry.nodes), entry.restarts, entry.reason) == (2, 0, "")
    assert entry.started == pytest.approx(time.time(), abs=10)
    submitter.slurm.cancel([cancelled, "999999"])
    submitter.slurm.calls.clear()
    elements = [f"{array}_{number}" for number in range(3)]
    found = submitter.ended(done, failed, killed, cancelled, *elements)
    assert submitter.slurm.calls.keys() <= {"squeue", "scontrol"}
    assert {number: (one.outcome, one.exit_status, one.signal) for number, one in found.items()} == {
        done: (Outcome.DONE, 0, None),
        failed: (Outcome.FAILED, 200, None),
        killed: (Outcome.FAILED, None, 11),
        cancelled: (Outcome.CANCELLED, None, 15),
        elements[0]: (Outcome.DONE, 0, None),
        elements[1]: (Outcome.FAILED, 1, None),
        elements[2]: (Outcome.FAILED, 2, None),
    }
    started, ended = found[cancelled].started, found[cancelled].ended
    assert started is not None
    assert ended is not None
    assert started <= ended == pytest.approx(time.time(), abs=20)
    outputs = {file.name.partition(".")[0] + file.suffix: file.read_text() for file in submitter.folder.glob("*.out*")}
    assert outputs["job-1.out"] == f"{submitter.folder}\nwörds\n"
    assert outputs["job-4.2"] == "2\n"


@pytest.mark.parametrize("name", ["a b", "it's", 'so "far"', "100%j%%", "#x $HOME `y` ü", "x;y&z|"])
def test_folders_of_any_name(submitter: Submitter, name: str) -> None:
    submitter.folder /= name
    submitter.folder.mkdir()
    number = submitter.submit("sh", "-c", "pwd; echo 'a  b'")
    assert submitter.ended(number)[number].outcome is Outcome.DONE
    assert next(submitter.folder.glob("*.out")).read_text() == f"{submitter.folder}\na  b\n"


def test_a_job_is_found_by_its_name_before_and_after_its_end(submitter: Submitter) -> None:
    waiting, ended = submitter.request("sleep", "60", elements=3, nodes=8), submitter.request("true")
    numbers = submitter.submitted(ended), submitter.submitted(waiting)
    submitter.ended(numbers[0])
    assert submitter.slurm.find(ended.name) == numbers[0]
    assert submitter.slurm.find(waiting.name) == numbers[1]
    assert submitter.slurm.find("nobody") is None


def test_elements_are_cancelled_one_by_one_or_all(submitter: Submitter) -> None:
    array = submitter.submit("sleep", "60", elements=6, nodes=8, whole_nodes=True)
    until(lambda: submitter.slurm.poll()[f"{array}_0"].status is JobStatus.RUNNING, "an element to run")
    submitter.slurm.cancel([f"{array}_{number}" for number in (2, 3, 5)])
    assert submitter.slurm.poll().keys() & {f"{array}_{number}" for number in range(6)} == {
        f"{array}_{n}" for n in (0, 1, 4)
    }
    submitter.slurm.cancel([array])
    found = submitter.ended(f"{array}_0", f"{array}_4")
    assert {one.outcome for one in found.values()} == {Outcome.CANCELLED}
    assert found[f"{array}_4"].started is None


def test_what_no_node_has_is_refused(submitter: Submitter) -> None:
    for amounts in ({"memory": 1e12}, {"cores": 5}, {"nodes": 9}, {"disk": 1e12}):
        request = submitter.request("true", **amounts)
        with pytest.raises(SubmissionRejectedError, match="node configuration is not available"):
            submitter.slurm.check(request)
    for amounts in ({"memory": 1e12}, {"cores": 5}):  # the others would be taken, and wait for ever
        with pytest.raises(SubmissionRejectedError, match="node configuration is not available"):
            submitter.submit("true", **amounts)


def test_the_queue_foresees_what_slurm_plans(submitter: Submitter, clear_slurm: SlurmCluster) -> None:
    assert submitter.slurm.check(submitter.request("true", nodes=8)) == pytest.approx(0, abs=5)
    assert submitter.slurm.queue().earliest(8, 60) == pytest.approx(time.time(), abs=5)
    whole = {"whole_nodes": True, "memory": None}
    submitter.submit("sleep", "100", nodes=5, seconds=600, **whole)
    submitter.submit("sleep", "100", nodes=8, seconds=1200, **whole)  # after the first
    submitter.submit("sleep", "100", nodes=2, seconds=300, **whole)  # beside the first
    submitter.submit("sleep", "100", nodes=4, seconds=1800, **whole)  # after the second
    until(
        lambda: _statuses(submitter) == [JobStatus.RUNNING, JobStatus.RUNNING, JobStatus.WAITING, JobStatus.WAITING],
        "two jobs to run",
    )
    submitter.slurm.calls.clear()
    queue = submitter.slurm.queue()
    assert sum(submitter.slurm.calls.values()) <= 4
    foreseen = {nodes: queue.earliest(nodes, 900) for nodes in (1, 4, 8)}
    for nodes, start in foreseen.items():
        number = submitter.submit("sleep", "100", nodes=nodes, seconds=900, **whole)
        planned = _planned(clear_slurm, number)
        assert start == pytest.approx(planned, abs=10), f"{nodes} nodes"
        submitter.slurm.cancel([number])
    wait = submitter.slurm.check(submitter.request("true", nodes=8, seconds=900, **whole))
    assert wait is not None
    assert wait > 500
    # Where jobs run for a tenth of their limits, all of it is ten times as close.
    soon = submitter.slurm.queue(0.1)
    assert soon.earliest(8, 900) - soon.now == pytest.approx((foreseen[8] - queue.now) / 10, abs=15)


def _statuses(submitter: Submitter) -> list[JobStatus]:
    return sorted(entry.status for entry in submitter.slurm.poll().values())


def _planned(cluster: SlurmCluster, number: str) -> float:
    """Wait until Slurm has planned a job, and return when it is to start, or started."""
    words = ("env", "SLURM_TIME_FORMAT=%s", "squeue", "--noheader", f"--jobs={number}", "--format=%S")
    until(lambda: cluster.command(*words).strip().isdigit(), f"a plan for {number}")
    return float(cluster.command(*words))


def test_lists_of_hosts_are_read_as_slurm_does(clear_slurm: SlurmCluster) -> None:
    for text in ("n1", "n[1-3,5]", "n[08-11],m", "r[1-2]n[1-3]", "a-[1,3],b"):
        assert "\n".join(expanded(text)) == clear_slurm.command("scontrol", "show", "hostnames", text).strip()


def test_nodes_that_die_others_that_come_first_and_time_that_runs_out(
    slurm_with: SlurmWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = slurm_with(
        nodes=4,
        partitions=("main", "short Nodes=n[1-2] MaxTime=10 MaxNodes=1", "urgent Nodes=n2 PriorityTier=9"),
        options={"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"},
    )
    submitter = submitter_at(cluster, tmp_path, monkeypatch)
    long = submitter.submit("sleep", "300", seconds=300)
    until(lambda: submitter.slurm.poll()[long].status is JobStatus.RUNNING, "a job to run")

    def ends_now() -> bool:
        with suppress(RuntimeError):  # Slurm refuses that in the second in which a job begins
            cluster.command("scontrol", "update", f"JobId={long}", "EndTime=now")
            return True
        return False

    until(ends_now, "Slurm to accept an end")  # before others start: it looks at time limits twice a minute

    short = Slurm(SlurmOptions(partition="short"))
    assert (short.limits().seconds, short.limits().job_nodes, len(short.limits().nodes)) == (600.0, 1, 2)
    for amounts in ({"seconds": 601}, {"nodes": 2}):  # Slurm itself would let such jobs wait for ever
        with pytest.raises(SubmissionRejectedError, match="jobs in the partition short"):
            short.check(submitter.request("true", **amounts))

    lost, preempted = (
        submitter_at(cluster, tmp_path, monkeypatch, extra=(f"--nodelist={node}",)).submit("sleep", "300", cores=4)
        for node in ("n4", "n2")
    )
    until(lambda: {submitter.slurm.poll()[one].status for one in (lost, preempted)} == {JobStatus.RUNNING}, "starts")
    submitter_at(cluster, tmp_path, monkeypatch, partition="urgent").submit("true", cores=4)
    cluster.kill_node("n4", noticed=True)
    cluster.drain("n3")
    assert [node.usable for node in submitter.slurm.limits().nodes] == [True, True, False, False]
    assert submitter.slurm.queue().nodes == 2
    found = submitter.ended(lost, preempted, long)
    assert (found[lost].outcome, found[lost].note) == (Outcome.LOST, "one of its nodes failed (n4)")
    assert found[preempted].outcome is Outcome.PREEMPTED
    assert (found[long].outcome, found[long].exhausted) == (Outcome.EXHAUSTED, Resource.WALL_TIME)


def test_a_controller_that_is_down_is_no_verdict(
    slurm_with: SlurmWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = slurm_with(nodes=1, options={"MessageTimeout": "2"})
    submitter = submitter_at(cluster, tmp_path, monkeypatch)
    number = submitter.submit("true")
    submitter.ended(number)
    cluster.stop_controller()
    questions: list[Callable[[], object]] = [
        submitter.slurm.poll,
        lambda: submitter.slurm.verdicts([number]),
        lambda: submitter.submit("true"),
        lambda: Slurm().limits(),
    ]
    for question in questions:
        with pytest.raises(SchedulerUnreachableError, match="does not answer"):
            question()
    cluster.start_controller()
    assert submitter.ended(number)[number].outcome is Outcome.DONE


@pytest.mark.skipif(unusable() is not None, reason=str(unusable()))
def test_a_job_that_the_kernel_ends_for_its_memory(
    slurm_with: SlurmWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter = submitter_at(slurm_with(nodes=1, cgroups=True), tmp_path, monkeypatch)
    number = submitter.submit("python3", "-c", "x = bytearray(300 << 20)", memory=50 * MIB)
    verdict = submitter.ended(number)[number]
    assert (verdict.outcome, verdict.exhausted) == (Outcome.EXHAUSTED, Resource.MEMORY)
    assert verdict.signal is None  # Slurm writes 125, which no signal is


def test_a_full_queue_is_told_at_once(slurm_with: SlurmWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = slurm_with(nodes=1, options={"MaxJobCount": "3", "MaxArraySize": "5"})
    submitter = submitter_at(cluster, tmp_path, monkeypatch)
    assert submitter.slurm.limits().array == 3
    submitter.submit("sleep", "60", elements=2)
    began = time.monotonic()
    with pytest.raises(SchedulerUnreachableError, match="the queue accepts no more jobs at the moment"):
        submitter.submit("sleep", "60", elements=2)
    assert time.monotonic() - began < 60  # sbatch itself goes on trying for two minutes


def test_accounts_limit_jobs_and_remember_them(
    slurm_with: SlurmWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = slurm_with(nodes=2, accounting=True, options={"JobAcctGatherParams": "OverMemoryKill"})
    submitter = submitter_at(cluster, tmp_path, monkeypatch)
    assert submitter.slurm.limits().submitted is None
    greedy = submitter.submit("python3", "-c", "x = bytearray(200 << 20); import time; time.sleep(60)", memory=50 * MIB)
    failed = submitter.submit("sh", "-c", "exit 200")

    for words in (["add", "qos", "few"], ["modify", "qos", "few", "set", "MaxSubmitJobsPerUser=2", "MaxWall=5"]):
        cluster.command("sacctmgr", "--immediate", *words)
    user = cluster.command("id", "-un").strip()
    cluster.command("sacctmgr", "--immediate", "modify", "user", user, "set", "qos=normal,few")
    few = submitter_at(cluster, tmp_path, monkeypatch, qos="few")
    limits = few.slurm.limits()
    assert (limits.submitted, limits.seconds) == (2, 300.0)
    with pytest.raises(InputError, match="does not belong to the account"):
        Slurm(SlurmOptions(account="nobody")).limits()
    with pytest.raises(InputError, match="may not use the QOS"):
        Slurm(SlurmOptions(qos="much")).limits()
    until(lambda: _takes(few), "the controller to know the QOS")
    few.submit("sleep", "60")
    with pytest.raises(SchedulerUnreachableError, match="the queue accepts no more jobs at the moment"):
        few.submit("true")
    with pytest.raises(SubmissionRejectedError, match="2 jobs at a time"):
        few.submit("true", elements=3)
    with pytest.raises(SubmissionRejectedError, match="run for at most 5m"):
        few.slurm.check(few.request("true", seconds=301))

    found = submitter.ended(greedy, failed)
    until(lambda: submitter.slurm.verdicts([greedy])[greedy].exhausted is not None, "the accounting")
    assert submitter.slurm.verdicts([greedy])[greedy].exhausted is Resource.MEMORY
    assert found[failed].exit_status == 200
    # What the accounting says when the controller has forgotten.
    alone = accounted(submitter.slurm._sacct([greedy, failed]))
    assert alone[greedy].exhausted is Resource.MEMORY
    assert (alone[failed].outcome, alone[failed].exit_status) == (Outcome.FAILED, 72)


def _takes(submitter: Submitter) -> bool:
    try:
        submitter.submit("sleep", "60")
    except SubmissionRejectedError:
        return False
    return True
