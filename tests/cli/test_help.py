"""What users get who mistype, or ask for help as they would elsewhere."""

import re
from pathlib import Path

import pytest

from tests.command_line import CommandLine, verbs
from tonnage.errors import InputError
from tonnage.option_values import amounts


@pytest.mark.parametrize("name", [name for name, _ in verbs()])
def test_help_of_a_verb_is_what_its_option_shows(command_line: CommandLine, name: str) -> None:
    words = name.split()
    assert command_line("help", *words).stdout == command_line(*words, "--help").stdout


def test_help_alone_lists_the_verbs(command_line: CommandLine) -> None:
    assert command_line("help").stdout == command_line("--help").stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sise"], ['tonnage has no verb "sise"', "did you mean size?"]),
        (["archive", "imprt"], ['tonnage archive has no verb "imprt"', "did you mean import?"]),
        (["help", "replay", "pak"], ['tonnage replay has no verb "pak"', "did you mean pack?"]),
        (["xyzzy"], ['tonnage has no verb "xyzzy"', "see tonnage --help"]),
        (["size", "x", "--mach", "8G"], ["tonnage size has no option --mach", "did you mean --machine?\n"]),
        (["size", "x", "--stratgey", "auto"], ["tonnage size has no option --stratgey", "did you mean --strategy?\n"]),
        (["size", "x", "--xyzzy"], ["tonnage size has no option --xyzzy", "see tonnage size --help"]),
    ],
)
def test_a_mistyped_verb_or_option_gets_a_suggestion(
    command_line: CommandLine, words: list[str], expected: list[str]
) -> None:
    said = command_line(*words, status=2).stderr
    assert all(text in said for text in expected), said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["size", "jobs.csv", "--strategy", "atuo"], "did you mean auto?"),
        (["rank", "w.mf", "--method", "critical"], "did you mean critical-path?"),
        (["size", "jobs.csv", "--machne", "cores=3"], "--machine"),
        (["size", "jobs.csv", "--strateg", "auto"], "--strategy"),
    ],
)
def test_a_mistyped_option_or_name_gets_a_suggestion(
    command_line: CommandLine, words: list[str], expected: str
) -> None:
    assert expected in command_line(*words, status=2).stderr


@pytest.mark.parametrize(
    ("name", "content", "page"),
    [
        ("Snakefile", 'rule all:\n    input: "x"\n', "docs/workflows.md#snakemake"),
        ("main.nf", "process a {\n}\n", "docs/workflows.md#nextflow"),
        ("a.cwl", "cwlVersion: v1.2\n", "docs/workflows.md#cwl-and-wdl"),
        ("a.wdl", "version 1.0\n", "docs/workflows.md#cwl-and-wdl"),
    ],
)
def test_the_refusal_of_another_tools_workflow_names_the_page_for_it(
    command_line: CommandLine, tmp_path: Path, name: str, content: str, page: str
) -> None:
    (tmp_path / name).write_text(content)
    assert page in command_line("show", tmp_path / name, status=2).stderr
    file, _, section = page.partition("#")
    titles = re.findall(r"^#+ (.*)$", (Path(__file__).parents[2] / file).read_text(), re.MULTILINE)
    assert section in [title.lower().replace(" ", "-") for title in titles]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("8GB", "did you mean memory=8GB?"),
        ("8", "did you mean cores=8?"),
        ("mem=8GB", "did you mean memory?"),
        ("core=8", "did you mean cores?"),
        ("big", "example: cores=16,memory=64GB"),
        ("memory", "example: cores=16,memory=64GB"),
        ("memory=64G", "write 64GB (powers of 1000) or 64GiB"),
    ],
)
def test_an_amount_that_is_wrong_gets_a_suggestion(given: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        amounts([given], "--machine")
    assert hint in str(caught.value.hint)
