"""The stand-in for a pool does what HTCondor does, in HTCondor's formats: its own library reads them."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.htcondor.conftest import PoolWith
from tests.htcondor.pool import Pool
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs import htcondor_events
from tonnage.logs.log import Hints, Log, Skipped

MIB, KIB = 2**20, 2**10
SUBMITTED, STARTED, EVICTED, ENDED, GREW, ABORTED, HELD, RELEASED = 0, 1, 4, 5, 6, 9, 12, 13
POST, LOST, TRANSFER = 16, 24, 40
SIZES = "request_cpus = 1\nrequest_memory = 128 MB\nrequest_disk = 100 MB\n"
HUNGRY = """\
import sys, time
from pathlib import Path
held = bytearray(150 << 20)
while not Path("go").exists():
    time.sleep(0.01)
"""
WAITS = "until test -e go; do sleep 0.01; done"


class Work:
    """A folder with a DAG and one submit description that runs the macro `command` of a node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.describe("")

    def describe(self, more: str, name: str = "node.sub") -> None:
        """Write the submit description, with more in it."""
        (self.folder / name).write_text(
            "executable = /bin/sh\narguments = \"-c '$(command)'\"\nlog = jobs.log\noutput = $(JOB).out\n"
            f"error = $(JOB).err\n{SIZES}{more}\nqueue\n"
        )

    def dag(self, more: str = "", **commands: str) -> Path:
        """Write a DAG with a node for each command."""
        path = self.folder / "work.dag"
        lines = [f'JOB {name} node.sub\nVARS {name} command="{command}"\n' for name, command in commands.items()]
        path.write_text("".join(lines) + more)
        return path

    def events(self, name: str = "jobs.log") -> list[Any]:
        """Return the events of a log as HTCondor's own library reads them."""
        htcondor2 = pytest.importorskip("htcondor2")
        path = self.folder / name
        return list(htcondor2.JobEventLog(str(path)).events(0)) if path.exists() else []

    def kinds(self, name: str = "work.dag.nodes.log") -> list[int]:
        """Return the kinds of a log's events."""
        return [int(event.type) for event in self.events(name)]

    def attempts(self) -> list[Attempt]:
        """Return the attempts that Tonnage finds in the log of the jobs."""
        entries = list(htcondor_events.read(Log.open(self.folder / "jobs.log"), Hints()))
        assert not [entry for entry in entries if isinstance(entry, Skipped)]
        return [entry for entry in entries if isinstance(entry, Attempt)]

    def value(self) -> int:
        """Return what DAGMan returned, as the log of its life has it."""
        (value,) = (event["ReturnValue"] for event in self.events("work.dag.dagman.log") if event.type == ENDED)
        return int(value)

    def ran(self) -> list[str]:
        """Return the nodes whose jobs were started, in their order."""
        names: dict[int, str] = {}
        found = []
        for event in self.events("work.dag.nodes.log"):
            if event.type == SUBMITTED:
                names[event.cluster] = event["LogNotes"].removeprefix("DAG Node: ")
            elif event.type == STARTED:
                found.append(names[event.cluster])
        return found

    def let_go(self) -> None:
        """Let jobs end that wait."""
        (self.folder / "go").touch()

    def read(self, name: str) -> str:
        """Return the text of a file."""
        return (self.folder / name).read_text()


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def run(pool: Pool, dag: Path, *options: str) -> int:
    """Run a DAG to its end, and return the number of its DAGMan."""
    cluster = pool.submit(dag, *options)
    pool.wait_for(cluster)
    return cluster


# Event logs


def test_htcondor_reads_the_log_of_a_job(pool: Pool, work: Work) -> None:
    cluster = run(pool, work.dag(a="echo hello; exit 3"))
    submitted, started, *_, ended = work.events()
    assert (submitted.type, submitted["LogNotes"]) == (SUBMITTED, "DAG Node: a")
    assert started.type == STARTED
    assert started["SlotName"] == "slot1_1@machine1.example.org"
    assert dict(started["ExecuteProps"]) | {"CondorScratchDir": ""} == {
        "CondorScratchDir": "",
        "Cpus": 1,
        "Memory": 128,
        "Disk": 102400,
    }
    assert (ended.type, ended["ReturnValue"], ended["TerminatedNormally"]) == (ENDED, 3, True)
    assert (ended["RequestMemory"], ended["Memory"], ended["RequestDisk"]) == (128, 128, 102400)
    assert work.read("a.out") == "hello\n"
    assert work.value() == 1
    assert work.kinds("work.dag.dagman.log") == [SUBMITTED, STARTED, ENDED]
    assert {event.cluster for event in work.events("work.dag.dagman.log")} == {cluster}
    assert work.kinds() == [SUBMITTED, STARTED, ENDED]


def test_tonnage_reads_the_log_of_jobs(pool: Pool, work: Work) -> None:
    run(pool, work.dag(a="exit 0", b="kill -11 $$"))
    done, failed = sorted(work.attempts(), key=lambda one: str(one.task))
    assert (done.task, done.outcome, done.exit_status, done.host) == ("a", Outcome.DONE, 0, "machine1.example.org")
    assert (failed.task, failed.outcome, failed.signal) == ("b", Outcome.FAILED, 11)
    for attempt in (done, failed):
        assert attempt.requested == Amounts.of(cores=1, memory=128 * MIB, disk=100 * MIB)
        assert attempt.allocated == attempt.requested


def test_memory_is_rounded_up_and_measured(pool: Pool, work: Work) -> None:
    cluster = pool.submit(hungry(work, "request_memory = 200 MB\n"))
    pool.wait_until(lambda: any(size > 150 * KIB for size in sizes(work)), "the job does not grow")
    work.let_go()
    pool.wait_for(cluster)
    (attempt,) = work.attempts()
    assert (attempt.requested.memory, attempt.allocated.memory) == (200 * MIB, 256 * MIB)
    assert attempt.used.memory is not None
    assert 150 * MIB < attempt.used.memory < 190 * MIB
    assert sizes(work) == sorted(sizes(work))


def sizes(work: Work) -> list[int]:
    """Return the KiB to which jobs grew."""
    return [event["ResidentSetSize"] for event in work.events() if event.type == GREW]


def hungry(work: Work, more: str) -> Path:
    """Write a DAG with a node that takes 150 MiB of memory until it is let go."""
    (work.folder / "hungry.py").write_text(HUNGRY)
    work.describe(more)
    return work.dag(a=f"exec {sys.executable} hungry.py")


# DAGMan


def test_children_run_after_their_parents(pool: Pool, work: Work) -> None:
    arcs = "PARENT a CHILD b c\nPARENT b c CHILD d\n"
    commands = dict.fromkeys("abcd", "echo $(JOB) >> order")
    run(pool, work.dag(arcs, **commands))
    first, *middle, last = work.read("order").split()
    assert (first, sorted(middle), last) == ("a", ["b", "c"], "d")
    assert work.value() == 0


@pytest.mark.parametrize("options", [[], ["-maxjobs", "1"], ["-maxidle", "1"]])
def test_high_priorities_run_first(pool_with: PoolWith, work: Work, options: list[str]) -> None:
    pool = pool_with(machines=1, cpus=1)
    priorities = "PRIORITY b 5\nPRIORITY c 9\nPRIORITY d -1\nPARENT z CHILD a b c d\n"
    run(pool, work.dag(priorities, **dict.fromkeys("zabcd", "true")), *options)
    assert work.ran() == ["z", "c", "b", "a", "d"]


def test_a_machine_is_never_given_more_than_it_has(pool_with: PoolWith, work: Work) -> None:
    pool = pool_with(machines=2, cpus=3, memory=1024)
    work.describe("request_memory = 300 MB\nrequest_cpus = $(cores)\n")
    cores = "".join(f'VARS n{n} cores="{1 + n % 2}"\n' for n in range(12))
    cluster = pool.submit(work.dag(cores, **{f"n{n}": WAITS for n in range(12)}))
    pool.wait_until(lambda: len(pool.jobs("JobStatus == 2 && JobUniverse == 5")) == 4, "four jobs do not run")
    work.let_go()
    pool.wait_for(cluster)
    assert len(pool.taken) == 24
    assert max(one.cpus for one in pool.taken) == 3
    assert max(one.memory for one in pool.taken) == 768
    assert {one.machine for one in pool.taken} == {"machine1.example.org", "machine2.example.org"}


def test_a_throttle_of_a_category_holds(pool: Pool, work: Work) -> None:
    busy = "mkdir busy; sleep 0.05; rmdir busy"
    categories = "CATEGORY a few\nCATEGORY b few\nCATEGORY c few\nMAXJOBS few 1\n"
    run(pool, work.dag(categories, a=busy, b=busy, c=busy))
    assert work.value() == 0
    assert not any(work.read(f"{name}.err") for name in "abc")


def test_a_failed_node_is_tried_again(pool: Pool, work: Work) -> None:
    run(pool, work.dag("RETRY a 3\n", a="test $(RETRY) = 2"))
    assert [attempt.exit_status for attempt in work.attempts()] == [1, 1, 0]
    assert work.value() == 0


def test_a_node_is_not_tried_again_after_the_exit_status_that_says_so(pool: Pool, work: Work) -> None:
    run(pool, work.dag("RETRY a 3 UNLESS-EXIT 7\n", a="exit 7"))
    assert [attempt.exit_status for attempt in work.attempts()] == [7]
    assert work.value() == 1


def test_scripts_run_before_and_after_a_node_and_decide(pool: Pool, work: Work) -> None:
    script = work.folder / "said.sh"
    script.write_text('#!/bin/sh\necho "$@" >> said\ntest "$1" = before || test "$3" = 1\n')
    script.chmod(0o755)
    scripts = "SCRIPT PRE a said.sh before $JOB\nSCRIPT POST a said.sh after $JOB $RETRY $RETURN $MAX_RETRIES $JOBID\n"
    run(pool, work.dag(f"{scripts}RETRY a 4\n", a="exit 9"))
    first, second = [event.cluster for event in work.events() if event.type == SUBMITTED]
    assert work.read("said").splitlines() == [
        "before a",
        f"after a 0 9 4 {first}.0",
        "before a",
        f"after a 1 9 4 {second}.0",
    ]
    assert work.kinds() == [SUBMITTED, STARTED, ENDED, POST] * 2
    assert [event["ReturnValue"] for event in work.events("work.dag.nodes.log") if event.type == POST] == [1, 0]
    assert work.value() == 0


def test_the_final_node_runs_at_the_end_and_decides(pool: Pool, work: Work) -> None:
    final = 'FINAL last node.sub\nVARS last command="cat made"\nPARENT a CHILD b\n'
    run(pool, work.dag(final, a="echo a > made; false", b="echo b > made"))
    assert work.ran() == ["a", "last"]
    assert work.read("last.out") == "a\n"
    assert work.value() == 0


def test_a_dag_with_a_failure_is_rescued(pool: Pool, work: Work) -> None:
    dag = work.dag("PARENT a CHILD b\nRETRY b 1\n", a="echo a >> order", b="test -e allowed", c="true")
    run(pool, dag)
    assert work.value() == 1
    commands = [line for line in work.read("work.dag.rescue001").splitlines() if line and not line.startswith("#")]
    assert commands == ["DONE a", "RETRY b 1", "DONE c"]
    (work.folder / "allowed").touch()
    run(pool, dag)
    assert work.ran() == ["b"]  # DAGMan begins a new log
    assert [event["ReturnValue"] for event in work.events("work.dag.dagman.log") if event.type == ENDED] == [1, 0]
    assert work.read("order") == "a\n"


def test_a_dag_that_was_submitted_before_is_refused_unless_forced(pool: Pool, work: Work) -> None:
    dag = work.dag(a="true")
    run(pool, dag)
    again = pool.run("condor_submit_dag", dag.name, folder=dag.parent)
    assert again.returncode == 1
    assert 'ERROR: "work.dag.condor.sub" already exists.' in again.stderr
    run(pool, dag, "-f")
    assert work.value() == 0
    run(pool, dag, "-update_submit")


def test_forcing_ignores_a_rescue(pool: Pool, work: Work) -> None:
    dag = work.dag(a="true", b="false")
    run(pool, dag)
    run(pool, dag, "-force")
    assert sorted(work.ran()) == ["a", "b"]
    assert (work.folder / "work.dag.rescue001.old").exists()


def test_a_halted_dag_finishes_what_runs(pool: Pool, work: Work) -> None:
    cluster = pool.submit(
        work.dag("PARENT a CHILD b\n", a="touch begun; until test -e go; do sleep 0.01; done", b="true")
    )
    pool.wait_for_node("a")
    (work.folder / "work.dag.halt").touch()
    work.let_go()
    pool.wait_for(cluster)
    assert work.ran() == ["a"]
    assert (work.value(), "DONE a" in work.read("work.dag.rescue001")) == (1, True)


def test_a_line_that_dagman_does_not_know_ends_it(pool: Pool, work: Work) -> None:
    run(pool, work.dag("PARENT a CHILD nobody\n", a="true"))
    assert (work.value(), work.kinds()) == (1, [])


def test_a_description_that_cannot_be_submitted_fails_its_node(pool: Pool, work: Work) -> None:
    (work.folder / "odd.sub").write_text("this is none\nqueue\n")
    run(pool, work.dag("JOB b odd.sub\n", a="true"))
    assert (work.value(), work.ran()) == (1, ["a"])


# Descriptions


def test_macros_are_those_of_htcondor(pool: Pool, work: Work) -> None:
    (work.folder / "macros.sub").write_text(
        "if defined extra\n  said = given\nelse\n  said = nothing\nendif\nnumbers = 10, 20\n"
        "executable = /usr/bin/printf\nlog = jobs.log\noutput = $(JOB).$(Cluster).$(Process).out\n"
        "arguments = \"'%s\\n' '$(words)' $(said) '$CHOICE(RETRY, numbers)' '$(DOLLAR)(x)' $(late)\"\n"
        "late = 1\nqueue\n"
    )
    nodes = "JOB a macros.sub\nJOB b macros.sub\n"
    variables = 'VARS a words="it\'\'s \\"\\"two\\"\\" \\\\ words" extra="1"\nVARS b APPEND extra="1" late="2"\n'
    cluster = run(pool, work.dag(nodes + variables))
    assert work.read(f"a.{cluster + 1}.0.out").splitlines() == ['it\'s "two" \\ words', "given", "10", "$(x)", "1"]
    assert work.read(f"b.{cluster + 2}.0.out").splitlines() == ["", "nothing", "10", "$(x)", "2"]


def test_a_job_finds_little_in_its_environment_but_what_its_description_says(pool: Pool, work: Work) -> None:
    work.describe("environment = \"one='a b' two=''''\"\ninitialdir = below\n")
    (work.folder / "below").mkdir()
    command = "env; pwd; cat $_CONDOR_JOB_AD; cat $_CONDOR_MACHINE_AD; test -d $_CONDOR_SCRATCH_DIR"
    run(pool, work.dag(a=command.replace("$", "$(DOLLAR)")))
    assert work.value() == 0
    lines = work.read("below/a.out").splitlines()
    assert {"one=a b", "two='", 'DAGNodeName = "a"', "Memory = 128", str(work.folder / "below")} <= set(lines)
    assert not any(line.startswith(("HOME=", "PYTHON")) for line in lines)


def test_descriptions_may_stand_in_the_dag_itself(pool: Pool, work: Work) -> None:
    inline = "JOB a {\n  executable = /usr/bin/touch\n  arguments = $(JOB)\n}\n"
    shared = "SUBMIT-DESCRIPTION both @=end\n  executable = /usr/bin/touch\n  arguments = $(JOB)\n@end\n"
    run(pool, work.dag(f"{inline}{shared}JOB b both\nJOB c both DONE\n"))
    assert [(work.folder / name).exists() for name in "abc"] == [True, True, False]


# File transfer

TRAVELS = "should_transfer_files = YES\n"


@pytest.mark.parametrize("keeps", [True, False])
def test_files_travel_with_a_job(pool: Pool, work: Work, keeps: bool) -> None:
    """Where relative paths are kept, slashes at the ends of names do not matter: so says condor_submit's manual."""
    for name in ("in/deep/a", "all/b", "c"):
        (work.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (work.folder / name).write_text(name)
    work.describe(
        f"{TRAVELS}preserve_relative_paths = {keeps}\ntransfer_input_files = in/deep/a, all/, c\n"
        'transfer_output_files = made/, kept/x, moved\ntransfer_output_remaps = "moved = elsewhere/named"\n'
    )
    inputs = "in/deep/a all/b c" if keeps else "a b c"
    work.dag(a=f"cat {inputs}; mkdir -p made/deep kept; touch made/deep/m kept/x; echo > moved; echo > left; pwd")
    run(pool, work.folder / "work.dag")
    assert work.value() == 0
    assert work.read("a.out").startswith("in/deep/aall/bc/tmp/")
    arrived = {"made/deep/m", "kept/x"} if keeps else {"deep/m", "x"}
    for name in ("made/deep/m", "kept/x", "deep/m", "x", "elsewhere/named", "left"):
        assert (work.folder / name).exists() == (name in arrived | {"elsewhere/named"}), name
    assert [event["Type"] for event in work.events() if event.type == TRANSFER] == [2, 3, 5, 6]


def test_new_files_travel_back_where_none_are_listed(pool: Pool, work: Work) -> None:
    (work.folder / "given").write_text("old")
    work.describe(f"{TRAVELS}transfer_input_files = given\n")
    run(pool, work.dag(a="echo > made; mkdir folder; echo > folder/x; echo new > given"))
    assert (work.folder / "made").exists()
    assert not (work.folder / "folder").exists()


@pytest.mark.parametrize(
    ("setting", "code"), [("transfer_input_files = none", 13), ("transfer_output_files = none", 12)]
)
def test_a_job_whose_file_is_missing_is_held(pool: Pool, work: Work, setting: str, code: int) -> None:
    work.describe(f"{TRAVELS}{setting}\n")
    pool.submit(work.dag(a="true"))
    ad = pool.wait_for_node("a", status=5)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (code, 2)
    assert "none: (errno 2) No such file or directory" in ad["HoldReason"]
    assert work.events("work.dag.nodes.log")[-1]["HoldReasonCode"] == code


def test_a_program_that_does_not_exist_is_held(pool: Pool, work: Work) -> None:
    (work.folder / "gone.sub").write_text("executable = gone\nlog = jobs.log\nqueue\n")
    pool.submit(work.dag("JOB a gone.sub\n"))
    assert pool.wait_for_node("a", status=5)["HoldReasonCode"] == 6


# Sizes


def test_a_job_climbs_its_ladder(pool_with: PoolWith, work: Work) -> None:
    pool = pool_with(quantum=1)
    cluster = pool.submit(hungry(work, "request_memory = 50 MB\nretry_request_memory = 90 MB, 300 MB\n"))
    pool.wait_until(lambda: pool.jobs("RequestMemory == 300 && JobStatus == 2"), "the job does not climb")
    work.let_go()
    pool.wait_for(cluster)
    first, second, third = work.attempts()
    assert [one.requested.memory for one in (first, second, third)] == [50 * MIB, 90 * MIB, 300 * MIB]
    assert [one.exhausted for one in (first, second, third)] == [Resource.MEMORY, Resource.MEMORY, None]
    assert third.outcome is Outcome.DONE
    evicted = [event for event in work.events() if event.type == EVICTED]
    assert [(event["ReasonCode"], event["ReasonSubCode"]) for event in evicted] == [(34, 102)] * 2
    assert "over cgroup memory limit of 50 megabytes" in evicted[0]["Reason"]
    assert work.kinds() == [SUBMITTED, STARTED, EVICTED, STARTED, EVICTED, STARTED, ENDED]


def test_a_job_at_the_end_of_its_ladder_is_held(pool_with: PoolWith, work: Work) -> None:
    pool = pool_with(quantum=1)
    pool.submit(hungry(work, "request_memory = 50 MB\nretry_request_memory = 90 MB\n"))
    ad = pool.wait_for_node("a", status=5)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"], ad["RequestMemory"]) == (34, 102, 90)
    assert work.kinds() == [SUBMITTED, STARTED, EVICTED, STARTED, EVICTED, HELD]


def test_an_old_version_does_not_know_ladders(pool_with: PoolWith, work: Work) -> None:
    pool = pool_with(quantum=1, version="23.0.1")
    policy = "periodic_remove = JobStatus == 5 && HoldReasonCode == 34 && HoldReasonSubCode == 102\n"
    run(pool, hungry(work, f"request_memory = 50 MB\nretry_request_memory = 900 MB\n{policy}"))
    assert work.kinds() == [SUBMITTED, STARTED, EVICTED, HELD, ABORTED]
    (attempt,) = work.attempts()
    assert (attempt.exhausted, work.value()) == (Resource.MEMORY, 1)
    assert "$CondorVersion: 23.0.1 " in pool.run("condor_version").stdout


def test_a_pool_that_does_not_enforce_lets_jobs_take_more(pool_with: PoolWith, work: Work) -> None:
    pool = pool_with(quantum=1, enforces=False)
    cluster = pool.submit(hungry(work, "request_memory = 50 MB\n"))
    pool.wait_until(lambda: any(size > 150 * KIB for size in sizes(work)), "the job does not grow")
    work.let_go()
    pool.wait_for(cluster)
    assert work.value() == 0


def test_a_pool_that_preempts_evicts_what_took_too_much_again_and_again(pool_with: PoolWith, work: Work) -> None:
    """As a real one does: the job's ad keeps what an earlier execution used."""
    pool = pool_with(quantum=1, preempts=True)
    pool.submit(hungry(work, "request_memory = 50 MB\nretry_request_memory = 900 MB\n"))
    pool.wait_until(lambda: work.kinds().count(EVICTED) > 1, "the job is not evicted again")
    evicted = [event for event in work.events() if event.type == EVICTED]
    assert {event["ReasonCode"] for event in evicted} == {1011}
    entries = htcondor_events.read(Log.open(work.folder / "jobs.log"), Hints())
    assert {entry.exhausted for entry in entries if isinstance(entry, Attempt)} == {Resource.MEMORY}


def test_disk_has_a_ladder_too(pool: Pool, work: Work) -> None:
    work.describe(f"{TRAVELS}request_disk = 1 MB\nretry_request_disk = 20 MB\n")
    go = work.folder / "go"
    cluster = pool.submit(work.dag(a=f"head -c 5000000 /dev/zero > big; until test -e {go}; do sleep 0.01; done"))
    pool.wait_until(lambda: pool.jobs("RequestDisk == 20480 && JobStatus == 2"), "the job does not climb")
    work.let_go()
    pool.wait_for(cluster)
    first, second = work.attempts()
    assert (first.exhausted, second.outcome) == (Resource.DISK, Outcome.DONE)
    assert (first.requested.disk, second.requested.disk) == (MIB, 20 * MIB)
    assert second.used.disk is not None
    assert second.used.disk >= 5000000


# Faults


def test_an_evicted_job_runs_again(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag(a=WAITS))
    pool.evict("a")
    work.let_go()
    pool.wait_for(cluster)
    first, second = work.attempts()
    assert (first.outcome, first.number, second.outcome, second.number) == (Outcome.PREEMPTED, 1, Outcome.DONE, 2)
    assert first.requested == second.requested


def test_a_job_whose_machine_is_lost_runs_again(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag(a=WAITS))
    pool.lose_machine("a")
    work.let_go()
    pool.wait_for(cluster)
    assert [one.outcome for one in work.attempts()] == [Outcome.LOST, Outcome.DONE]
    assert LOST in work.kinds()


def test_a_held_job_is_released(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag(a=WAITS))
    pool.hold("a", 21, 102, "memory usage exceeded request_memory")
    work.let_go()
    pool.release("a")
    pool.wait_for(cluster)
    assert [one.exhausted for one in work.attempts()] == [Resource.MEMORY, None]
    assert work.kinds() == [SUBMITTED, STARTED, EVICTED, HELD, RELEASED, STARTED, ENDED]


def test_a_job_that_is_removed_fails_its_node(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag(a=WAITS))
    job = pool.wait_for_node("a")["ClusterId"]
    said = pool.run("condor_rm", f"{job}.0")
    assert (said.returncode, said.stdout) == (0, f"Job {job}.0 marked for removal\n")
    pool.wait_for(cluster)
    assert (work.kinds(), work.value()) == ([SUBMITTED, STARTED, EVICTED, ABORTED], 1)
    assert [one.outcome for one in work.attempts()] == [Outcome.CANCELLED]


def test_a_dag_that_is_removed_is_rescued(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag("PARENT a CHILD b\nRETRY b 2\n", a="true", b=WAITS))
    pool.wait_for_node("b")
    said = pool.run("condor_rm", str(cluster))
    assert said.stdout == f"All jobs in cluster {cluster} have been marked for removal\n"
    pool.wait_for(cluster)
    pool.wait_until(lambda: not pool.jobs(), "the node's job stays")
    assert work.kinds("work.dag.dagman.log") == [SUBMITTED, STARTED, EVICTED, ABORTED]
    assert "DONE a\nRETRY b 2\n" in work.read("work.dag.rescue001")
    assert not (work.folder / "work.dag.lock").exists()
    assert pool.run("condor_rm", str(cluster)).returncode == 1


def test_a_killed_dagman_recovers(pool: Pool, work: Work) -> None:
    commands = {"a": "echo a >> order", "b": WAITS, "c": "echo c >> order"}
    cluster = pool.submit(work.dag("PARENT a CHILD b\nPARENT b CHILD c\n", **commands))
    pool.wait_for_node("b")
    pool.kill_dagman()
    work.let_go()
    pool.wait_for(cluster)
    assert work.ran() == ["a", "b", "c"]
    assert work.kinds("work.dag.dagman.log") == [SUBMITTED, STARTED, EVICTED, STARTED, ENDED]
    assert work.value() == 0


def test_a_dagman_that_nobody_knows_any_more_is_submitted_again_and_recovers(pool: Pool, work: Work) -> None:
    dag = work.dag("PARENT a CHILD b\n", a=WAITS, b="true")
    pool.submit(dag)
    pool.wait_for_node("a")
    pool.kill_dagman(restarts=False)
    pool.wait_until(lambda: not pool.jobs("JobUniverse == 7"), "DAGMan stays in the queue")
    assert (work.folder / "work.dag.lock").exists()
    work.let_go()
    pool.wait_until(lambda: ENDED in work.kinds(), "the job does not end")
    run(pool, dag, "-update_submit")
    assert work.ran() == ["a", "b"]


def test_a_dagman_may_be_told_to_recover(pool: Pool, work: Work) -> None:
    dag = work.dag(a="echo a >> order")
    run(pool, dag)
    run(pool, dag, "-update_submit", "-DoRecovery")
    assert work.read("order") == "a\n"


def test_a_dagman_on_hold_begins_nothing_until_it_is_released(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag("PARENT a CHILD b\n", a=WAITS, b="true"))
    pool.wait_for_node("a")
    assert pool.run("condor_hold", str(cluster)).returncode == 0
    work.let_go()
    pool.wait_until(lambda: ENDED in work.kinds(), "the job does not end")
    (ad,) = pool.jobs()
    assert (ad["JobStatus"], ad["HoldReasonCode"]) == (5, 1)
    assert pool.run("condor_release", str(cluster)).returncode == 0
    pool.wait_for(cluster)
    assert (work.ran(), work.value()) == (["a", "b"], 0)


def test_a_schedd_that_does_not_answer_is_said_to_be_silent(pool: Pool, work: Work) -> None:
    dag = work.dag(a=WAITS)
    cluster = pool.submit(dag)
    pool.wait_for_node("a")
    pool.stop_answering()
    for words in (["condor_q", "-json"], ["condor_rm", str(cluster)], ["condor_status", "-json"]):
        said = pool.run(*words)
        assert (said.returncode, "Failed to connect to <127.0.0.1" in said.stderr, said.stdout) == (1, True, "")
    said = pool.run("condor_submit_dag", "-update_submit", dag.name, folder=dag.parent)
    assert (said.returncode, "ERROR: Failed to connect to local queue manager" in said.stderr) == (1, True)
    assert "submitted to cluster" not in said.stdout
    work.let_go()
    pool.wait_for(cluster)
    pool.answer_again()
    assert pool.run("condor_q", "-json").returncode == 0
    assert work.value() == 0


# Programs


def test_the_queue_is_asked_with_a_constraint(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag(a=WAITS, b=WAITS), "-batch-name", "mine")
    for node in "ab":
        pool.wait_for_node(node)
    words = ["condor_q", "-json", "-constraint", 'JobBatchName == "mine" && JobUniverse == 5 && JobStatus == 2']
    said = json.loads(pool.run(*words, "-attributes", "DAGNodeName,DAGManJobId,RequestMemory,Nothing").stdout)
    assert said == [{"DAGManJobId": cluster, "DAGNodeName": name, "RequestMemory": 128} for name in "ab"]
    assert pool.run("condor_q", "-json", "-constraint", 'JobBatchName == "other"').stdout == ""
    assert pool.run("condor_q", "-json", "-constraint", "1 +").returncode == 1
    assert [call.program for call in pool.calls] == ["condor_submit_dag", *["condor_q"] * 3]
    assert pool.calls[1].words[2] == words[3]


def test_the_machines_are_listed(pool_with: PoolWith) -> None:
    pool = pool_with(machines=1, cpus=2, memory=1000, disk=5000)
    words = ["condor_status", "-json", "-constraint", 'SlotType =!= "Dynamic"']
    said = pool.run(*words, "-attributes", "Machine,TotalSlotCpus,TotalSlotMemory,TotalSlotDisk,PartitionableSlot")
    assert json.loads(said.stdout) == [
        {
            "Machine": "machine1.example.org",
            "PartitionableSlot": True,
            "TotalSlotCpus": 2,
            "TotalSlotMemory": 1000,
            "TotalSlotDisk": 5000,
        }
    ]


def test_the_end_of_a_pool_is_the_end_of_its_processes(tmp_path: Path, work: Work) -> None:
    mark = f": {tmp_path}"

    def left() -> list[bytes]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                found.append((process / "cmdline").read_bytes())
        return [one for one in found if str(tmp_path).encode() in one]

    with Pool(tmp_path / "pool") as pool:
        pool.submit(work.dag(a=f"setsid sh -c ''sleep 1000; {mark}'' & wait"))
        pool.wait_for_node("a")
        pool.wait_until(lambda: sum(mark.encode() in one for one in left()) >= 2, "the job does not start")
    assert left() == []


def test_an_answer_may_be_lost_although_the_dag_was_submitted(pool: Pool, work: Work) -> None:
    dag = work.dag(a="true")
    pool.lose_the_next_answer()
    said = pool.run("condor_submit_dag", "-batch-name", "mine", dag.name, folder=dag.parent)
    assert (said.returncode, "Failed to connect" in said.stderr) == (1, True)
    pool.wait_until(lambda: work.kinds("work.dag.dagman.log")[-1:] == [ENDED], "DAGMan does not end")


def test_a_removed_dag_runs_its_final_node(pool: Pool, work: Work) -> None:
    cluster = pool.submit(work.dag('FINAL last node.sub\nVARS last command="true"\n', a=WAITS))
    pool.wait_for_node("a")
    pool.run("condor_rm", str(cluster))
    pool.wait_for(cluster)
    assert work.ran() == ["a", "last"]


def test_other_outputs_travel_although_one_is_missing(pool: Pool, work: Work) -> None:
    work.describe(f"{TRAVELS}transfer_output_files = none, made\n")
    pool.submit(work.dag(a="touch made; exit 1"))
    pool.wait_for_node("a", status=5)
    assert (work.folder / "made").exists()
