"""The end of a run in a person's terms: how long, what was retried and why, what was reserved, and what comes next."""

import re
from pathlib import Path

import pytest

from tests.report.journals import Try, write_run
from tests.run.cli_runs import Place
from tonnage.jobs import Outcome, Resource
from tonnage.run.state import state_of


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "w").mkdir()
    return Place(tmp_path / "w")


def test_a_summary_says_how_long_it_took_what_was_retried_and_why(place: Place) -> None:
    once = "if [ -e {0} ]; then touch out{0}; else touch {0}; exit 3; fi"
    place.write("w.mf", "".join(f"out{name}:\n\t{once.format(name)}\n" for name in "ab") + "outc:\n\ttouch outc\n")
    said = place.call("run", "w.mf", "--retries", "2")
    assert re.search(r"^3 of 3 tasks done in [\d.]+m?s; 2 tasks retried \(failed before\)$", said.stdout, re.MULTILINE)
    assert place.call("status", "--json").facts["counts"]["done"] == 3


def test_a_task_counts_once_for_each_reason(place: Place) -> None:
    tries = [
        Try(0, 1, 0, 10, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY),
        Try(0, 2, 10, 20, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY),
        Try(0, 3, 20, 30, outcome=Outcome.LOST),
        Try(0, 4, 30, 40),
        Try(1, 1, 0, 5, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY),
        Try(1, 2, 5, 15),
        Try(2, 1, 0, 5),
    ]
    run = write_run(place.folder, [(name, "align") for name in "abc"], tries)
    summary = state_of(run).summary
    assert summary.retried == 2
    assert summary.retried_because == {"needed more memory": 2, "lost or killed from outside": 1}


def test_nothing_is_said_that_holds_by_definition(place: Place) -> None:
    place.write("w.txt", "true\ntrue\n")
    said = place.call("run", "w.txt").stdout
    for word in ("100%", "e-0", "core*", "GB*", "0 retried", "declare"):
        assert word not in said
    place.write("bad.txt", "false\n")
    assert "memory" not in place.call("run", "bad.txt").stdout  # of what did not succeed, nothing was used


def test_a_run_that_took_a_while_says_what_the_next_one_will_take(place: Place) -> None:
    place.write("w.mf", "a:\n\tsleep 1.2; touch a\nb: a\n\ttouch b\n")
    said = place.call("run", "w.mf").stdout
    assert re.search(r"^memory: on average, a task reserved [\d.]+ [MG]B and used [\d.]+ [kM]B$", said, re.MULTILINE)
    found = re.search(r"^next time: about ([\d.]+)s, with ([\d.]+) MB of memory for a task$", said, re.MULTILINE)
    assert found
    assert float(found[1]) >= 1.2
    again = place.call("run", "w.mf", "--new", "--json").facts
    assert again["next"]["makespan_seconds"] >= 1.2
    assert again["before"]["retried"] == 0
    assert "last time: 1" in place.call("run", "w.mf", "--new").stdout


@pytest.mark.parametrize("declared", [None, 900])
def test_what_was_saved_is_said_only_where_something_was_declared(place: Place, declared: int | None) -> None:
    memory = f"MEMORY={declared}\n" if declared else ""
    place.write("w.mf", f"{memory}a:\n\tsleep 0.1; touch a\n")
    place.call("run", "w.mf")
    facts = place.call("run", "w.mf", "--new", "--json").facts
    assert (facts["declared"] is None) == (declared is None)
    said = place.call("run", "w.mf", "--new").stdout
    saved = declared is not None and facts["declared"]["given"] < 0.99 * facts["declared"]["declared"]
    assert ("of the memory that tasks declare" in said) == saved
