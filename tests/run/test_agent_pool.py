"""Agents: real processes on this machine that stand for nodes, some of which are killed, stopped or abandoned."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.run.batch_jobs import running
from tests.waiting import until, written
from tonnage.batch.slurm.inside import SlurmJob
from tonnage.run.minders import Answer, Order, Seen
from tonnage.run.pilot.agent_pool import Agents, Here, undelivered

Make = Callable[..., Order]


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with Agents(tmp_path, ["n1", "n2"], "token", job=Here(["n1", "n2"])) as some:
        yield some


@pytest.fixture
def order(tmp_path: Path) -> Make:
    def make(attempt: int, script: str, **options: object) -> Order:
        files = {"stdout": str(tmp_path / f"{attempt}.out"), "stderr": str(tmp_path / f"{attempt}.err")}
        environment = {"MARK": f"{tmp_path}", "TONNAGE_ATTEMPT": f"token:{attempt}"}
        given = {"folder": str(tmp_path), "executable": "/bin/sh", "environment": environment, **files, **options}
        return Order(attempt, ("sh", "-c", script), **given)  # type: ignore[arg-type]

    return make


def finish(agents: Agents) -> dict[int, Answer]:
    """Wait until nothing runs."""
    answers: dict[int, Answer] = {}
    deadline = time.monotonic() + HANGS
    while agents.running:
        assert time.monotonic() < deadline, f"{agents.running} still run"
        for answer in agents.wait(1):
            if isinstance(answer, Answer):
                assert answer.attempt not in answers
                answers[answer.attempt] = answer
    return answers


def speaking(agents: Agents) -> Agents:
    """Wait until all agents have said something: on a busy machine, their start may take longer than the patience."""
    until(lambda: all(select.select([node.stdout], [], [], 0)[0] for node in agents._nodes))
    return agents


def pid_of(agents: Agents, number: int) -> int:
    return agents._nodes[number].process.pid


def test_orders_run_where_they_should(agents: Agents, order: Make, tmp_path: Path) -> None:
    agents.start([order(number, f"echo {number}; exit {number}", machine=number % 2) for number in range(6)])
    assert agents.running == 6
    answers = finish(agents)
    assert {number: answer.host for number, answer in answers.items()} == {
        number: ("n1", "n2")[number % 2] for number in range(6)
    }
    assert {number: answer.status for number, answer in answers.items()} == {n: n << 8 for n in range(6)}
    assert (tmp_path / "3.out").read_text() == "3\n"
    assert agents.there == 2
    assert agents.lost_machines() == []


def test_many_short_tasks(agents: Agents, order: Make) -> None:
    count, at_once = 300, 8
    agents.start([order(number, ":", machine=number % 2) for number in range(at_once)])
    begun, ended = at_once, 0
    while ended < count:
        found = [one for one in agents.wait(HANGS) if isinstance(one, Answer)]
        assert all(answer.status == 0 for answer in found)
        ended += len(found)
        more = range(begun, min(count, begun + len(found)))
        begun = more.stop
        agents.start([order(number, ":", machine=number % 2) for number in more])


def test_what_is_long_arrives_whole(agents: Agents, order: Make) -> None:
    """Pipes take 64 kB at a time, and agents are not always quick to read."""
    large = "x" * 100_000
    agents.start([order(number, f"test ${{#A}} = 100000 # {large}", environment={"A": large}) for number in range(40)])
    assert {answer.status for answer in finish(agents).values()} == {0}


def test_running_tasks_are_seen_and_stopped(agents: Agents, order: Make, tmp_path: Path) -> None:
    agents.start([order(1, "sleep 400; true")])
    seen: list[Seen] = []
    while not seen:
        seen += [one for one in agents.wait(HANGS) if isinstance(one, Seen)]
    assert seen[0].attempt == 1
    agents.stop(1)
    assert finish(agents)[1].stopped_because == "cancelled"
    assert running(f"{tmp_path}") == []


def test_a_killed_agent_is_a_lost_machine(agents: Agents, order: Make, tmp_path: Path) -> None:
    agents.start([order(1, "sleep 400"), order(2, "sleep 0.1", machine=1)])
    until(lambda: running(f"{tmp_path}"))
    os.kill(pid_of(agents, 0), signal.SIGKILL)
    answers = finish(agents)
    assert (answers[1].lost, answers[1].stopped_because, answers[1].host) == (True, "machine lost", "n1")
    assert answers[2].status == 0
    assert agents.lost_machines() == [0]
    assert agents.lost_machines() == []
    assert agents.there == 1
    until(lambda: not running(f"{tmp_path}"))
    agents.start([order(3, "true")])
    (answer,) = agents.wait(1)
    assert isinstance(answer, Answer)
    assert answer.lost


def test_a_silent_agent_is_a_lost_machine(order: Make, tmp_path: Path) -> None:
    with Agents(tmp_path, ["n1", "n2"], "token", job=Here(["n1", "n2"]), patience=5.0) as agents:
        speaking(agents).start([order(1, "sleep 400"), order(2, "true", machine=1)])
        answered = until(lambda: [one for one in agents.wait(1) if isinstance(one, Answer)])
        assert [(one.attempt, one.status) for one in answered] == [(2, 0)]
        until(lambda: running(f"{tmp_path}"))
        os.kill(pid_of(agents, 0), signal.SIGSTOP)
        assert finish(agents)[1].stopped_because == "machine lost"
        assert agents.lost_machines() == [0]
        until(lambda: not running(f"{tmp_path}"))


def test_agents_are_patient_with_a_slow_carrier(order: Make, tmp_path: Path) -> None:
    """Who waits for a disk does not listen for a while."""
    with Agents(tmp_path, ["n1"], "token", job=Here(["n1"]), patience=3.0) as agents:
        speaking(agents).start([order(1, "true")])
        time.sleep(3.5)  # longer than its patience
        assert finish(agents)[1].status == 0
        assert agents.lost_machines() == []


def test_an_agent_that_is_told_to_end_by_others(agents: Agents, order: Make, tmp_path: Path) -> None:
    """As a cluster does with all processes of a batch job, those of tasks included."""
    agents.start([order(1, "sleep 400"), order(2, "trap 'exit 0' TERM; sleep 400 & wait")])
    until(lambda: len(running(f"{tmp_path}")) >= 3)
    for pid in (*running(f"{tmp_path}"), pid_of(agents, 0)):
        os.kill(pid, signal.SIGTERM)
    answers = finish(agents)
    assert answers[1].stopped_because == "terminated"
    assert agents.lost_machines() == [0]


def test_everything_is_ended(agents: Agents, order: Make, tmp_path: Path) -> None:
    agents.start([order(number, "trap '' TERM; sleep 400; true", machine=number % 2) for number in range(6)])
    until(lambda: len(running(f"{tmp_path}")) >= 6)
    agents.end(HANGS)
    answers = finish(agents)
    assert {answer.stopped_because for answer in answers.values()} == {"terminated"}
    assert not any(answer.lost for answer in answers.values())
    assert agents.lost_machines() == []


def test_the_end_does_not_wait_for_long(agents: Agents, order: Make, tmp_path: Path) -> None:
    agents.start([order(1, "sleep 400")])
    until(lambda: running(f"{tmp_path}"))
    os.kill(pid_of(agents, 0), signal.SIGSTOP)
    agents.end(0.3)
    assert finish(agents)[1].stopped_because == "terminated"


def test_an_agent_that_cannot_be_started_is_lost(tmp_path: Path, order: Make) -> None:
    class Broken(Here):
        def launcher(self, node: str) -> tuple[str, ...]:
            return ("/bin/false",)

    with Agents(tmp_path, ["n1"], "token", job=Broken(["n1"])) as agents:
        agents.start([order(1, "true")])
        assert finish(agents)[1].stopped_because == "machine lost"
        assert agents.lost_machines() == [0]


# Does not listen to the answer of its second task, and says so when that has come and a third task runs.
CARRIER = """
import fcntl, sys, termios, time
from pathlib import Path
from struct import unpack
from tonnage.run.pilot.agent_pool import Agents, Here
from tonnage.run.minders import Order
folder = Path(sys.argv[1])
agents = Agents(folder, ["n1"], "token", job=Here(["n1"]))
def order(attempt, script):
    mark = {"MARK": str(folder)}
    return Order(attempt, ("sh", "-c", script), "/bin/sh", str(folder), f"{folder}/{attempt}.out", "/dev/null", mark)
def unread():
    return unpack("i", fcntl.ioctl(agents._nodes[0].stdout, termios.FIONREAD, bytes(4)))[0]
agents.start([order(1, "true")])
while agents.running:
    agents.wait(1)
agents.start([order(2, "echo done")])
while unread() < 200:  # an answer; else, only what is a few bytes long comes now and then
    time.sleep(0.01)
agents.start([order(3, "touch begun; sleep 400")])
while not (folder / "begun").exists():
    time.sleep(0.01)
print("now", flush=True)
time.sleep(400)
"""


def test_what_nobody_hears_is_left_in_words(tmp_path: Path) -> None:
    """The pilot is killed while an answer is under way."""
    words = [sys.executable, "-c", CARRIER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as pilot:
        assert pilot.stdout is not None
        assert pilot.stdout.readline() == "now\n"
        pilot.kill()
    until(lambda: 2 in undelivered(tmp_path))
    until(lambda: not running(f"{tmp_path}"))
    answers = undelivered(tmp_path)
    assert answers[2].status == 0
    assert answers[2].host == "n1"
    assert 3 not in answers


def test_descriptors_are_watched_also(agents: Agents) -> None:
    reader, writer = os.pipe()
    agents.watch_also(reader)
    os.write(writer, b"x")
    begun = time.monotonic()
    assert agents.wait(2 * HANGS) == []
    assert time.monotonic() - begun < HANGS
    os.close(reader)
    os.close(writer)


def test_srun_gets_only_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_MEM_PER_CPU", "SLURM_LABELIO", "SRUN_CPUS_PER_TASK", "SBATCH_ACCOUNT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    path = tmp_path / "environment"

    class Written(SlurmJob):
        def launcher(self, node: str) -> tuple[str, ...]:
            return ("sh", "-c", f"env > {path}.new; mv {path}.new {path}", *super().launcher(node))

    with Agents(tmp_path, ["n1"], "token", job=Written()):
        text = written(path)
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert {name for name in names if name.startswith(("SLURM", "SRUN"))} <= {"SLURM_JOB_ID", "SLURM_CONF"}
    assert {"SLURM_JOB_ID", "SBATCH_ACCOUNT"} <= names  # a task that calls sbatch knows who pays
