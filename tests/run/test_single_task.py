"""One command in a batch job of its own: its result is left in a file, whatever happens to it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.deadlines import HANGS
from tests.run.batch_jobs import SingleTasks, running
from tests.waiting import until
from tonnage.run.minders import result_of
from tonnage.watch.proc import children
from tonnage.watch.record import parse


@pytest.fixture
def run(tmp_path: Path) -> SingleTasks:
    return SingleTasks(tmp_path / "run")


def test_an_answer_is_what_minders_answer(run: SingleTasks) -> None:
    attempt = run.add("echo $A; sleep 0.1; exit 3", environment={"A": "bäh"})
    assert run.call("0", "n7", "2") == ""
    answer = run.result(attempt)
    assert (answer.attempt, answer.status, answer.stopped_because, answer.error) == (100, 3 << 8, None, None)
    assert (answer.host, answer.restarts, answer.lost, answer.notes) == ("n7", 2, False, [])
    assert answer.used["wall_time"] >= 0.1
    assert answer.stderr is None
    assert answer.stdout == str(run.path / "logs" / "100.out")
    assert Path(answer.stdout).read_text() == "bäh\n"
    assert [path.name for path in (run.path / "logs").iterdir()] == ["100.out"]


def test_each_element_has_its_order(run: SingleTasks) -> None:
    for number in range(4):
        run.add(f"echo {number}")
    run.call("2")
    run.call("3")
    run.call()
    texts = {path.name: path.read_text() for path in (run.path / "logs").iterdir()}
    assert texts == {"100.out": "0\n", "102.out": "2\n", "103.out": "3\n"}
    assert run.result().host == os.uname().nodename


def test_limits_are_kept(run: SingleTasks) -> None:
    script = f"exec {sys.executable} -c 'import time; x = b\"a\" * 200_000_000; time.sleep(400)'"
    run.add(script, limits={"memory": 100e6})
    run.call()
    answer = run.result()
    assert answer.stopped_because == "limit"
    assert answer.exceeded["memory"][0] == 100e6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_batch_job_that_is_ended(run: SingleTasks, number: int) -> None:
    mark = f"{run.path}"
    run.add("trap '' TERM INT HUP; (sleep 400 & sleep 400)", environment={"MARK": mark})
    with run.begin() as process:
        until(lambda: len(running(mark)) >= 3)
        process.send_signal(number)
        assert process.wait(HANGS) == 0
    assert running(mark) == []
    assert run.result().stopped_because == "terminated"
    assert not run.result().lost


def test_the_command_may_hear_of_the_end_first(run: SingleTasks) -> None:
    mark = f"{run.path}"
    run.add("exec sleep 400", environment={"MARK": mark})
    with run.begin() as process:
        until(lambda: running(mark))
        (command,) = running(mark)
        os.kill(command, signal.SIGTERM)
        process.terminate()  # a moment later
        assert process.wait(HANGS) == 0
    assert run.result().stopped_because == "terminated"


def test_a_command_that_dies_by_itself_was_not_ended(run: SingleTasks) -> None:
    run.add("kill -TERM $$")
    run.call()
    answer = run.result()
    assert (answer.status, answer.stopped_because) == (signal.SIGTERM, None)


def test_what_has_ended_is_not_run_again(run: SingleTasks) -> None:
    run.add("echo once >> count")
    run.call()
    run.call()
    assert (run.path / "count").read_text() == "once\n"


def test_what_cannot_be_started_is_answered(run: SingleTasks) -> None:
    run.add("true", executable="/no/such/program")
    run.call()
    answer = run.result()
    assert answer.status is None
    assert answer.error is not None
    assert "No such file" in answer.error


@pytest.mark.parametrize("whom", ["guard", "minder"])
def test_a_killed_monitor_takes_the_command_with_it(run: SingleTasks, whom: str) -> None:
    mark = f"{run.path}"
    run.add("sleep 400 & sleep 400", environment={"MARK": mark})
    with run.begin() as process:
        until(lambda: len(running(mark)) >= 2)
        (minder,) = children(process.pid)
        os.kill(process.pid if whom == "guard" else minder, signal.SIGKILL)
        assert process.wait(HANGS) == (0 if whom == "minder" else -signal.SIGKILL)
        until(lambda: not running(mark))
    until(lambda: result_of(run.path, 100))
    assert run.result().lost


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("rm -r batch", "No such file or directory"),
        (": > batch/1/orders", "no order 0"),
        ("echo '{' > batch/1/orders", "not valid JSON"),
        ("echo '[]' > batch/1/orders", "tonnage: "),
        ("rm -r logs", "No such file or directory"),
        ("touch results", "exists"),
    ],
)
def test_what_is_damaged_is_said(run: SingleTasks, damage: str, message: str) -> None:
    run.add("touch ran")
    subprocess.run(["/bin/sh", "-c", damage], cwd=run.path, check=True)
    with run.begin() as process:
        said = process.communicate(timeout=HANGS)[1]
    assert process.returncode == 1
    assert message in said
    assert "Traceback" not in said
    assert not (run.path / "ran").exists()


def test_an_answer_that_cannot_be_written_is_said(run: SingleTasks) -> None:
    run.add("rm -r results; touch results")
    with run.begin() as process:
        said = process.communicate(timeout=HANGS)[1]
    assert process.returncode == 1
    assert "the result cannot be written" in said
    assert "Traceback" not in said


def test_it_starts_with_little() -> None:
    slow = ["numpy", "click", "dataclasses", "typing", "re", "pathlib", "logging", "json", "enum", "subprocess"]
    program = "import sys; import tonnage.watch.single_task; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-P", "-S", "-c", program]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert set(loaded).isdisjoint(slow)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain)
def test_json_is_read_as_others_read_it(value: object) -> None:
    assert parse(json.dumps(value) + "\n") == value


@pytest.mark.parametrize("text", ["", "{", '{"a": }', "1 2", "nothing", "[1,]"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting|Illegal"):
        parse(text)
