"""``tonnage generate`` as its users call it."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tonnage.workflow import WRITERS, read
from tonnage.workflow.families import FAMILIES


@pytest.fixture
def run(command_line: CommandLine) -> Call:
    return partial(command_line, "generate")


def test_help_lists_every_family_with_its_description(run: Call) -> None:
    text = run("--help").stdout
    for name, family in FAMILIES.items():
        assert f"  {name} " in text
        assert family.description in text
    assert "  jobs " in text
    assert "Example: tonnage generate" in text


def test_help_names_every_format_that_can_be_written(run: Call) -> None:
    text = run("--help").stdout
    for writer in WRITERS.values():
        assert f"{writer.endings[0]} (" in " ".join(text.split())


@pytest.mark.parametrize("name", [*FAMILIES, "jobs"])
def test_every_family_has_help_with_an_example_and_its_default_size(run: Call, name: str) -> None:
    text = run(name, "--help").stdout
    assert f"Example: tonnage generate {name} " in text
    assert f"default: {FAMILIES[name].tasks if name in FAMILIES else 2000}" in " ".join(text.split())
    assert "`" not in text


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_written_can_be_read_again(run: Call, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    run(name, "--tasks", max(120, FAMILIES[name].least), "--seed", 5, "-o", path)
    workflow = read(path)
    expected = FAMILIES[name].generate(max(120, FAMILIES[name].least), 5)
    assert workflow.graph == expected.graph
    assert [task.name for task in workflow.tasks] == [task.name for task in expected.tasks]
    assert workflow.categories == expected.categories


@pytest.mark.parametrize("ending", ["dag", "json", "mf", "jx"])
def test_the_ending_chooses_the_format_and_all_carry_the_same_graph(run: Call, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"airsn.{ending}"
    run("airsn", "--width", 4, "-o", path)
    assert read(path).graph == FAMILIES["airsn"].generate(width=4).graph


def test_it_says_what_was_written_beside_the_standard_output(run: Call, tmp_path: Path) -> None:
    result = run("airsn", "-o", tmp_path / "airsn.dag")
    assert result.stdout == ""
    assert result.stderr == f"{tmp_path}/airsn.dag: 773 tasks, 1,270 dependencies, 25 levels\n"


def test_the_same_seed_writes_the_same_file(run: Call, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("sipht", "--tasks", 100, "--seed", seed, "-o", tmp_path / f"{name}.json")
    first, same, other = ((tmp_path / f"{name}.json").read_bytes() for name in "abc")
    assert first == same != other


def test_options_of_a_family_reach_it(run: Call, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    run("airsn", "--width", 3, "--fringes-first", "-o", path)
    assert read(path).tasks[0].category == "fringe"
    run("fork-join", "--tasks", 20, "--stages", 3, "-o", path)
    assert len(read(path).graph.widths) == 7
    run("random-layered", "--layers", 4, "--parents", 1.5, "--tasks", 80, "-o", path)
    assert len(read(path).graph.widths) == 4
    run("ligo", "--tasks", 200, "--overlap", "-o", path)
    assert read(path).graph == FAMILIES["ligo"].generate(200, overlap=True).graph


def test_an_unknown_family_is_refused_with_the_valid_ones(run: Call) -> None:
    result = run("montaje", "-o", "x.dag", status=2)
    assert '"montaje" is not a family' in result.stderr
    for name in (*FAMILIES, "jobs"):
        assert name in result.stderr


def test_two_sizes_are_refused(run: Call, tmp_path: Path) -> None:
    result = run("airsn", "--width", 3, "--tasks", 40, "-o", "x.dag", status=2)
    assert "give only one of them" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("montage", "--tasks", 3), ("airsn", "--width", 0), ("ligo", "--tasks", 10**12)])
def test_a_size_that_cannot_be_is_an_input_error(run: Call, arguments: tuple[object, ...], tmp_path: Path) -> None:
    assert run(*arguments, "-o", "x.dag", status=2).stderr.startswith("tonnage: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [("montage",), ("montage", "-o", "x.dag", "--seed", "-1"), ("jobs", "-o", "x", "--peaks", "none")]
)
def test_a_wrong_call_is_a_usage_error(run: Call, arguments: tuple[str, ...]) -> None:
    assert "see tonnage generate" in run(*arguments, status=2).stderr


def test_an_ending_that_names_no_format_is_refused(run: Call, tmp_path: Path) -> None:
    result = run("fork-join", "-o", "x.png", status=2)
    assert 'has the extension ".png"' in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_job_log_is_a_csv_file(run: Call, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    result = run("jobs", "--peaks", "trimodal", "--jobs", 300, "--categories", 2, "--seed", 1, "-o", path)
    assert result.stderr == f"{path}: 300 jobs, 2 categories\n"
    lines = path.read_text().splitlines()
    assert lines[0] == "category,cores,memory,disk,cpu_time,wall_time,input_size"
    assert len(lines) == 301


def test_help_of_the_whole_program_needs_nothing_heavy() -> None:
    heavy = ("numpy", "rich", "tonnage.workflow")
    code = f"import sys, tonnage.cli.generate; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
