"""``tonnage rank`` as its users call it."""

import csv
import os
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tonnage.rank import METHODS
from tonnage.workflow import read, write
from tonnage.workflow.families import FAMILIES

FIVE = "JOB a a.sub\nJOB b b.sub\nJOB c c.sub\nJOB d d.sub\nJOB e e.sub\nPARENT a CHILD b\nPARENT c CHILD d e\n"
"""The example of the PRIO paper."""
FIVE_RANKED = {"c": 5, "a": 4, "b": 3, "d": 2, "e": 1}


@pytest.fixture
def run(command_line: CommandLine, tmp_path: Path) -> Call:
    (tmp_path / "five.dag").write_text(FIVE)
    for name in "abcde":
        (tmp_path / f"{name}.sub").write_text("executable = /bin/true\nqueue\n")
    write(FAMILIES["airsn"].generate(83), tmp_path / "airsn.json")
    return partial(command_line, "rank")


def test_json_has_the_order_the_priorities_and_the_certificate(run: Call) -> None:
    facts = run("five.dag", "--json").facts
    assert (facts["method"], facts["order"]) == ("prio", ["c", "a", "b", "d", "e"])
    assert facts["priorities"] == FIVE_RANKED
    assert facts["mean_eligible"] == pytest.approx((2 + 3 + 3 + 2 + 1) / 5)
    assert facts["mean_eligible"] <= facts["bound"] <= 5
    assert facts["seconds"] >= 0
    assert facts["files"] == []


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ranks_and_explains(run: Call, method: str) -> None:
    facts = run("airsn.json", "--method", method, "--explain", "--json").facts
    assert sorted(facts["order"]) == sorted(facts["priorities"])
    assert facts["mean_eligible"] <= facts["bound"]
    assert bool(facts["explanation"]) == (method in ("prio", "sidney", "best"))
    said = run("airsn.json", "--method", method, "--explain").stdout
    assert "eligible on average" in said
    assert "below the best" in said


def test_a_table_for_people_is_short(run: Call) -> None:
    lines = run("airsn.json").stdout.splitlines()
    assert lines[0].split() == ["job", "category", "priority"]
    assert len(lines) == 23
    assert "63 more jobs" in lines[-2]


def test_priorities_go_into_a_dagman_file_and_all_other_bytes_stay(run: Call, tmp_path: Path) -> None:
    file = tmp_path / "five.dag"
    done = run("five.dag", "--in-place", "--backup")
    assert (tmp_path / "five.dag.bak").read_text() == FIVE
    ranked = file.read_text()
    assert ranked.startswith(FIVE)
    assert {task.name: task.priority for task in read(file).tasks} == FIVE_RANKED
    assert read(file).checksum == read(tmp_path / "five.dag.bak").checksum
    assert "five.dag: written" in done.stderr
    again = run("five.dag", "--in-place", "--backup")
    assert "already" in again.stderr
    assert file.read_text() == ranked
    assert not (tmp_path / "five.dag.bak1").exists()


def test_the_papers_form_is_written_on_demand(run: Call, tmp_path: Path) -> None:
    run("five.dag", "--in-place", "--legacy")
    assert 'VARS c JOBPRIORITY="5"' in (tmp_path / "five.dag").read_text()
    assert "priority = $(JOBPRIORITY:0)\nqueue" in (tmp_path / "c.sub").read_text()


def test_a_copy_leaves_the_workflow_alone(run: Call, tmp_path: Path) -> None:
    run("five.dag", "-o", "ranked.dag")
    assert (tmp_path / "five.dag").read_text() == FIVE
    assert (tmp_path / "ranked.dag").read_text().startswith(FIVE)
    assert run("five.dag", "-o", "/dev/stdout").stdout == (tmp_path / "ranked.dag").read_text()


def test_other_formats_get_their_own_field_or_a_table(run: Call, tmp_path: Path) -> None:
    order = run("airsn.json", "--json").facts["order"]
    run("airsn.json", "-o", "ranked.json")
    priorities = {task.name: task.priority for task in read(tmp_path / "ranked.json").tasks}
    assert [priorities[name] for name in order] == list(range(83, 0, -1))
    run("airsn.json", "-o", "order.csv")
    with (tmp_path / "order.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(int(row["place"]), row["task"]) for row in rows] == list(enumerate(order, start=1))
    run("airsn.json", "-o", "ranked.dag")
    assert {task.name: task.priority for task in read(tmp_path / "ranked.dag").tasks} == priorities


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("five.dag", "--in-place", "-o", "x.dag"), "cannot be combined"),
        (("five.dag", "--backup"), "--backup needs --in-place"),
        (("five.dag", "--legacy"), "add --output or --in-place"),
        (("airsn.json", "--in-place"), "only DAGMan files can be changed in place"),
        (("airsn.json", "--legacy", "-o", "x.dag"), "--legacy is only for DAGMan files"),
        (("five.dag", "-o", "five.dag"), "--in-place"),
        (("five.dag", "-o", "x.odd"), 'has the extension ".odd"'),
        (("five.dag", "-o", "no/folder/x.dag"), "no folder"),
        (("missing.dag",), "no such file"),
        (("cycle.dag", "--in-place"), "cycle"),
        (("splice.dag", "--in-place"), "does not exist"),
        (("five.dag", "--method", "magic"), "magic"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    run: Call, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "cycle.dag").write_text("JOB a a.sub\nJOB b b.sub\nPARENT a CHILD b\nPARENT b CHILD a\n")
    (tmp_path / "splice.dag").write_text("JOB a a.sub\nSPLICE s gone.dag\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert said in run(*words, status=2).stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_warnings_come_after_what_was_written(run: Call, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert "still relative" in run("five.dag", "-o", "sub/x.dag").stderr
    assert "still relative" not in run("five.dag", "-o", "no/folder/x.dag", status=2).stderr


def test_a_write_protected_file_stays(run: Call, tmp_path: Path) -> None:
    (tmp_path / "five.dag").chmod(0o444)
    assert "write-protected" in run("five.dag", "--in-place", status=2).stderr
    assert (tmp_path / "five.dag").read_text() == FIVE


def test_standard_input_and_pipes_cannot_be_read_twice(command_line: CommandLine, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w") as pipe:
        pipe.write(FIVE)
        pipe.close()
        for source, text in (("-", FIVE), (f"/dev/fd/{reader}", "")):
            done = command_line("rank", source, "--from", "dagman", "-o", "x.dag", stdin=text, status=2)
            assert "give a file name" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_shared_dagman_file_keeps_its_graph(run: Call, tmp_path: Path, data: Path) -> None:
    files = [path for path in sorted(data.glob("dagman/*.dag")) if "cycle-A" not in path.name]
    assert len(files) > 25
    for path in files[::6]:  # all of them in one process are in tests/workflow/test_dagman_priorities.py
        run(str(path), "-o", "copy.dag")
        copied = read(tmp_path / "copy.dag")
        assert copied.graph == read(path).graph
        assert sorted(task.priority or 0 for task in copied.tasks) == list(range(1, len(copied) + 1))
