"""The log of a run: a trail that can be read afterwards, and what of it is shown meanwhile."""

import logging
import re
from pathlib import Path

import pytest

from tests.run.cli_runs import Place
from tonnage.errors import InputError
from tonnage.run.options import Options
from tonnage.run.session import RunSession
from tonnage.workflow import read

_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (DEBUG|INFO|WARNING|ERROR) +\S")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "w").mkdir()
    return Place(tmp_path / "w")


def log(place: Place) -> str:
    return place.runs()[0].log.read_text()


def test_each_line_has_its_time_and_level_whatever_tasks_are_called(place: Place) -> None:
    place.write("w.jx", '{"rules": [{"command": "false", "outputs": ["a\\nb\\u001b[31m"]}]}')
    assert place.call("run", "w.jx").status == 1
    lines = log(place).splitlines()
    assert all(_LINE.match(line) for line in lines), lines
    assert any(r"a\nb\x1b[31m failed" in line for line in lines)


def test_the_first_line_says_what_runs_where_and_how(place: Place) -> None:
    place.write("w.mf", "a:\n\techo > a\n")
    said = place.call("run", "w.mf", "--size", "max-seen", "--machine", "cores=3,memory=2GB")
    run = place.runs()[0].id
    where = "w.mf (makeflow) on this machine (3 cores, 2 GB of memory)"
    first = f"tonnage: {where}, sized by max-seen; the run {run} starts: 0 of 1 tasks up to date"
    assert said.stderr.splitlines()[0] == first


def test_a_quiet_run_has_the_same_log(place: Place) -> None:
    place.write("w.txt", "true\nfalse\n")
    said = place.call("run", "w.txt", "--quiet")
    assert "starts" not in said.stderr
    assert "starts: 0 of 2 tasks up to date" in log(place)
    assert "exit status 1" in log(place)


def test_a_verbose_run_shows_and_logs_every_attempt(place: Place) -> None:
    place.write("w.txt", "# category: simple\ntrue\n")
    said = place.call("run", "w.txt", "--verbose")
    for text in (said.stderr, log(place)):
        assert re.search(r"attempt 1 started .*memory \d", text)
        assert ": done" in text


def test_attempts_that_succeed_are_no_news(place: Place) -> None:
    place.write("w.txt", "true\n")
    said = place.call("run", "w.txt")
    assert "attempt" not in said.stderr
    assert "attempt" not in log(place)


def test_what_was_said_before_the_run_had_a_folder_comes_first_in_its_log(place: Place) -> None:
    place.write("w.mf", "a: nowhere\n\tcat nowhere > a\n")
    said = place.call("run", "w.mf")
    assert said.status == 1
    missing = next(line for line in said.stderr.splitlines() if "nowhere" in line).removeprefix("tonnage: ")
    lines = log(place).splitlines()
    assert missing in lines[0]
    assert "starts" in lines[1]


def test_a_resumed_run_goes_on_with_its_log(place: Place) -> None:
    place.write("w.txt", "test -e go\n")
    assert place.call("run", "w.txt").status == 1
    place.write("go", "")
    assert place.call("run", "w.txt").status == 0
    for begins in ("starts: 0 of 1 tasks up to date", "resumes: 0 of 1 tasks done"):
        assert f" {begins}" in log(place)


def test_a_session_that_cannot_begin_leaves_nothing_open(place: Place) -> None:
    workflow = read(place.write("w.mf", "CATEGORY=a\nGPUS=1\na:\n\ttrue > a\n"))
    before = logging.getLogger("tonnage").handlers[:]
    with pytest.raises(InputError):
        RunSession(workflow, Options(archive=str(place.archive)))
    assert logging.getLogger("tonnage").handlers == before
