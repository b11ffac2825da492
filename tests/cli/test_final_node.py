"""A DAGMan file whose only node is its FINAL one: nothing to rank or pack, but something to run."""

from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tests.run.cli_runs import Place
from tonnage.rank.methods import METHODS

ONLY_FINAL = "FINAL last {\n  executable = /bin/sh\n  arguments = \"-c 'echo hi > last.txt'\"\n}\n"
POOL = ("--on", "htcondor", "--machine", "cores=2,memory=2GB,disk=2GB")


@pytest.fixture
def call(slurm_programs: Path, command_line: CommandLine) -> Call:
    (slurm_programs / "only.dag").write_text(ONLY_FINAL)
    return partial(command_line, status=None)


@pytest.mark.parametrize("method", METHODS)
def test_rank_says_that_there_is_nothing_to_rank(method: str, call: Call) -> None:
    said = call("rank", "only.dag", "--method", method, "--explain")
    assert said.status == 0, said
    assert said.stdout == "there are no jobs to rank, only the final node last\n"


def test_rank_leaves_such_a_file_as_it_is(call: Call) -> None:
    for words in (("--in-place",), ("-o", "out.dag"), ("-o", "out.json"), ("-o", "out.csv")):
        said = call("rank", "only.dag", *words)
        assert said.status == 0, said
    assert Path("only.dag").read_text() == Path("out.dag").read_text() == ONLY_FINAL
    facts = call("rank", "only.dag", "--json").facts
    assert (facts["order"], facts["priorities"]) == ([], {})


def test_show_tells_of_the_final_node(call: Call) -> None:
    assert "final node     last" in call("show", "only.dag").stdout
    assert call("show", "only.dag", "--json").facts["special"] == {"last": "final"}


@pytest.mark.parametrize("words", [("pack", "only.dag", "--queue", "slurm"), ("replay", "rank", "only.dag")])
def test_where_there_is_nothing_to_compare_that_is_said(words: tuple[str, ...], call: Call) -> None:
    said = call(*words)
    assert (said.status, said.stderr) == (2, 'tonnage: workflow "only" has no tasks\n')


def test_run_runs_it(call: Call, tmp_path: Path) -> None:
    assert call("run", "only.dag", "--dry-run").status == 0
    place = Place(tmp_path)
    said = place.call("run", "only.dag", "--json")
    assert said.status == 0, said
    assert (said.facts["tasks"], said.facts["done"]) == (1, 1)
    assert (tmp_path / "last.txt").read_text() == "hi\n"


def test_a_dry_run_submits_no_empty_dag(call: Call) -> None:
    said = call("run", "only.dag", *POOL, "--dry-run")
    assert said.status == 0, said
    assert said.stdout.split("\n")[1:] == ["# left out, because tonnage run starts it itself: last", ""]
