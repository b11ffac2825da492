"""``tonnage replay rank`` as its users call it."""

from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tonnage.rank import METHODS
from tonnage.workflow import write
from tonnage.workflow.families import FAMILIES


@pytest.fixture
def run(command_line: CommandLine, tmp_path: Path, one_core: None) -> Call:
    write(FAMILIES["airsn"].generate(83), tmp_path / "w.json")
    write(FAMILIES["fork-join"].generate(8), tmp_path / "small.json")
    return partial(command_line, "replay", "rank")


def test_prio_is_compared_with_first_in_first_out(run: Call) -> None:
    facts = run("w.json", "--batch", "8", "--samples", "30", "--runs", "20", "--json").facts
    (point,) = facts["points"]
    assert (point["arrival"], point["batch"], point["method"], point["baseline"]) == (1, 8, "prio", "fifo")
    time = point["execution_time"]
    assert 0.5 < time["low"] <= time["ratio"] <= time["high"] < 1.1
    assert facts["mean_eligible"]["prio"] > facts["mean_eligible"]["fifo"]


def test_the_same_seed_gives_the_same_numbers(run: Call) -> None:
    words = ("small.json", "--samples", "4", "--runs", "2", "--methods", "all", "--json")
    first, second, other = (run(*words, "--seed", seed) for seed in ("4", "4", "5"))
    assert first == second != other
    assert {one["method"] for one in first.facts["points"]} == set(METHODS) - {"fifo"}


def test_a_table_and_a_picture_for_people(run: Call) -> None:
    said = run("w.json", "--arrival", "1", "--arrival", "10", "--samples", "3", "--runs", "2").stdout
    assert [line.split()[:3] for line in said.splitlines()[1:3]] == [["prio", "1", "16"], ["prio", "10", "16"]]
    drawn = run("w.json", "--sweep", "--samples", "1", "--runs", "1").stdout
    assert "0.001" in drawn
    assert drawn.count("prio") == 8


@pytest.mark.parametrize(
    "words",
    [
        ("w.json", "--methods", "magic"),
        ("w.json", "--arrival", "0"),
        ("w.json", "--arrival", "nan"),
        ("w.json", "--batch", "0.001"),
        ("w.json", "--samples", "0"),
        ("w.json", "--sweep", "--batch", "2"),
        ("absent.dag",),
    ],
)
def test_a_wrong_call_is_refused(run: Call, words: tuple[str, ...]) -> None:
    assert run(*words, status=2).stderr.startswith("tonnage: ")
