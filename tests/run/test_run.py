"""``tonnage run``, ``status`` and ``stop``: what they promise, through the command line and the journal."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, mkdtemp

import pytest

from tests.deadlines import HANGS
from tests.run.cli_runs import Place, kill, marked
from tests.waiting import until
from tonnage.archive import Archive
from tonnage.jobs import Outcome
from tonnage.run.folders import Lock
from tonnage.run.journal import Reader
from tonnage.watch.proc import Process, children, read

ROOT = os.geteuid() == 0
FOREVER = "until [ -e go ]; do sleep 0.02; done"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "w").mkdir()
    return Place(tmp_path / "w")


def rule(outputs: str, inputs: str, command: str) -> str:
    return f"{outputs}: {inputs}\n\t{command}\n"


def long_ago(path: Path) -> None:
    """Let a file be older than anything that is written now."""
    os.utime(path, (1e9, 1e9))


# Which workflows run


def test_dependencies_of_a_random_makeflow_are_never_violated(place: Place) -> None:
    random = Random(3)
    text = ""
    for child in range(40):
        parents = [f"f{parent}" for parent in range(child) if random.random() < 0.1]
        text += rule(f"f{child}", " ".join(parents), f"cat /dev/null {' '.join(parents)} && echo {child} > f{child}")
    place.write("w.makeflow", text)
    said = place.call("run", "w.makeflow", "--json")
    assert said.status == 0, said.stderr
    assert (said.facts["done"], said.facts["failed"]) == (40, 0)
    place.check("w.makeflow")


def test_dagman_runs_with_its_final_node_last_and_whatever_happened(place: Place) -> None:
    for name in "abcz":
        place.write(f"{name}.sub", f"executable = /bin/sh\narguments = {name}.sh\nqueue\n")
        place.write(f"{name}.sh", f"test ! -e bad-{name} && echo {name} >> order\n")
    lines = (
        "JOB A a.sub\nJOB N a.sub NOOP\nJOB B b.sub\nJOB C c.sub\nFINAL Z z.sub\nPARENT A CHILD N\nPARENT N CHILD B C"
    )
    place.write("w.dag", lines + "\nSERVICE S a.sub\n")
    place.write("bad-b", "")
    said = place.call("run", "w.dag", "--fail-fast", "--machine", "cores=1,memory=1GB")
    assert said.status == 1
    assert 'the service node "S" is not run' in said.stderr
    ran = (place.folder / "order").read_text().split()
    assert (ran[0], ran[-1]) == ("a", "z")
    assert "b" not in ran
    (place.folder / "bad-b").unlink()
    again = place.call("run", "w.dag", "--json")
    assert (again.status, again.facts["done"], again.facts["tasks"]) == (0, 5, 5)
    assert (place.folder / "order").read_text().split()[-1] == "z"
    assert place.outcomes()["Z"] == ["done", "done"]
    assert place.outcomes()["A"] == ["done"]
    assert json.loads(place.call("status", "--json").stdout)["finished"]


def test_wfformat_with_commands_runs(place: Place) -> None:
    tasks = [
        {"name": "one", "id": "1", "parents": [], "children": ["2"], "inputFiles": [], "outputFiles": []},
        {"name": "two", "id": "2", "parents": ["1"], "children": [], "inputFiles": [], "outputFiles": []},
    ]
    ran = [
        {"id": "1", "runtimeInSeconds": 1, "command": {"program": "touch", "arguments": ["one"]}},
        {"id": "2", "runtimeInSeconds": 1, "command": {"program": "cp", "arguments": ["one", "two"]}},
    ]
    facts = {"makespanInSeconds": 2, "executedAt": "2026-01-01T00:00:00Z", "tasks": ran}
    workflow = {"specification": {"tasks": tasks, "files": []}, "execution": facts}
    place.write("w.json", json.dumps({"name": "w", "schemaVersion": "1.5", "workflow": workflow}))
    said = place.call("run", "w.json")
    assert said.status == 0, said.stderr
    assert (place.folder / "two").exists()


def test_a_workflow_that_was_made_in_python_runs_once_it_is_a_file(place: Place) -> None:
    script = (
        "from tonnage.workflow import Task, Workflow, write\n"
        "tasks = [Task('a', 'echo 1 > x', outputs=('x',)), Task('b', 'cp x y', inputs=('x',), outputs=('y',))]\n"
        "write(Workflow.build('made', tasks, ([0], [1])), 'made.dag')\n"
    )
    place.write("make.py", script)
    subprocess.run([*place.words("run")[:1], "make.py"], cwd=place.folder, check=True)
    said = place.call("run", "made.dag")
    assert said.status == 0, said.stderr
    assert (place.folder / "y").read_text() == "1\n"


def test_a_workflow_from_standard_input_runs_in_the_current_folder(place: Place) -> None:
    assert place.call("run", "-", input="touch here\nfalse\n").status == 1
    assert (place.folder / "here").exists()
    assert not Path("/dev/.tonnage").exists()
    said = place.call("run", "-", input="touch here\nfalse\n")
    assert "resumes: 1 of 2 tasks done" in said.stderr
    assert place.call("run", "-", input="touch another\n").status == 0
    assert len(place.runs()) == 2


def test_a_workflow_in_shared_memory_is_a_file_as_any_other() -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm in which to write")
    with TemporaryDirectory(dir="/dev/shm") as folder:
        place = Place(Path(folder, "w"))
        place.folder.mkdir()
        place.write("scratch.txt", "touch here\n")
        assert place.call("run", "scratch.txt").status == 0
        assert [run.id.partition("-")[0] for run in place.runs()] == ["scratch"]


def test_odd_names_are_no_trouble(place: Place, tmp_path: Path) -> None:
    odd = Place(tmp_path / "a b%20?#\n'ü")
    odd.folder.mkdir()
    names = ["with space", "new\nline", "a/b/../c", "ünïcödé", "x" * 3000, "-q", "\x1b[31m", "%s{}", "'\"`$(x)"]
    tasks = [{"name": name, "id": name, "parents": [], "children": []} for name in names]
    ran = [{"id": name, "command": {"program": "echo", "arguments": ["hello"]}} for name in names]
    facts = {"makespanInSeconds": 2, "executedAt": "2026-01-01T00:00:00Z", "tasks": ran}
    workflow = {"specification": {"tasks": tasks}, "execution": facts}
    odd.write("w ü.json", json.dumps({"name": "w", "schemaVersion": "1.5", "workflow": workflow}))
    said = odd.call("run", "w ü.json")
    assert said.status == 0, said.stderr
    rows = odd.rows()
    assert {row.task for row in rows} == set(names)
    for row in rows:
        assert row.stdout is not None
        assert Path(row.stdout).read_text() == "hello\n"
    odd.check("w ü.json")
    assert odd.call("status").status == 0


# How tasks are run


def test_an_attempt_has_its_output_its_environment_and_its_limits(place: Place) -> None:
    text = (
        ".MAKEFLOW MEMORY 100\n.MAKEFLOW CORES 2\n.MAKEFLOW WALL_TIME 1000000\na:\n\tenv > a; echo out; echo err >&2\n"
    )
    place.write("w.makeflow", text)
    assert place.call("run", "w.makeflow", "--size", "declared", "--durable").status == 0
    (row,) = place.rows()
    assert (Path(row.stdout or "").read_text(), Path(row.stderr or "").read_text()) == ("out\n", "err\n")
    found = dict(line.partition("=")[::2] for line in (place.folder / "a").read_text().splitlines())
    assert found["TONNAGE_CORES"] == "2"
    assert int(found["TONNAGE_MEMORY"]) == row.allocated.memory
    assert found["TONNAGE_ATTEMPT"].endswith(f":{row.attempt}")


def test_a_time_limit_ends_a_task_and_memory_beyond_its_share_too(place: Place) -> None:
    hungry = "python3 -c 'x = bytearray(200 << 20); import time; time.sleep(0.3)'"
    text = "CATEGORY=slow\nWALL_TIME=1\n" + rule("slow", "", "sleep 30; touch slow")
    text += "CATEGORY=hungry\nMEMORY=20\n" + rule("hungry", "", f"{hungry} && touch hungry")
    place.write("w.makeflow", text)
    said = place.call("run", "w.makeflow", "--enforce", "strict")
    assert said.status == 1
    found = place.outcomes()
    assert set(found["slow"]) == {"exhausted"}
    assert (found["hungry"][0], found["hungry"][-1]) == ("exhausted", "done")
    place.check("w.makeflow", all_done=False)


def test_in_a_sandbox_a_task_has_its_inputs_and_only_its_outputs_come_out(place: Place) -> None:
    place.write("data/in", "1")
    place.write("tool.sh", "#!/bin/sh\ncat data/in > deep/out; echo > litter").chmod(0o755)
    text = rule("deep/out", "data/in", "./tool.sh") + rule("bad", "deep/out", "touch bad litter2 && false")
    place.write("w.makeflow", text)
    assert place.call("run", "w.makeflow", "--sandbox").status == 1
    assert (place.folder / "deep/out").read_text() == "1"
    for name in ("bad", "litter", "litter2"):
        assert not (place.folder / name).exists()
    run = place.runs()[0]
    assert sorted(path.name for path in run.partial.glob("*/*")) == ["bad", "deep", "litter2"]
    assert list(run.sandboxes.iterdir()) == []


# What fails


def test_only_what_a_failed_attempt_has_written_itself_is_moved_away(place: Place) -> None:
    long_ago(place.write("older", "mine"))
    text = rule("half", "", "echo half > half && false") + rule("older", "", "false") + rule("kept", "half", "true")
    place.write("w.makeflow", text + rule("lazy", "", "true"))
    said = place.call("run", "w.makeflow", "--retries", "1")
    assert said.status == 1
    assert re.search("lazy failed after .*: succeeded, but did not write lazy", said.stderr)
    assert "not run, because they depend on failed tasks: 1 task" in said.stdout
    assert (place.folder / "older").read_text() == "mine"
    assert not (place.folder / "half").exists()
    assert sorted(path.name for path in place.runs()[0].partial.glob("*/*")) == ["half", "half"]
    assert place.outcomes() == {name: ["failed", "failed"] for name in ("half", "older", "lazy")}
    place.check("w.makeflow", all_done=False)


def test_what_a_lost_attempt_did_not_write_stays(place: Place) -> None:
    long_ago(place.write("older", "mine"))
    place.write("w.makeflow", rule("older", "", f"touch begun; {FOREVER}"))
    with place.begin("run", "w.makeflow") as engine:
        until((place.folder / "begun").exists)
        (fork_server,) = children(engine.pid)
        for minder in children(fork_server):
            kill(minder)
        until(lambda: len(place.rows()) == 2)
        place.write("go", "")
        assert engine.wait(HANGS) == 0
    assert (place.folder / "older").read_text() == "mine"
    assert place.outcomes() == {"older": ["lost", "done"]}
    first, second = place.rows()
    assert first.allocated == second.allocated


def test_no_attempt_runs_beside_the_next_although_minder_and_fork_server_are_killed(place: Place) -> None:
    place.write("w.makeflow", rule("a", "", f"touch begun; {FOREVER}; touch a"))
    with place.begin("run", "w.makeflow") as engine:
        until((place.folder / "begun").exists)
        (fork_server,) = children(engine.pid)
        for pid in (*children(fork_server), fork_server):
            os.kill(pid, signal.SIGSTOP)
        for pid in (fork_server, *children(fork_server)):
            kill(pid)
        until(lambda: len(place.rows()) == 2)
        mark = f":{place.rows()[0].attempt}\0".encode()
        alive = [pid for pid in marked(token_of(place)) if mark in Path(f"/proc/{pid}/environ").read_bytes()]
        assert alive == []
        place.write("go", "")
        assert engine.wait(HANGS) == 0


def token_of(place: Place) -> str:
    with closing(Reader(place.runs()[0].journal)) as reader:
        return reader.facts()["token"]


def test_what_can_be_foreseen_is_said_before_and_the_rest_goes_on(place: Place) -> None:
    place.write("locked", "").chmod(0)
    text = rule("a", "nowhere", "touch a") + rule("b", "a", "touch b") + rule("c", "", "no-such-program c")
    text += rule("d", "", "./no-such-script") + rule("e", "locked", "cat locked > e") + rule("f", "", "touch f")
    place.write("w.makeflow", text)
    said = place.call("run", "w.makeflow", "--retries", "3")
    assert said.status == 1
    assert 'that no task writes, and will fail (first: "nowhere" of "a")' in said.stderr
    warning = '2 tasks need programs that are not installed here, and will fail (first: "no-such-program" of "c")'
    assert warning in said.stderr
    assert 'its input "nowhere" does not exist' in said.stderr
    assert (place.folder / "f").exists()
    found = place.outcomes()
    assert found["a"] == found["c"] == found["d"] == ["failed"]
    assert "b" not in found
    status = place.call("status").stdout
    assert ': could not be started: its input "nowhere" does not exist' in status
    place.write("nowhere", "")
    place.call("run", "w.makeflow")
    assert (place.folder / "b").exists()


def test_thousands_of_tasks_that_cannot_be_prepared_are_each_said_to_fail(place: Place) -> None:
    count = 1500  # deeper than any stack
    place.write("w.makeflow", "".join(rule(f"o{number}", f"nowhere{number}", "true") for number in range(count)))
    said = place.call("run", "w.makeflow", "--json", "--quiet", "--machine", "cores=1,memory=1GB,disk=1GB")
    assert said.status == 1, said.stderr
    assert said.facts["failed"] == count


def test_a_task_that_requests_more_than_the_machine_has_is_an_error_before_the_start(place: Place) -> None:
    place.write(
        "w.makeflow",
        "CATEGORY=a\nCORES=64\n" + rule("big", "", "touch big") + "CATEGORY=b\n" + rule("small", "", "touch small"),
    )
    said = place.call("run", "w.makeflow")
    assert said.status == 2
    assert 'task "big" requests 64 of cores, but the most that it can get is 4' in said.stderr
    assert not (place.folder / "small").exists()
    assert place.runs() == []
    assert place.call("run", "w.makeflow", "--override-requests=a").status == 0
    assert (place.folder / "big").exists()


def simulate(place: Place, name: str, megabytes: int, command: str, *options: str) -> dict[str, list[str]]:
    """Run three tasks of the category "simulate", and return why each was given its memory and time."""
    lines = [f"{command} && python3 -c 'x = bytearray({megabytes}000000); {number}'" for number in range(3)]
    place.write(name, "# category: simulate\n" + "\n".join(lines) + "\n")
    assert place.call("run", name, "--new", *options).status == 0
    newest = next(run for run in place.runs() if run.id.startswith(Path(name).stem))
    return {str(one.resource): [one.reason, one.strategy] for one in place.rows(newest)[0].decisions}


LOADING = pytest.param("module() { :; } && module load x", marks=pytest.mark.long)
REDIRECTING = pytest.param("exec 3<&0", marks=pytest.mark.long)


@pytest.mark.parametrize("command", ["cd .", "true", LOADING, REDIRECTING])
def test_jobs_of_another_workflow_never_size_ours_whatever_they_have_in_common(place: Place, command: str) -> None:
    unknown = "nothing is known about simulate"
    assert unknown in simulate(place, "strangers.txt", 5, command)["memory"][0]
    assert unknown in simulate(place, "ours.txt", 60, command, "--enforce", "strict")["memory"][0]
    (place.folder / "elsewhere").mkdir()
    elsewhere = Place(place.folder / "elsewhere")
    elsewhere.environment = place.environment
    assert unknown in simulate(elsewhere, "ours.txt", 90, command, "--enforce", "strict")["memory"][0]
    simulate(elsewhere, "below.txt", 80, command)
    assert unknown in simulate(place, "below.txt", 70, command, "--enforce", "strict")["memory"][0]


def test_jobs_of_another_workflow_may_set_a_first_guess_that_ends_nothing(place: Place) -> None:
    # With more memory than the monitor itself has: of less, a busy machine sees nothing if a task is short.
    simulate(place, "strangers.txt", 40, "true")
    simulate(place, "others.txt", 40, "true")
    found = simulate(place, "ours.txt", 90, "true")
    assert found["memory"][0] == "a first guess from 6 jobs called simulate in other workflows"
    assert "wall_time" not in found, "strangers never set a time limit"
    newest = next(run for run in place.runs() if run.id.startswith("ours"))
    assert {row.outcome for row in place.rows(newest)} == {Outcome.DONE}


def test_an_edited_workflow_still_knows_what_its_tasks_used(place: Place) -> None:
    simulate(place, "ours.txt", 20, "true")
    assert "nothing is known" not in simulate(place, "ours.txt", 21, "true")["memory"][0]  # every command is another
    copied = Place(place.folder / "copy")
    copied.folder.mkdir()
    copied.environment = place.environment
    lines = (place.folder / "ours.txt").read_text()
    copied.write("ours.txt", f"{lines}true && echo one more\n")
    assert copied.call("run", "ours.txt").status == 0
    assert "nothing is known" not in next(one.reason for one in copied.rows()[0].decisions if one.resource == "memory")


def test_a_script_is_never_run_line_by_line(place: Place) -> None:
    kept = place.write("scratch/kept.dat", "results of a week")
    place.write("clean.sh", "#!/bin/bash\ncd scratch\nrm -f *.dat\n")
    place.write("clean", "cd scratch\nrm -f *.dat\n")
    for call in (("clean.sh",), ("clean",), ("clean.sh", "--from", "text"), ("clean", "--from", "text")):
        assert place.call("run", *call).status == 2, call
    assert kept.exists()
    assert not place.runs()


def test_fail_fast_starts_nothing_after_a_failure(place: Place) -> None:
    place.write("w.txt", "false\n" + "".join(f"touch t{number}\n" for number in range(20)))
    machine = "cores=1,memory=1GB,disk=1GB"
    assert place.call("run", "w.txt", "--fail-fast", "--rank", "fifo", "--machine", machine).status == 1
    assert len(place.rows()) == 1


def test_tasks_without_commands_are_refused(place: Place) -> None:
    place.write("w.dot", "digraph { a -> b }")
    said = place.call("run", "w.dot", "--from", "dagman")
    assert said.status == 2


# Stopping and going on


def has_heard(pid: int) -> bool:
    """Whether a process has taken in the signals that were sent to it, and waits again."""
    lines = (read(f"/proc/{pid}/status") or b"").decode().splitlines()
    facts = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return facts["State"].startswith("S") and not int(facts["SigPnd"], 16) | int(facts["ShdPnd"], 16)


def test_ctrl_c_lets_tasks_finish_and_the_second_ends_them(place: Place) -> None:
    place.write("w.txt", f"touch begun; {FOREVER}; echo >> finished\n" + "sleep 0.01; echo >> finished\n" * 3)
    arguments = ("run", "w.txt", "--machine", "cores=1,memory=1GB,disk=1GB", "--rank", "fifo")
    with place.begin(*arguments) as engine:
        until((place.folder / "begun").exists)
        engine.send_signal(signal.SIGINT)
        until(lambda: has_heard(engine.pid))
        assert engine.poll() is None
        engine.send_signal(signal.SIGINT)
        assert engine.wait(HANGS) == 130
    assert list(place.outcomes().values()) == [["cancelled"]]
    log = place.runs()[0].log.read_text()
    assert "stopping: 1 running task may finish; press Ctrl-C again to end them now" in log
    assert "stopping: ending 1 running task now" in log
    assert marked(token_of(place)) == []
    (place.folder / "begun").unlink()
    with place.begin(*arguments) as engine:
        until((place.folder / "begun").exists)
        engine.send_signal(signal.SIGINT)
        until(lambda: has_heard(engine.pid))
        place.write("go", "")
        assert engine.wait(HANGS) == 130
    assert list(place.outcomes().values()) == [["cancelled", "done"]]
    assert place.call(*arguments).status == 0
    assert (place.folder / "finished").read_text() == "\n" * 4
    place.check("w.txt")


def test_a_run_is_shown_stopped_and_refused_to_a_second_engine(place: Place) -> None:
    place.write("w.txt", f"touch begun; {FOREVER}\n")
    place.write("other.txt", "true\n")
    with place.begin("run", "w.txt") as engine:
        until((place.folder / "begun").exists)
        run = place.runs()[0].id
        shown = json.loads(place.call("status", "--json").stdout)
        assert (shown["process"], len(shown["running"]), shown["finished"]) == (engine.pid, 1, False)
        assert (shown["counts"]["running"], shown["counts"]["queued"], shown["counts"]["waiting"]) == (1, 0, 0)
        for options in ((), ("--new",)):
            second = place.call("run", "w.txt", *options)
            assert second.status == 2
            assert f"the run {run} is being executed by process {engine.pid}" in second.stderr
        other = place.call("run", "other.txt")
        assert other.status == 0
        assert f"the run {run} is active here, too" in other.stderr
        stopped = place.call("stop", run, "--now")
        assert stopped.status == 0
        assert engine.wait(HANGS) == 143
    assert place.call("stop", run).status == 2
    (cancelled,) = place.outcomes(next(one for one in place.runs() if one.id == run)).values()
    assert cancelled == ["cancelled"]


def test_stop_never_signals_a_process_that_is_not_the_engine(place: Place) -> None:
    place.write("w.txt", "false\n")
    place.call("run", "w.txt")
    run = place.runs()[0]
    lock = Lock(run)
    try:
        (run.path / "lock").write_text(f"{os.getpid()} another-machine\n")
        said = place.call("stop", "last", "--now")
        assert said.status == 1
        assert "is executed on another-machine" in said.stderr
        (run.path / "lock").write_text("")
        assert place.call("stop", "last", "--now", "--no-wait", start_new_session=True).status == 0
    finally:
        lock.release()


def test_two_engines_at_the_same_moment_begin_one_run(place: Place) -> None:
    place.write("w.txt", "sleep 0.5; echo >> ran\n")
    engines = [place.begin("run", "w.txt") for _ in range(3)]
    states = sorted(engine.wait(HANGS) for engine in engines)
    for engine in engines:
        engine.communicate()
    runs = place.runs()
    assert (place.folder / "ran").read_text() == "\n" * len(runs)  # one that came late began anew
    assert len(runs) == states.count(0)


def test_the_newest_unfinished_run_goes_on_even_if_a_newer_one_is_finished(place: Place) -> None:
    place.write("w.txt", "test -e good\n")
    assert place.call("run", "w.txt").status == 1
    place.write("good", "")
    assert place.call("run", "w.txt", "--new").status == 0
    (name,) = place.outcomes()
    said = place.call("run", "w.txt")
    assert "resumes" in said.stderr
    assert "1 of 1 tasks done (1 already up to date)" in said.stdout, (
        "the newer run has done it, and nothing is done twice"
    )
    assert [place.outcomes(run) for run in place.runs()] == [{name: ["done"]}, {name: ["failed"]}]
    assert "nothing to do" in place.call("run", "w.txt").stdout


def test_a_workflow_that_was_edited_runs_what_is_new_and_what_follows(place: Place) -> None:
    place.write("raw", "1")

    def write(*rules: str) -> None:
        place.write("w.makeflow", "".join(rules))

    a, b, c = rule("a", "raw", "cp raw a"), rule("b", "a", "cp a b"), rule("c", "", "touch c")
    bad = rule("never", "", "false")
    write(a, b, c, bad)
    assert place.call("run", "w.makeflow").status == 1

    def counts() -> dict[str, int]:
        return {task: len(ends) for task, ends in place.outcomes().items() if task != "never"}

    assert counts() == {"a": 1, "b": 1, "c": 1}
    place.write("raw", "22")
    place.call("run", "w.makeflow")
    assert counts() == {"a": 2, "b": 2, "c": 1}
    write(a, rule("b", "a", "cp a b && true"), c, rule("d", "b", "cp b d"), bad)
    place.call("run", "w.makeflow")
    assert counts() == {"a": 2, "b": 3, "c": 1, "d": 1}
    write(a, rule("b", "a", "cp a b && true"), bad)
    place.call("run", "w.makeflow")
    shown = json.loads(place.call("status", "--json").stdout)
    assert (shown["tasks"], shown["done"]) == (3, 2)
    write(a, rule("b", "a", "cp a b && true"), c, rule("d", "b", "cp b d"))
    assert place.call("run", "w.makeflow").status == 0
    assert counts() == {"a": 2, "b": 3, "c": 1, "d": 1}
    shown = json.loads(place.call("status", "--json").stdout)
    assert (shown["tasks"], shown["done"], shown["finished"]) == (4, 4, True)


def test_outputs_that_are_gone_but_needed_are_made_again(place: Place) -> None:
    text = rule("a", "", "touch a") + rule("b", "a", "touch b") + rule("c", "b", "test -e good && touch c")
    place.write("w.makeflow", text)
    place.call("run", "w.makeflow")
    (place.folder / "a").unlink()
    (place.folder / "b").unlink()
    place.write("good", "")
    assert place.call("run", "w.makeflow").status == 0
    assert place.outcomes() == {"a": ["done", "done"], "b": ["done", "done"], "c": ["failed", "done"]}


@pytest.mark.parametrize("tasks", [2000, pytest.param(20_000, marks=pytest.mark.long)])
def test_to_go_on_with_thousands_of_tasks_takes_little_more_than_to_begin(place: Place, tasks: int) -> None:
    place.write("w.txt", "".join(f"true {number}\n" for number in range(tasks)) + "test -e good\n")
    with place.begin("run", "w.txt", "--quiet") as engine:
        to_begin = cpu_until_it_runs(engine.pid)
        until(lambda: place.runs() and len(place.rows()) > 500)
        kill(engine.pid)
    place.write("good", "")
    with place.begin("run", "w.txt") as engine:
        to_go_on = cpu_until_it_runs(engine.pid)
        kill(engine.pid)
    assert to_go_on < 2 * to_begin + 0.5
    done = sum(ends.count("done") for ends in place.outcomes().values())
    assert done == len({task for task, ends in place.outcomes().items() if "done" in ends})


def cpu_until_it_runs(engine: int) -> float:
    """Return the CPU seconds that an engine has taken when it starts the process that keeps its minders."""
    until(lambda: children(engine))
    process = Process.of(engine)
    assert process is not None
    return process.cpu


# Folders, disks and archives


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tonnage-test", folder], capture_output=True, check=False
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_said_and_the_run_goes_on_when_there_is_space(place: Place, small_disk: Path) -> None:
    small = Place(small_disk)
    text = "".join(rule(f"o{number}", "", f"head -c 4000 /dev/zero > o{number}") for number in range(100))
    small.write("w.makeflow", "DISK=1\n" + text + rule("all", " ".join(f"o{n}" for n in range(100)), "touch all"))
    with (small_disk / "ballast").open("wb") as ballast:
        ballast.write(bytes(1_200_000))
    said = small.call("run", "w.makeflow")
    assert said.status == 1
    assert "No space left" in said.stderr or "full" in said.stderr or "No space left" in said.stdout, said
    (small_disk / "ballast").unlink()
    again = small.call("run", "w.makeflow")
    assert again.status == 0, again.stderr
    assert "resumes" in again.stderr
    small.check("w.makeflow")
    assert {(small_disk / f"o{number}").stat().st_size for number in range(100)} == {4000}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can read: pytest's own are closed to others."""
    folder = Path(mkdtemp(prefix="tonnage-test-"))
    folder.chmod(0o755)
    (folder / "w").mkdir()
    yield folder / "w"
    shutil.rmtree(folder)


def as_nobody(place: Place, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Call Tonnage as a user without a home who may write nowhere here."""
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
    theirs = place.folder.parent / "theirs"
    theirs.mkdir(exist_ok=True)
    theirs.chmod(0o777)
    environment = {**place.environment, "HOME": "/nowhere", "TONNAGE_ARCHIVE": str(theirs / "archive.db")}

    def call(words: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*other, *words], cwd=place.folder, env=environment, capture_output=True, text=True, check=False
        )

    if not ROOT or call([sys.executable, "-c", "import tonnage.cli"]).returncode:
        pytest.skip("needs root, and a Python that every user can run")
    return call(place.words(*arguments))


def test_another_user_may_look_at_a_run_only_where_its_owner_lets_him_and_never_goes_on_with_it(
    open_folder: Path,
) -> None:
    place = Place(open_folder)
    place.write("w.txt", "true\nfalse\n")
    assert place.call("run", "w.txt").status == 1
    for run in ("last", str(place.runs()[0].path)):
        refused = as_nobody(place, "status", run)
        assert refused.returncode == 2
        assert "cannot be read: Permission denied" in refused.stderr
        assert "chmod -R go+rX .tonnage" in refused.stderr
    assert "Permission denied" in as_nobody(place, "run", "w.txt").stderr
    subprocess.run(["chmod", "-R", "go+rX", ".tonnage"], cwd=place.folder, check=True)
    shown = as_nobody(place, "status", "last")
    assert shown.returncode == 0, shown.stderr
    assert "1 of 2 tasks done" in shown.stdout
    refused = as_nobody(place, "run", "w.txt")
    assert refused.returncode == 1
    assert "the run cannot be locked: Permission denied" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_archive_that_does_not_take_the_run_in_is_a_warning(place: Place, small_disk: Path) -> None:
    place.environment["TONNAGE_ARCHIVE"] = str(small_disk / "archive.db")
    place.write("w.txt", f"head -c 9000000 /dev/zero > {small_disk}/ballast; true\n")
    said = place.call("run", "w.txt")
    assert said.status == 0, said.stderr
    assert "this run could not be stored in the archive" in said.stderr


def test_an_archive_that_was_removed_is_told_everything_again(place: Place) -> None:
    place.write("w.makeflow", rule("a", "", "touch a") + rule("b", "a", "test -e go && touch b"))
    assert place.call("run", "w.makeflow").status == 1
    archive = Path(place.environment["TONNAGE_ARCHIVE"])
    for file in archive.parent.glob(f"{archive.name}*"):
        file.unlink()
    place.write("go", "")
    assert place.call("run", "w.makeflow").status == 0
    with Archive.open(str(archive)) as stored:
        assert stored.count() == 3


def test_without_a_home_the_archive_can_be_named(place: Place) -> None:
    del place.environment["TONNAGE_ARCHIVE"]
    place.environment = {key: value for key, value in place.environment.items() if key not in ("HOME", "XDG_DATA_HOME")}
    place.write("w.txt", "true\n")
    said = place.call("run", "w.txt", "--archive", "a.db")
    assert said.status == 0, said.stderr
    assert (place.folder / "a.db").exists()


def test_a_run_of_another_version_is_left_alone_and_that_is_said(place: Place) -> None:
    place.write("w.txt", "test -e go\n")
    assert place.call("run", "w.txt").status == 1
    old = place.runs()[0]
    with closing(sqlite3.connect(old.journal)) as connection, connection:
        connection.execute("UPDATE run SET value = '3' WHERE key = 'version'")
    place.write("go", "")
    said = place.call("run", "w.txt")
    assert said.status == 0
    assert f"the run {old.id} was started by another version of Tonnage" in said.stderr
    assert len(place.runs()) == 2
    status = place.call("status", old.id)
    assert status.status == 2
    assert "its format is 3" in status.stderr


def test_a_dry_run_leaves_nothing_behind(place: Place) -> None:
    place.write("w.txt", "touch made\n")
    said = place.call("run", "w.txt", "--dry-run")
    assert said.status == 0
    assert "touch (1 task)" in said.stdout
    assert sorted(path.name for path in place.folder.iterdir()) == ["w.txt"]
    place.write("w.makeflow", rule("a", "", "touch a") + rule("b", "a", "false"))
    place.call("run", "w.makeflow")
    place.write("w.makeflow", rule("a", "", "touch a; true") + rule("b", "a", "false"))
    assert place.call("run", "w.makeflow", "--dry-run").status == 0
    assert json.loads(place.call("status", "--json").stdout)["done"] == 1


def files_in(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, but for what SQLite keeps beside a file while somebody reads it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def test_a_dry_run_is_the_run_that_would_go_on_now(place: Place) -> None:
    place.write("take.py", "import os, time\nx = bytearray(80 * 10**6)\ntime.sleep(0.2)\nprint(open('gate').read())\n")
    take = "python3 take.py > {}"
    text = "CORES=1\nDISK=10\nMEMORY=40\n"
    text += "CATEGORY=easy\n" + rule("a", "", "touch a") + "CATEGORY=hungry\n" + rule("b", "", take.format("b"))
    place.write("w.makeflow", text)
    assert place.call("run", "w.makeflow", "--size", "declared").status == 1  # there is no gate yet
    before = files_in(place.folder)
    said = place.call("run", "w.makeflow", "--size", "declared", "--dry-run")
    assert said.status == 0, said.stderr
    assert files_in(place.folder) == before
    assert "easy" not in said.stdout, "it is done"
    assert "hungry (1 task)" in said.stdout
    place.write("gate", "open")
    explained = place.call("run", "w.makeflow", "--size", "declared", "--explain", "--quiet")
    assert explained.status == 0
    assert explained.stdout.startswith(said.stdout.partition("\n\n")[0])


def test_a_dry_run_says_what_is_in_the_way_as_the_run_does(place: Place) -> None:
    place.write("w.txt", f"{FOREVER}\n")
    with place.begin("run", "w.txt") as engine:
        until(lambda: place.runs() and place.rows())
        said = place.call("run", "w.txt", "--dry-run")
        assert said.status == 2
        assert f"is being executed by process {engine.pid}" in said.stderr
        place.write("go", "")
    place.write("w.makeflow", rule("b", "nowhere", "cp nowhere b"))
    dry, real = (place.call("run", "w.makeflow", *words) for words in (("--dry-run",), ("--quiet",)))
    assert "1 task reads files that are missing or unreadable" in dry.stderr
    assert dry.stderr.splitlines()[0] == real.stderr.splitlines()[0]


def test_a_dry_run_after_a_killed_engine_ends_no_process_and_moves_no_file(place: Place) -> None:
    place.write("w.makeflow", rule("a", "", f"echo half > a; {FOREVER}; echo whole > a"))
    with place.begin("run", "w.makeflow") as engine:
        until((place.folder / "a").exists)
        fork_servers = children(engine.pid)
        for pid in fork_servers:
            os.kill(pid, signal.SIGSTOP)  # so that nobody ends the task when the engine is gone
        kill(engine.pid)
        engine.wait(HANGS)
    try:
        said = place.call("run", "w.makeflow", "--dry-run")
    finally:
        for pid in fork_servers:
            os.kill(pid, signal.SIGCONT)
    assert said.status == 0, said.stderr
    assert (place.folder / "a").read_text() == "half\n"
    assert place.outcomes() == {"a": ["running"]}
    place.write("go", "")


def test_the_log_of_a_run_tells_what_went_wrong_even_if_the_engine_was_killed(place: Place) -> None:
    place.write("w.txt", f"false\n{FOREVER}\n")
    with place.begin("run", "w.txt", "--quiet") as engine:
        until(lambda: place.runs() and ["failed"] in place.outcomes().values())
        until(lambda: "exit status 1" in place.runs()[0].log.read_text())
        kill(engine.pid)


def test_a_run_whose_folder_was_removed_ends_with_a_message(place: Place) -> None:
    place.write("w.txt", "rm -rf .tonnage && kill -9 $PPID; true\n")
    with place.begin("run", "w.txt") as engine:
        _, errors = engine.communicate(timeout=HANGS)
    assert engine.returncode == 1
    assert "attempts in a row were lost" in errors


def test_a_task_that_waits_for_another_try_has_not_failed(place: Place) -> None:
    """Of two tasks, the one that had too little waits until the other has ended, and is not told as a failure."""
    take = "x = bytearray(300 * 10**6)\nwhile not os.path.exists('go'): time.sleep(0.01)"
    place.write("take.py", f"import os, time\n{take}\n")
    text = "CATEGORY=a\nCORES=1\nDISK=10\nMEMORY=100\n" + rule("hungry", "", "python3 take.py; echo > hungry")
    text += "CATEGORY=b\nCORES=1\nDISK=10\nMEMORY=800\n" + rule("slow", "", f"{FOREVER}; echo > slow")
    place.write("w.mf", text)
    with place.begin("run", "w.mf", "--size", "declared", "--enforce", "strict") as engine:
        until(lambda: place.runs() and place.outcomes().get("hungry") == ["exhausted"])
        assert place.call("status", "--json").facts["failed"] == []
        place.write("go", "")
        assert engine.wait(HANGS) == 0
    assert place.outcomes()["hungry"] == ["exhausted", "done"]


def test_no_more_tasks_run_at_once_than_the_user_says(place: Place) -> None:
    """Each writes its beginning and its end into one file: with one at a time, they alternate."""
    place.write("w.txt", "".join(f"echo begin >> order; echo {n} > f{n}; echo end >> order\n" for n in range(12)))
    said = place.call("run", "w.txt", "-j", "1")
    assert said.status == 0, said.stderr
    assert (place.folder / "order").read_text() == "begin\nend\n" * 12


def test_cores_and_memory_of_the_machine_have_options_of_their_own(place: Place) -> None:
    place.write("w.txt", "true\n")
    words = ("w.txt", "--new", "--machine", "disk=1GB")
    assert place.call("run", *words, "--cores", "3", "--memory", "2G").status == 0
    with closing(Reader(place.runs()[0].journal)) as reader:
        facts = reader.facts()
    assert (float(facts["cores"]), float(facts["memory"])) == (3.0, 2.0 * 2**30)
    twice = place.call("run", "w.txt", "--machine", "cores=2", "--cores", "2")
    assert (twice.status, "both given" in twice.stderr) == (2, True)
