"""The private cluster is a real one, and leaves nothing behind."""

import getpass
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.cgroups import unusable
from tests.slurm.cluster import SlurmCluster
from tests.slurm.supervisor import below
from tests.waiting import until

SlurmWith = Callable[..., SlurmCluster]
HOLDS_100_MIB = f"{sys.executable} -c 'import time; held = bytearray(100 << 20); time.sleep(60)'"
# One process goes on in a session of its own, one ignores the polite signal.
STUBBORN = "(setsid setsid sleep 1000 &) ; trap '' TERM; sleep 1000"


def submit(cluster: SlurmCluster, folder: Path, command: str, *options: str) -> str:
    words = ["sbatch", "--parsable", f"--output={folder}/%j.out", f"--chdir={folder}", "--mem=50", *options]
    return cluster.command(*words, "--wrap", command).strip()


def field(cluster: SlurmCluster, job: str, name: str) -> str:
    words = cluster.command("scontrol", "--oneliner", "show", "job", job).split()
    return dict(word.partition("=")[::2] for word in words)[name]


def wait(cluster: SlurmCluster, job: str, state: str) -> None:
    until(lambda: field(cluster, job, "JobState") == state, f"job {job} to be {state}")


def test_every_node_takes_part(clear_slurm: SlurmCluster) -> None:
    said = clear_slurm.command("srun", "--nodes=8", "printenv", "SLURMD_NODENAME")
    assert sorted(said.split()) == clear_slurm.nodes == [f"n{number}" for number in range(1, 9)]


def test_an_array_runs(clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    submit(clear_slurm, tmp_path, "touch done.$SLURM_ARRAY_TASK_ID", "--array=1-20")
    until(lambda: len(list(tmp_path.glob("done.*"))) == 20, "an array of 20")


def test_jobs_survive_a_restart_of_the_controller(clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    job = submit(clear_slurm, tmp_path, "until [ -e go ]; do sleep 0.05; done")
    wait(clear_slurm, job, "RUNNING")
    clear_slurm.stop_controller()
    clear_slurm.start_controller()
    assert field(clear_slurm, job, "JobState") == "RUNNING"
    (tmp_path / "go").touch()
    wait(clear_slurm, job, "COMPLETED")
    clear_slurm.wait_until_up()


def test_a_drained_node_takes_no_jobs(clear_slurm: SlurmCluster) -> None:
    clear_slurm.drain("n3")
    assert clear_slurm.states()["n3"] == "drained"
    said = clear_slurm.command("srun", "--nodes=7", "printenv", "SLURMD_NODENAME")
    assert sorted(said.split()) == [name for name in clear_slurm.nodes if name != "n3"]
    clear_slurm.resume("n3")
    assert clear_slurm.command("srun", "--nodelist=n3", "printenv", "SLURMD_NODENAME").strip() == "n3"


def test_a_dead_node_fails_its_jobs(slurm_with: SlurmWith, tmp_path: Path) -> None:
    cluster = slurm_with(nodes=2, options={"MessageTimeout": "2", "SlurmdTimeout": "3"})
    job = submit(cluster, tmp_path, "sleep 1000", "--no-requeue", "--nodelist=n2")
    wait(cluster, job, "RUNNING")
    cluster.kill_node("n2")
    wait(cluster, job, "NODE_FAIL")
    assert cluster.states() == {"n1": "idle", "n2": "down*"}
    cluster.start_node("n2")
    assert cluster.command("srun", "--nodelist=n2", "printenv", "SLURMD_NODENAME").strip() == "n2"


def test_a_dead_node_can_be_noticed_at_once_and_its_job_live_on(clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    text = "echo $$ >process.new; mv process.new process; sleep 1000"
    job = submit(clear_slurm, tmp_path, text, "--no-requeue", "--nodelist=n5")
    until((tmp_path / "process").exists, "the job")
    process = Path("/proc", (tmp_path / "process").read_text().strip())
    clear_slurm.kill_node("n5", jobs=False, noticed=True)
    wait(clear_slurm, job, "NODE_FAIL")
    assert process.exists()
    clear_slurm.kill_node("n5")
    assert not process.exists()
    clear_slurm.start_node("n5")


def test_two_clusters_do_not_disturb_each_other(
    clear_slurm: SlurmCluster, slurm_with: SlurmWith, tmp_path: Path
) -> None:
    other = slurm_with(nodes=2, cpus=2, partitions=("short MaxTime=10", "long Nodes=n2"))
    assert other.command("sinfo", "--noheader", "--format=%P %D %l").splitlines() == [
        "short* 2 10:00",
        "long 1 infinite",
    ]
    submit(other, tmp_path, "sleep 1000")
    assert clear_slurm.command("squeue", "--noheader") == ""
    job = submit(clear_slurm, tmp_path, "sleep 1000")
    wait(clear_slurm, job, "RUNNING")
    other.stop()
    assert field(clear_slurm, job, "JobState") == "RUNNING"


def test_nothing_is_left_after_the_end(slurm_with: SlurmWith, tmp_path: Path) -> None:
    before = below(os.getpid())
    cluster = slurm_with(nodes=2)
    wait(cluster, submit(cluster, tmp_path, STUBBORN), "RUNNING")
    assert len(below(os.getpid())) > len(before)
    cluster.stop()
    assert below(os.getpid()) == before


def test_nothing_is_left_when_the_start_fails(slurm_with: SlurmWith) -> None:
    before = below(os.getpid())
    with pytest.raises(RuntimeError, match="select/nonsense"):
        slurm_with(nodes=2, options={"SelectType": "select/nonsense"})
    assert below(os.getpid()) == before


def test_nothing_is_left_when_whoever_started_it_is_killed(slurm: SlurmCluster) -> None:
    words = [sys.executable, "-m", "tests.slurm.cluster", "--nodes=2"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        conf = next(line.partition("=")[2].strip() for line in starter.stdout if "SLURM_CONF=" in line)
        environment = {**os.environ, "SLURM_CONF": conf}
        job = ["srun", "sleep", "1000"]
        with subprocess.Popen(job, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as waiting:
            until(lambda: "1000" in _commands(starter.pid), "the job")
            processes = below(starter.pid)
            starter.send_signal(signal.SIGKILL)
            until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes), "their end")
            waiting.kill()


def _commands(root: int) -> list[str]:
    found = [Path(f"/proc/{process}/cmdline") for process in below(root)]
    return [word for path in found if path.exists() for word in path.read_text().split("\0")]


def test_too_much_memory_ends_a_job_where_that_is_asked_for(slurm_with: SlurmWith, tmp_path: Path) -> None:
    cluster = slurm_with(nodes=1, options={"JobAcctGatherParams": "OverMemoryKill"})
    job = submit(cluster, tmp_path, HOLDS_100_MIB)
    wait(cluster, job, "FAILED")
    assert field(cluster, job, "ExitCode") == "0:9"
    assert "exceeded memory limit" in (tmp_path / f"{job}.out").read_text()


@pytest.mark.skipif(unusable() is not None, reason=str(unusable()))
def test_the_kernel_ends_a_job_where_there_are_control_groups(slurm_with: SlurmWith, tmp_path: Path) -> None:
    cluster = slurm_with(nodes=1, cgroups=True)
    job = submit(cluster, tmp_path, HOLDS_100_MIB)
    wait(cluster, job, "OUT_OF_MEMORY")
    assert field(cluster, job, "ExitCode") == "0:125"
    cluster.stop()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/slurm_{cluster.nodes[0]}"))


def test_accounts_hold_ended_jobs_and_limits(slurm_with: SlurmWith, tmp_path: Path) -> None:
    cluster = slurm_with(nodes=2, accounting=True)
    job = submit(cluster, tmp_path, "exit 3")
    asked = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=State,ExitCode,Account"]
    until(lambda: cluster.command(*asked).strip() == "FAILED|3:0|test", "sacct")
    cluster.command("sacctmgr", "--immediate", "add", "qos", "small", "MaxSubmitJobsPerUser=1")
    cluster.command(
        "sacctmgr", "--immediate", "modify", "user", getpass.getuser(), "set", "qos+=small", "MaxSubmitJobs=2"
    )
    submit(cluster, tmp_path, "true", "--qos=small", "--hold")
    with pytest.raises(RuntimeError, match="QOSMaxSubmitJobPerUserLimit"):
        submit(cluster, tmp_path, "true", "--qos=small", "--hold")
    submit(cluster, tmp_path, "true", "--hold")
    with pytest.raises(RuntimeError, match="AssocMaxSubmitJobLimit"):
        submit(cluster, tmp_path, "true", "--hold")
