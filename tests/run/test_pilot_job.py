"""Carriers: packed batch jobs without a cluster; agents on this machine stand for nodes."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.run.batch_jobs import MACHINES, BatchJob
from tests.run.cli_runs import kill, marked, running_attempts
from tests.waiting import until
from tonnage.batch.slurm import Slurm
from tonnage.jobs import Amounts, Outcome
from tonnage.run.events import Action, Carried, State
from tonnage.run.pilot.job_spec import LEDGER
from tonnage.run.pilot.ledger import (
    AttemptAdjusted,
    AttemptStarted,
    Ledger,
    MachineLost,
    TaskRefused,
)
from tonnage.run.retry_rules import Rules
from tonnage.watch.proc import children, read

FOREVER = "until [ -e go ]; do sleep 0.02; done"


@pytest.fixture
def job(tmp_path: Path) -> BatchJob:
    return BatchJob(tmp_path)


def agent_of(pilot: "subprocess.Popen[str]", node: str) -> int:
    """Return the agent of a node, once it is there; agents of others may end meanwhile."""
    word = f"\0{node}\0".encode()
    agents = until(lambda: [pid for pid in children(pilot.pid) if word in (read(f"/proc/{pid}/cmdline") or b"")])
    return agents[0]


def test_tasks_of_many_sizes(job: BatchJob) -> None:
    random = Random(1)
    for number in range(40):
        after = random.sample(range(max(0, number - 10), number), min(number, random.choice([0, 0, 1, 2])))
        asked = Amounts.of(cores=random.choice([1, 1, 2, 4]), memory=random.choice([5e7, 4e8, 9e8]), disk=1e6)
        files = "".join(f"cat {parent}.out && " for parent in after)
        job.add(f"{number}", f"{files}sleep 0.02 && echo {number} > {number}.out", *after, request=asked)
    job.go()
    job.check()
    assert job.finished_because() == "nothing left to run"
    assert {entry.node for entry in job.entries() if isinstance(entry, AttemptStarted)} == set(MACHINES)
    numbers = [entry.start.attempt for entry in job.entries() if isinstance(entry, AttemptStarted)]
    assert numbers == list(range(1000, 1040))
    assert list((job.path / "agents").rglob("words/*")) == []


@pytest.mark.parametrize(("overridden", "respected"), [(frozenset(), True), (None, False)])
def test_no_task_gets_less_than_it_requests(job: BatchJob, overridden: frozenset[str] | None, respected: bool) -> None:
    """Also if the first tasks of its category were seen to need far less."""
    tasks = [job.add(f"{number}", "true", category="kind") for number in range(2)]
    job.add("last", "true", *tasks, category="kind", request=Amounts.of(cores=1, memory=900e6, disk=1e6))
    job.go(overridden=overridden)
    job.check()
    assert all(((start.allocated.memory or 0) >= 900e6) == respected for start in job.starts("last"))


def test_more_memory_is_given_where_it_is_short(job: BatchJob) -> None:
    program = "import os, time\nx = bytearray(150_000_000)\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
    (job.folder / "take.py").write_text(program)
    job.add("large", f"{sys.executable} -IS take.py", request=Amounts.of(cores=1, memory=60e6))
    job.add("small", "true")
    job.write()
    with job.begin() as pilot:
        # A rung that is less than what was seen is left out, and a busy machine sees more before it ends a task.
        until(lambda: any((start.allocated.memory or 0) > 200e6 for start in job.starts("large")))
        (job.folder / "go").touch()
        job.finish(pilot)
    *before, last = job.outcomes("large")
    assert before in ([Outcome.EXHAUSTED], [Outcome.EXHAUSTED, Outcome.EXHAUSTED])
    assert last == Outcome.DONE
    assert job.outcomes("small") == [Outcome.DONE]
    job.check()


def test_tasks_outgrow_their_allocations_on_a_node_and_make_room_for_each_other(job: BatchJob) -> None:
    program = "import time\nheld = []\nfor _ in range(10):\n    held.append(b'1' * 30_000_000)\n    time.sleep(0.05)\n"
    (job.folder / "grow.py").write_text(program)
    for number in range(4):
        job.add(f"{number}", f"{sys.executable} -IS grow.py", request=Amounts.of(cores=1, memory=60e6))
    job.nodes = ["n1"]
    entries = job.go(rules=Rules(elastic=True))
    assert job.done() == {f"{number}": 1 for number in range(4)}
    changes = [entry.change for entry in entries if isinstance(entry, AttemptAdjusted)]
    assert any((one.memory or 0) >= 250e6 for one in changes)
    assert {one.action for one in changes} & {Action.PAUSE, Action.STOP}, "1.2 GB on a node with 1 GB"
    paused = {one.attempt for one in changes if one.action is Action.PAUSE}
    assert paused <= {one.attempt for one in changes if one.action in (Action.RESUME, Action.STOP)}
    assert {*job.outcomes("0"), *job.outcomes("3")} <= {Outcome.DONE, Outcome.EXHAUSTED, Outcome.PREEMPTED}


def test_a_pilot_that_is_started_again_knows_what_a_task_had_grown_to(job: BatchJob) -> None:
    program = "import os, time\nx = b'1' * 300_000_000\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
    (job.folder / "take.py").write_text(program)
    job.add("large", f"{sys.executable} -IS take.py", request=Amounts.of(cores=1, memory=60e6))
    job.nodes = ["n1"]
    job.write(rules=Rules(elastic=True))
    with job.begin() as pilot:
        until(
            lambda: any((one.change.memory or 0) > 200e6 for one in job.entries() if isinstance(one, AttemptAdjusted))
        )
        kill(pilot.pid)
        pilot.wait()
    until(lambda: marked(job.token) == [])
    (job.folder / "go").touch()
    with job.begin() as pilot:
        job.finish(pilot)
    _, again = job.starts("large")
    assert (again.allocated.memory or 0) > 200e6


def test_what_is_known_is_carried(job: BatchJob) -> None:
    """The attempts before count, and the size that they came to is where this begins."""
    job.add("one", "exit 1")
    job.go(rules=Rules(retries=1))
    first = next(entry.start for entry in job.entries() if isinstance(entry, AttemptStarted))
    assert job.outcomes("one") == [Outcome.FAILED, Outcome.FAILED]
    assert job.ends()[-1].settled.state is State.FAILED
    second = BatchJob(job.folder, 2)
    second.add("one", "true")
    second.go(carried={0: Carried(2, first.decisions)}, strategy="max-seen")
    (began,) = (entry.start for entry in second.entries() if isinstance(entry, AttemptStarted))
    assert (began.attempt, began.number, began.decisions) == (2000, 3, first.decisions)


def test_what_fits_nowhere_is_refused(job: BatchJob) -> None:
    job.add("huge", "true", request=Amounts.of(cores=1, memory=1e12))
    job.add("small", "true")
    entries = job.go()
    (refused,) = (entry for entry in entries if isinstance(entry, TaskRefused))
    assert refused.task == "huge"
    assert refused.settled.state is State.FAILED
    assert job.done() == {"small": 1}


def test_sandboxes(job: BatchJob) -> None:
    first = job.add("first", "echo 1 > a; echo 2 > b", outputs=("a",))
    job.add("second", "cat a > c", first, inputs=("a",), outputs=("c",))
    job.go(sandbox=True)
    assert (job.folder / "c").read_text() == "1\n"
    assert not (job.folder / "b").exists()


def test_one_batch_job_waits_for_another(job: BatchJob) -> None:
    other = BatchJob(job.folder, 2, ["n1"])
    job.add("a", "sleep 0.3; echo a > a", outputs=("a",))
    job.add("b", "sleep 0.1; echo b > b", outputs=("b",))
    both = other.add("both", "cat a b > c", inputs=("a", "b"))
    after = other.add("after", "cat c", both)
    alone = other.add("alone", "true")
    other.write(awaited={both: ((1, "a"), (1, "b")), after: ((1, "b"),)})
    job.write()
    with other.begin() as waiting:
        until(lambda: other.done() == {"alone": 1})
        with job.begin() as pilot:
            job.finish(pilot)
        other.finish(waiting)
    assert alone == 2
    assert (job.folder / "c").read_text() == "a\nb\n"
    other.check()


def test_what_waits_for_a_task_that_failed_does_not_start(job: BatchJob) -> None:
    other = BatchJob(job.folder, 2, ["n1"])
    job.add("a", "exit 1")
    first = other.add("first", "true")
    other.add("second", "true", first)
    other.add("third", "true")
    job.go()
    other.go(awaited={first: ((1, "a"),)})
    assert other.done() == {"third": 1}
    assert other.finished_because() == "nothing left to run"


def test_what_cannot_come_any_more_is_not_waited_for(job: BatchJob) -> None:
    """Whoever sees that a batch job is gone says good-bye in its name."""
    job.add("first", "true")
    job.write(awaited={0: ((2, "a"),)})
    with job.begin() as pilot:
        until(lambda: len(children(pilot.pid)) >= 3)
        (job.path.parent / "2").mkdir()
        ledger = Ledger(job.path.parent / "2" / LEDGER, (), ())
        ledger.finish("it is gone", 5.0)
        ledger.close()
        job.finish(pilot)
    assert job.done() == {}


def test_the_numbers_for_attempts_are_not_exceeded(job: BatchJob) -> None:
    for number in range(10):
        job.add(f"{number}", "true")
    job.go(attempts=7)
    assert len(job.done()) == 7
    assert job.finished_because() == "no attempt numbers left"
    assert max(entry.end.attempt for entry in job.ends()) == 1006


def test_nothing_more_starts_after_a_failure_where_that_is_the_rule(job: BatchJob) -> None:
    first = job.add("first", "exit 1")
    job.add("second", "true", first)
    job.nodes = ["n2"]
    for number in range(6):
        job.add(f"{number}", FOREVER)
    job.write(rules=Rules(fail_fast=True))
    with job.begin() as pilot:
        until(lambda: job.outcomes("first"))
        (job.folder / "go").touch()
        job.finish(pilot)
    assert len(job.done()) == 1
    assert job.finished_because() == "a task failed, and --fail-fast is set"


def test_a_batch_job_that_is_ended(job: BatchJob) -> None:
    for number in range(12):
        job.add(f"{number}", "sleep 400; true", outputs=("x",) if number == 0 else ())
    job.write()
    with job.begin() as pilot:
        until(lambda: len(running_attempts(job.token)) == 10)
        pilot.send_signal(signal.SIGTERM)
        job.finish(pilot, 1)
    assert job.finished_because() == "the batch job was terminated"
    assert {(entry.end.outcome, entry.end.note) for entry in job.ends()} == {(Outcome.LOST, "ended with its batch job")}
    assert len(job.ends()) == 10
    assert marked(job.token) == []


def test_what_dies_with_the_batch_job_is_not_blamed_on_its_monitor(job: BatchJob) -> None:
    job.nodes = ["n1"]
    for number in range(4):
        job.add(f"{number}", "sleep 400; true")
    job.write()
    with job.begin() as pilot:
        until(lambda: len(running_attempts(job.token)) == 4)
        agent = agent_of(pilot, "n1")
        os.kill(agent, signal.SIGSTOP)
        (fork_server,) = children(agent)
        kill(fork_server)  # a fork server that is just starting dies of the signal that ends a batch job
        until(lambda: not marked(job.token))
        for process in (pilot.pid, agent):
            os.kill(process, signal.SIGTERM)
        os.kill(agent, signal.SIGCONT)
        job.finish(pilot, 1)
    assert {(entry.end.outcome, entry.end.note) for entry in job.ends()} == {(Outcome.LOST, "ended with its batch job")}


def test_a_killed_agent_takes_its_node_with_it(job: BatchJob) -> None:
    for number in range(20):
        job.add(f"{number}", FOREVER)
    job.write()
    with job.begin() as pilot:
        until(lambda: {entry.node for entry in job.entries() if isinstance(entry, AttemptStarted)} == set(MACHINES))
        kill(agent_of(pilot, "n1"))
        until(lambda: any(isinstance(entry, MachineLost) for entry in job.entries()))
        (job.folder / "go").touch()
        job.finish(pilot)
    (lost,) = (entry for entry in job.entries() if isinstance(entry, MachineLost))
    assert lost.node == "n1"
    place = job.entries().index(lost)
    assert all(entry.node != "n1" for entry in job.entries()[place:] if isinstance(entry, AttemptStarted))
    job.check()


def test_what_has_no_room_on_the_nodes_that_are_left_is_left(job: BatchJob) -> None:
    job.nodes = ["n1", "n2"]
    job.add("small", FOREVER)
    for number in range(3):
        job.add(f"{number}", "sleep 400", category="large", request=Amounts.of(cores=1, memory=1.5e9))
    job.write()
    with job.begin() as pilot:
        until(lambda: len([entry for entry in job.entries() if isinstance(entry, AttemptStarted)]) == 2)
        kill(agent_of(pilot, "n2"))
        until(lambda: any(isinstance(entry, MachineLost) for entry in job.entries()))
        (job.folder / "go").touch()
        job.finish(pilot)
    assert job.done() == {"small": 1}
    assert job.finished_because() == "no remaining node has room for the rest"


def test_all_agents_are_lost(job: BatchJob) -> None:
    for number in range(20):
        job.add(f"{number}", "sleep 400")
    job.write()
    with job.begin() as pilot:
        until(lambda: len(running_attempts(job.token)) == 10)
        for node in job.nodes:
            kill(agent_of(pilot, node))
        job.finish(pilot, 1)
    assert job.finished_because() == "all nodes were lost"
    until(lambda: not marked(job.token))


def test_a_node_that_breaks_every_task_costs_none_of_them(job: BatchJob) -> None:
    # A task finds its node in the command line of its agent.
    (job.folder / "work.sh").write_text(
        "process=$$\n"
        "until grep -qzx tonnage.run.pilot.agent /proc/$process/cmdline; do\n"
        "    process=$(sed -n 's/^PPid:\\t//p' /proc/$process/status)\n"
        "done\n"
        "if grep -qzx n3 /proc/$process/cmdline; then exit 127; fi\n"
        "sleep 0.1\n"
    )
    for number in range(18):
        job.add(f"{number}", "sh work.sh", category="work")
    job.write()
    with job.begin() as pilot:
        said = job.finish(pilot)
    job.check()
    assert {entry.end.host for entry in job.ends() if entry.end.outcome is Outcome.FAILED} == {"n3"}
    assert "failed on node n3 (exit status 127), but not on other nodes: it is avoided for 1h" in said


def test_a_killed_carrier_is_started_again(job: BatchJob) -> None:
    """By a cluster that lost a node: what was done is not done again, and numbers of attempts go on behind."""
    job.add("failing", "exit 1")
    for number in range(20):
        first = FOREVER if number >= 5 else "true"
        job.add(f"{number}", f"{first}; echo {number} >> {number}.out", outputs=(f"{number}.out",))
    job.write()
    with job.begin() as pilot:
        until(lambda: len(job.done()) == 5 and job.outcomes("failing"))
        kill(pilot.pid)
    until(lambda: not marked(job.token))
    before = job.done()
    last = max(entry.start.attempt for entry in job.entries() if isinstance(entry, AttemptStarted))
    with (job.path / LEDGER).open("ab") as file:
        file.write(b'{"event": "started", "task": "19", "no')
    (job.folder / "go").touch()
    with job.begin() as pilot:
        job.finish(pilot)
    assert job.done() == Counter(f"{number}" for number in range(20))
    assert all((job.folder / f"{number}.out").read_text() == f"{number}\n" for number in range(20))
    began = [entry for entry in job.entries() if isinstance(entry, AttemptStarted)]
    again = [entry for entry in began if entry.start.attempt > last]
    assert not {entry.task for entry in again} & before.keys()
    assert len({entry.start.attempt for entry in began}) == len(began)
    assert job.outcomes("failing") == [Outcome.FAILED]
    assert job.finished_because() == "nothing left to run"


def test_a_pilot_without_srun_says_so_in_the_ledger(job: BatchJob, tmp_path: Path) -> None:
    job.add("one", "true")
    job.write()
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho n1\n")
    (tmp_path / "scontrol").chmod(0o755)
    environment = {**os.environ, "PATH": str(tmp_path), "SLURM_JOB_NODELIST": "n1"}
    pilot = [sys.executable, "-P", "-m", "tonnage.run.pilot.pilot_job", str(job.path), "--inside", Slurm.inside]
    ended = subprocess.run(pilot, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 1
    assert ended.stderr == ""
    assert job.finished_because() == "n1: the agent cannot be started: srun: No such file or directory"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--here", "n9"], "none of the nodes is in the job spec: n9"),
        (["--inside", Slurm.inside], "not inside a Slurm batch job"),
        ([], "expected --inside"),
    ],
)
def test_a_pilot_that_cannot_work_says_why(job: BatchJob, arguments: list[str], message: str) -> None:
    job.add("one", "true")
    job.write()
    words = [sys.executable, "-P", "-m", "tonnage.run.pilot.pilot_job", str(job.path), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 1
    assert message in ended.stdout
    assert ended.stderr == ""
