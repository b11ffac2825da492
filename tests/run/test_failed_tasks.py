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
    assert "exit status 3" not in said.stdout  # it is told once
    assert "exit status 3" in place.runs()[0].log.read_text()


def test_status_shows_failed_tasks_as_the_run_did(place: Place) -> None:
    place.write("w.txt", "# category: one\nsh -c 'echo the reason >&2; exit 3'\n\npython3 -c 'import absent'\n")
    told = [line.removeprefix("tonnage: ") for line in place.call("run", "w.txt").stderr.splitlines()]
    shown = place.call("status").stdout.splitlines()
    first = next(number for number, line in enumerate(shown) if line.startswith("line 2 failed after"))
    assert shown[first].endswith(": exit status 3")
    assert shown[first + 1 : first + 3] == ["    $ sh -c 'echo the reason >&2; exit 3'", "    the reason"]
    assert shown[first + 3].startswith("    log: .tonnage/runs/w-")
    assert set(shown[first:]) <= set(told)
    assert '      File "<string>", line 1, in <module>' in told  # as it was printed
    (one, other) = place.call("status", "--json").facts["failed"]
    assert (one["line"], one["printed_last"], one["note"]) == (2, ["the reason"], "exit status 3")
    assert other["title"] == "line 4: python3 -c 'import absent'"


def test_many_alike_failures_are_counted(place: Place) -> None:
    place.write("w.txt", "".join(f"sh -c 'exit 4; echo {number}'\n" for number in range(40)))
    said = place.call("run", "w.txt")
    assert said.stderr.count("failed after") == 3
    assert "more failures of echo with this reason are only counted" in said.stderr
    assert "40 tasks of echo failed: exit status 4" in said.stdout
    status = place.call("status").stdout
    assert status.count("failed after") == 3
    assert "37 more tasks of echo failed: exit status 4" in status


def test_different_reasons_are_told_apart(place: Place) -> None:
    place.write("w.txt", "sh -c 'exit 4'\nsh -c 'exit 5'\n")
    said = place.call("run", "w.txt")
    for line in (1, 2):
        assert f"line {line} failed" in said.stderr
        assert f": exit status {line + 3}" in said.stderr


def test_alike_failures_that_name_different_files_are_counted_together(place: Place) -> None:
    place.write("w.mf", "".join(f"CATEGORY=make\nout.{number}:\n\ttrue\n" for number in range(6)))
    assert "6 tasks of make failed: succeeded, but did not write …" in place.call("run", "w.mf").stdout


def test_the_status_that_a_shell_has_after_a_signal_is_named(place: Place) -> None:
    place.write("w.txt", "sh -c 'exit 139'\nsh -c 'kill -USR1 $$'\n")
    said = place.call("run", "w.txt").stderr
    assert "exit status 139 (SIGSEGV)" in said
    assert "SIGUSR1" in said


def test_a_retry_is_a_line_and_the_failure_that_follows_a_block(place: Place) -> None:
    place.write("w.txt", "sh -c 'echo why >&2; exit 4'\n")
    said = place.call("run", "w.txt", "--retries", "1")
    assert said.stderr.count("exit status 4; retrying (1 of 1)") == 1
    assert said.stderr.count("    why") == 1


def test_many_alike_retries_are_all_in_the_log_and_not_all_on_the_terminal(place: Place) -> None:
    place.write("w.txt", "sh -c 'exit 4'\n" * 6)
    said, again = place.call("run", "w.txt", "--retries", "1"), place.call("run", "w.txt", "--retries", "1", "-v")
    retried = "exit status 4; retrying (1 of 1)"
    assert [said.stderr.count(retried), again.stderr.count(retried)] == [3, 6]
    assert place.runs()[0].log.read_text().count(retried) == 12


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


# Tasks of a list


def test_a_task_of_a_list_is_known_by_its_line_and_command_everywhere(place: Place) -> None:
    long = f"echo {'x' * 90} && exit 3"
    place.write("w.txt", f"true\n{long}\nsh -c 'exit 4'\n")
    said = place.call("run", "w.txt", "-v")
    head = f"line 2: {long}"[:40]
    assert "line 2 failed" in said.stderr
    assert "line 1: true: done" in said.stderr
    for words in (["line", "2"], ["2"], ["line 2"], ["last", "line", "2"], [place.rows()[1].task]):
        found = place.call("logs", *words)
        assert found.stdout == f"{'x' * 90}\n"
        assert f"attempt 1 of {head}" in found.stderr
    assert place.call("logs", "line", "9").status == 2
    place.call("report", "last", "-o", "r.html")
    page = (place.folder / "r.html").read_text()
    assert head in page
    assert "log: " in page


def test_lines_follow_the_list_when_it_changes(place: Place) -> None:
    place.write("w.txt", "true\nsh -c 'exit 3'\n")
    place.call("run", "w.txt")
    place.write("w.txt", "true\n# one more line\nsh -c 'exit 3'\n")
    assert "line 3 failed" in place.call("run", "w.txt").stderr
    assert "attempt 2 of line 3: sh" in place.call("logs", "3").stderr


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
    assert 'task "next" has not started' in place.call("logs", "next").stderr
    assert place.call("logs", "a", "b", "c").status == 2


def test_logs_of_an_attempt_whose_engine_was_killed_do_not_call_it_running(place: Place) -> None:
    place.write("w.mf", "a:\n\ttouch begun; until [ -e go ]; do sleep 0.02; done; touch a\n")
    with place.begin("run", "w.mf") as engine:
        until((place.folder / "begun").exists)
        kill(engine.pid)
        engine.wait(HANGS)
    until(lambda: place.runs()[0].holder() is None)
    assert "how it ended is unknown" in place.call("logs", "a").stderr
