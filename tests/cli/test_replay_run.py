"""``tonnage replay run`` as its users call it."""

import csv
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tonnage.jobs import Amounts
from tonnage.workflow import Task, Workflow, write

MACHINES = ("--machines", "2x4c16GB")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{'large' if number % 5 == 0 else 'small'},1,{1 + number % 5}GB,{60 + number}s" for number in range(200)]
    (tmp_path / "jobs.csv").write_text("\n".join(["category,cores,memory,wall_time", *rows]) + "\n")
    chain = [Task(str(n), category="c", expected=Amounts.of(cores=1, memory=2e9, wall_time=10)) for n in range(5)]
    write(Workflow.build("chain", chain, ([0, 1, 2, 3], [1, 2, 3, 4])), tmp_path / "chain.json")
    unknown = [Task("a"), Task("b", expected=Amounts.of(wall_time=1))]
    write(Workflow.build("unknown", unknown), tmp_path / "unknown.json")
    return tmp_path


@pytest.fixture
def run(command_line: CommandLine, folder: Path) -> Call:
    return partial(command_line, "replay", "run")


def test_a_table_and_a_chart(run: Call) -> None:
    lines = run("jobs.csv", *MACHINES).stdout.splitlines()
    assert lines[0] == "200 jobs on 2 machines"
    assert " ".join(lines[1].split()) == "strategy makespan of the oracle cores wasted memory wasted attempts retries"
    assert {line.split()[0] for line in lines[2:6]} == {"auto", "max-seen", "whole-machine", "oracle"}
    assert lines[7].startswith("auto: memory over the ")
    assert [line.split()[0] for line in lines[9:]] == ["committed", "used"]


def test_json_has_the_facts_of_the_table_and_more(run: Call) -> None:
    facts = run("jobs.csv", *MACHINES, "--strategies", "auto,whole-machine", "--json").facts
    auto, whole = facts["results"]
    assert (facts["tasks"], facts["machines"]) == (200, 2)
    assert (auto["strategy"], whole["strategy"]) == ("auto", "whole-machine")
    assert whole["attempts"] == 200
    assert whole["retries"] == whole["failed"] == 0
    assert whole["makespan_seconds"] > auto["makespan_seconds"] >= facts["oracle_makespan_seconds"]
    assert auto["oracle_fraction"] == pytest.approx(facts["oracle_makespan_seconds"] / auto["makespan_seconds"])
    used = sum((1 + number % 5) * (60 + number) for number in range(200))
    paid = sum(16 * (60 + number) for number in range(200))
    assert whole["waste_fraction"]["memory"] == pytest.approx(1 - used / paid)
    line = whole["timeline"]
    assert len(line["seconds"]) == 60
    span = whole["makespan_seconds"] / 60
    assert sum(line["memory"]["committed"]) * span == pytest.approx(paid * 1e9)
    assert sum(line["memory"]["used"]) * span == pytest.approx(used * 1e9)
    assert set(line["memory"]["first_allocation"]) == {"large", "small"}
    assert set(line["memory"]["first_allocation"]["large"]) <= {16e9, None}


def test_a_workflow_keeps_its_order(run: Call) -> None:
    facts = run("chain.json", *MACHINES, "--strategies", "max-seen", "--rank", "fifo", "--json").facts
    assert facts["results"][0]["makespan_seconds"] == 50
    assert facts["oracle_makespan_seconds"] == 50
    assert "5 tasks on 2 machines" in run("chain.json", *MACHINES).stdout


def test_the_timeline_is_a_table(run: Call, folder: Path) -> None:
    run("jobs.csv", *MACHINES, "--strategies", "auto", "--timeline", "over-time.csv")
    with (folder / "over-time.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"strategy", "seconds", "resource", "category", "committed", "used", "first_allocation"}
    assert {row["strategy"] for row in rows} == {"auto", "oracle"}
    assert {row["category"] for row in rows} == {"", "large", "small"}
    both = [float(row["committed"]) for row in rows[:3]]
    assert both[0] == pytest.approx(both[1] + both[2])
    assert all(float(row["used"]) <= float(row["committed"]) * 1.000001 for row in rows)


def test_results_do_not_depend_on_how_many_processes_work(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("jobs.csv", *MACHINES, "--strategies", "auto,max-seen", "--json")
    alone = run(*words).facts
    monkeypatch.setattr("tonnage.cli.replay.run._FEW", 0)
    assert run(*words).facts == alone


def test_by_none_all_jobs_are_one_category(run: Call) -> None:
    facts = run("jobs.csv", *MACHINES, "--by", "none", "--strategies", "auto", "--json").facts
    assert set(facts["results"][0]["timeline"]["memory"]["first_allocation"]) == {"all"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("jobs.csv", "--machines", "2x4c3GB"),
            'a job of "small" used 5 GB of memory, but the largest machine has 3 GB',
        ),
        (("jobs.csv", "--machines", "many"), '"many" does not name machines'),
        (("jobs.csv",), "--machines"),
        (("jobs.csv", *MACHINES, "--strategies", "density"), '"density" is unknown'),
        (("unknown.json", *MACHINES), "run times of its tasks are unknown"),
        (("chain.json", *MACHINES, "--by", "user"), "--by does not apply to a workflow"),
        (("chain.json", *MACHINES, "--where", "memory>1GB"), "--where cannot be used with a workflow"),
        (("jobs.csv", *MACHINES, "--where", "memory>1TB"), "no finished job has a known run time"),
        (("nothing.csv", *MACHINES), "nothing.csv"),
    ],
)
def test_what_cannot_be_played_is_said(run: Call, words: tuple[str, ...], message: str) -> None:
    assert message in run(*words, status=2).stderr


def test_what_nobody_measured_is_said(run: Call, folder: Path) -> None:
    (folder / "timed.csv").write_text("category,wall_time\na,5s\na,6s\n")
    done = run("timed.csv", *MACHINES)
    assert "the memory used is unknown for every job" in done.stderr
    assert "committed" not in done.stdout
