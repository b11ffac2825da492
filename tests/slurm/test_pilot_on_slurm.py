"""Single tasks and packed batch jobs on a real Slurm, and what becomes of them when parts of it are killed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.run.batch_jobs import BatchJob, SingleTasks
from tests.run.cli_runs import kill, marked, running_attempts
from tests.slurm.cluster import SlurmCluster
from tests.waiting import until
from tonnage.batch.slurm import Slurm
from tonnage.jobs import Amounts, Outcome
from tonnage.run.machines import Machine
from tonnage.run.minders import result_of
from tonnage.run.pilot.ledger import AttemptStarted, MachineLost, PilotFinished
from tonnage.watch.proc import read

SlurmWith = Callable[..., SlurmCluster]
MACHINES = {f"n{number}": Machine(4, 2000 * 2.0**20, 1e9) for number in range(1, 9)}


class Packed(BatchJob):
    """A packed batch job of a real cluster."""

    def submit(self, cluster: SlurmCluster, nodes: int, **options: object) -> str:
        """Submit it, and return what Slurm calls it."""
        self.write(nodes=MACHINES, **options)
        script = self.path / "script"
        script.write_text(
            f"#!/bin/sh\nexec {sys.executable} -P -m tonnage.run.pilot.pilot_job {self.path} --inside {Slurm.inside}\n"
        )
        whole = ("--exclusive", "--mem=0", f"--nodes={nodes}", "--no-kill", "--no-requeue")
        files = (f"--output={self.path}/out", f"--chdir={self.folder}")
        return cluster.command("sbatch", "--parsable", *whole, *files, str(script)).strip()

    def wait(self) -> None:
        """Wait until it has said good-bye."""
        until(lambda: any(isinstance(entry, PilotFinished) for entry in self.entries()[-1:]))
        until(lambda: not marked(self.token))

    def wait_for_tasks(self, number: int) -> None:
        """Wait until so many run."""
        until(lambda: len(running_attempts(self.token)) >= number)

    def nodes_in_use(self) -> list[str]:
        return sorted({entry.node for entry in self.entries() if isinstance(entry, AttemptStarted)})


@pytest.fixture
def job(tmp_path: Path) -> Packed:
    return Packed(tmp_path)


def add_waiting(job: Packed, number: int) -> None:
    """Add tasks that wait until they are let go."""
    for task in range(number):
        job.add(f"{task}", "until [ -e go ]; do sleep 0.1; done")


def let_go(job: Packed) -> None:
    (job.folder / "go").touch()


def process(pattern: str) -> int:
    """Return the first process with these words."""
    found = subprocess.run(["pgrep", "-o", "-f", pattern], capture_output=True, text=True, check=True)
    return int(found.stdout)


def test_tasks_of_many_sizes_on_three_nodes(clear_slurm: SlurmCluster, job: Packed) -> None:
    random = Random(2)
    for number in range(40):
        after = random.sample(range(max(0, number - 10), number), min(number, random.choice([0, 0, 1])))
        asked = Amounts.of(cores=random.choice([1, 1, 2, 4]), memory=random.choice([5e7, 4e8, 1.5e9]), disk=1e6)
        job.add(f"{number}", f"sleep 0.1; test $SLURM_JOB_ID; echo $SLURMD_NODENAME > {number}", *after, request=asked)
    job.submit(clear_slurm, 3)
    job.wait()
    job.check(MACHINES)
    assert len(job.nodes_in_use()) == 3
    for entry in job.ends():
        assert (job.folder / entry.task).read_text().strip() == entry.end.host


def test_a_cancelled_batch_job_says_how_its_attempts_ended(clear_slurm: SlurmCluster, job: Packed) -> None:
    add_waiting(job, 20)
    job.add("ending well", "trap 'exit 0' TERM; sleep 600 & wait")  # it cannot have finished
    number = job.submit(clear_slurm, 2)
    job.wait_for_tasks(8)
    clear_slurm.command("scancel", number)
    job.wait()
    assert {(entry.end.outcome, entry.end.note) for entry in job.ends()} == {(Outcome.LOST, "ended with its batch job")}
    assert job.finished_because() == "the batch job was terminated"


def test_killed_agents_and_carriers(clear_slurm: SlurmCluster, job: Packed) -> None:
    add_waiting(job, 24)
    job.submit(clear_slurm, 3)
    job.wait_for_tasks(12)
    second = job.nodes_in_use()[1]
    kill(process(f"^{sys.executable} .*tonnage.run.pilot.agent {job.path} {second} "))
    let_go(job)
    job.wait()
    job.check(MACHINES)
    assert [entry.node for entry in job.entries() if isinstance(entry, MachineLost)] == [second]

    (job.folder / "go").unlink()
    other = Packed(job.folder, 2)
    add_waiting(other, 20)
    for quick in range(20, 24):
        other.add(f"{quick}", "true")
    number = other.submit(clear_slurm, 6)
    until(lambda: len(other.done()) >= 4)
    kill(process(f"tonnage.run.pilot.pilot_job {other.path}"))
    until(lambda: not clear_slurm.command("squeue", "--noheader", f"--jobs={number}", "--states=R,CG"))
    until(lambda: not marked(other.token))
    assert len(other.done()) == 4
    let_go(other)
    other.submit(clear_slurm, 2)
    other.wait()
    assert set(other.done().values()) == {1}
    assert len(other.done()) == 24


def test_a_node_dies(slurm_with: SlurmWith, job: Packed) -> None:
    """Heartbeats tell long before the controller does, which is not told here."""
    cluster = slurm_with(nodes=3)
    add_waiting(job, 20)
    job.submit(cluster, 3, patience=15.0)
    job.wait_for_tasks(12)
    cluster.kill_node("n3")
    until(lambda: any(isinstance(entry, MachineLost) for entry in job.entries()))
    let_go(job)
    job.wait()
    job.check(MACHINES)
    assert [entry.node for entry in job.entries() if isinstance(entry, MachineLost)] == ["n3"]


def test_single_tasks_of_an_array(slurm_with: SlurmWith, tmp_path: Path) -> None:
    cluster = slurm_with(nodes=2, options={"KillWait": "240"})  # however busy this machine is, there is time to answer
    run = SingleTasks(tmp_path / "run")
    for number in range(4):
        run.add(f"echo {number}")
    mark = f"{run.path}"
    run.add("trap '' TERM; sleep 600; true", environment={"MARK": mark, "TONNAGE_ATTEMPT": f"{mark}:104"})
    run.add("sleep 600; true", environment={"TONNAGE_ATTEMPT": f"{mark}:105"})
    script = run.path / "script"
    words = f"{sys.executable} -P -m tonnage.watch.single_task {run.batch} $SLURM_ARRAY_TASK_ID $SLURMD_NODENAME"
    script.write_text(f"#!/bin/sh\nexec {words}\n")
    options = ("--array=0-5", "--mem=50", f"--output={run.path}/%a", f"--chdir={run.path}")
    array = cluster.command("sbatch", "--parsable", *options, str(script)).strip()
    until(lambda: all(result_of(run.path, 100 + element) for element in range(4)))
    until(lambda: len(marked(mark)) >= 4)  # a shell and its sleep, twice
    cluster.command("scancel", array)
    try:
        until(lambda: result_of(run.path, 104) and result_of(run.path, 105))
    except AssertionError:
        left = [(pid, read(f"/proc/{pid}/cmdline")) for pid in marked(mark)]
        left_behind = sorted(path.name for path in (run.path / "results").iterdir())
        raise AssertionError(f"{cluster.command('squeue')}, {left_behind=}, {left=}") from None
    answers = [run.result(100 + element) for element in range(6)]
    assert [answer.status for answer in answers[:4]] == [0] * 4
    assert {answer.host for answer in answers} <= set(cluster.nodes)
    assert [answer.stopped_because for answer in answers[4:]] == ["terminated"] * 2
    assert (run.path / "logs" / "102.out").read_text() == "2\n"
    until(lambda: not marked(mark))


def test_a_single_task_that_succeeded_is_a_completed_job(clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    """The command's own status is in the words, not in Slurm's state."""
    run = SingleTasks(tmp_path / "run")
    run.add("exit 3")
    words = ["srun", "--mem=50", sys.executable, "-P", "-m", "tonnage.watch.single_task", str(run.batch)]
    clear_slurm.command(*words)
    assert os.waitstatus_to_exitcode(run.result().status or 0) == 3
