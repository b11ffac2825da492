"""Failures can be read: once, with what ran, what it said and where, and not a thousand times."""

from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.run.cli_runs import Place, kill
from tests.waiting import until
from tonnage.files import tail


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "w").mkdir()
    return Place(tmp_path / "w")


def test_a_failure_shows_what_ran_what_it_said_last_and_what_will_not_run(place: Place) -> None:
    said_last = "seq -f 'line %g' 7 >&2; exit 3"
    place.write("w.mf", f"a:\n\t{said_last}\nb: a\n\tcat a > b\nc: b\n\tcat b > c\n")
    said = place.call("run", "w.mf")
    lines = [line.removeprefix("tonnage: ") for line in said.stderr.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("a failed"))
    assert lines[first].endswith(": exit status 3")
    assert lines[first + 1 :] == [
        f"    $ {said_last}",
        *(f"    line {number}" for number in range(3, 8)),
        f"    log: {(place.runs()[0].logs / '1-a.err').relative_to(place.folder)}",
        "    will not run, because they depend on it: 2 tasks",
    ]
    assert said.stdout.count("exit status 3") == 1
    assert "exit status 3" in place.runs()[0].log.read_text()


def test_status_shows_what_failed_tasks_said_last(place: Place) -> None:
    place.write("w.txt", "# category: one\nsh -c 'echo the reason >&2; exit 3'\n")
    place.call("run", "w.txt")
    shown = place.call("status").stdout.splitlines()
    first = next(number for number, line in enumerate(shown) if line.startswith("failed: "))
    assert ": exit status 3" in shown[first]
    assert shown[first + 1] == "    the reason"
    assert shown[first + 2].startswith("    log: .tonnage/runs/w-")


def test_many_alike_failures_are_counted(place: Place) -> None:
    place.write("w.txt", "".join(f"sh -c 'exit 4; echo {number}'\n" for number in range(40)))
    said = place.call("run", "w.txt")
    assert said.stderr.count("failed after") == 3
    assert "more failures of sh with this reason are only counted" in said.stderr
    assert "40 tasks of sh failed: exit status 4" in said.stdout


def test_different_reasons_are_told_apart(place: Place) -> None:
    place.write("w.txt", "sh -c 'exit 4'\nsh -c 'exit 5'\n")
    said = place.call("run", "w.txt")
    for status in (4, 5):
        assert f"1 task of sh failed: exit status {status}" in said.stdout


def test_a_retry_is_a_line_and_the_failure_that_follows_a_block(place: Place) -> None:
    place.write("w.txt", "sh -c 'echo why >&2; exit 4'\n")
    said = place.call("run", "w.txt", "--retries", "1")
    assert said.stderr.count("exit status 4; retrying (1 of 1)") == 1
    assert said.stderr.count("    why") == 1


def test_a_command_of_many_lines_and_odd_letters_is_shown_on_one(place: Place) -> None:
    place.write("w.jx", '{"rules": [{"command": "printf \\"\\\\033[31mred\\" >&2;\\n\\n  false", "outputs": ["a"]}]}')
    said = place.call("run", "w.jx")
    assert "\x1b" not in said.stderr
    assert r"    \x1b[31mred" in said.stderr
    assert ">&2; false" in said.stderr


@pytest.mark.parametrize("most", [1, 5, 6, 100])
def test_the_end_of_a_file_begins_with_a_line(tmp_path: Path, most: int) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    assert tail(tmp_path / "f", most) == {1: "\n", 5: "two\n", 6: "two\n", 100: "one\ntwo\n"}[most]
    assert tail(tmp_path / "absent", most) == ""


# tonnage logs


def test_logs_prints_what_a_task_wrote_where_it_wrote_it(place: Place) -> None:
    place.write("w.mf", "a:\n\techo out && echo err >&2 && exit 3\nb:\n\ttouch b\n")
    place.call("run", "w.mf")
    said = place.call("logs", "a")
    assert (said.status, said.stdout) == (0, "out\n")
    assert said.stderr.splitlines() == ["tonnage: attempt 1 of a: exit status 3; not retried", "err"]
    assert "it printed nothing" in place.call("logs", "last", "b").stderr
    assert place.call("logs", place.runs()[0].id, "a").stdout == "out\n"


def test_logs_of_earlier_attempts_are_kept(place: Place) -> None:
    place.write("w.mf", "a:\n\techo >> ../n; wc -l < ../n; exit 3\n")
    place.call("run", "w.mf", "--retries", "2")
    assert [place.call("logs", "a", "--attempt", n).stdout for n in (1, 2, 3)] == ["1\n", "2\n", "3\n"]
    assert place.call("logs", "a").stdout == "3\n"
    assert 'task "a" has no attempt 4' in place.call("logs", "a", "--attempt", 4).stderr


def test_logs_follows_a_task_that_runs(place: Place) -> None:
    place.write("w.mf", "a:\n\techo first; until [ -e go ]; do sleep 0.02; done; echo last; touch a\n")
    with place.begin("run", "w.mf") as engine:
        assert "first" in until(lambda: place.call("logs", "a").stdout)
        with place.begin("logs", "-f", "a") as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "first\n"
            place.write("go", "")
            assert follower.communicate(timeout=HANGS)[0] == "last\n"
        engine.communicate(timeout=HANGS)
    assert place.call("logs", "a").stdout == "first\nlast\n"


def test_logs_of_what_is_not_there_says_what_is(place: Place) -> None:
    place.write("w.mf", "align:\n\tfalse\nnext: align\n\ttouch next\n")
    place.call("run", "w.mf")
    wrong = place.call("logs", "algin")
    assert (wrong.status, "did you mean align?" in wrong.stderr) == (2, True)
    assert 'task "next" of' in place.call("logs", "next").stderr
    assert place.call("logs", "a", "b", "c").status == 2


def test_logs_of_an_attempt_whose_engine_was_killed_do_not_call_it_running(place: Place) -> None:
    place.write("w.mf", "a:\n\ttouch begun; until [ -e go ]; do sleep 0.02; done; touch a\n")
    with place.begin("run", "w.mf") as engine:
        until((place.folder / "begun").exists)
        kill(engine.pid)
        engine.wait(HANGS)
    until(lambda: place.runs()[0].holder() is None)
    assert "how it ended is unknown" in place.call("logs", "a").stderr
