"""The documentation is true: its commands work, and every verb and option is documented."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.command_line import NEED_A_PROCESS, CommandLine, verbs
from tonnage.cli import VERBS

TOP = Path(__file__).resolve().parents[1]
ELSEWHERE = ("slurm.md", "htcondor.md")  # what needs a cluster or pool is tested in tests/slurm and tests/htcondor
PAGES = [*sorted((TOP / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[str]:
    found = [line for block in _BLOCK.findall(page.read_text()) for line in block.splitlines()]
    return [line[2:] for line in found if line.startswith("$ ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples."""
    shutil.copytree(TOP / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page) and page.name not in ELSEWHERE],
    ids=lambda page: page.name,
)
def test_the_commands_of_a_page_work_one_after_the_other(
    page: Path, folder: Path, command_line: CommandLine, one_core: None
) -> None:
    for command in commands(page):
        if words := plain_words(command):
            command_line(*words)
        else:
            run(["bash", "-c", command], folder)


def plain_words(command: str) -> list[str]:
    """Return the words of a ``tonnage`` call that needs neither a shell nor its own process, else nothing."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    program, *words = lexer
    of_a_shell = any(not set(word) - set("();<>|&") for word in words)
    return words if program == "tonnage" and words[0] not in NEED_A_PROCESS and not of_a_shell else []


PROGRAMS = _PROGRAM.findall((TOP / "docs" / "python.md").read_text())  # other pages show pieces of programs


@pytest.mark.parametrize("text", PROGRAMS, ids=range(len(PROGRAMS)))
def test_the_programs_of_the_page_on_python_work(text: str, folder: Path, command_line: CommandLine) -> None:
    command_line("generate", "jobs", "-o", folder / "jobs.csv")  # which the page names
    (folder / "program.py").write_text(text)
    run([sys.executable, "program.py"], folder)


def run(command: list[str], folder: Path) -> None:
    environment = {
        **os.environ,
        "TONNAGE_ARCHIVE": str(folder / "archive.db"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command[-1]}\n{result.stderr}"


ALL = verbs()


@pytest.mark.parametrize(("name", "verb"), ALL, ids=[name for name, _ in ALL])
def test_every_verb_and_option_is_documented_and_has_an_example(name: str, verb: click.Command) -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    assert name.rsplit(maxsplit=1)[-1] in text
    for option in verb.params:
        if isinstance(option, click.Option):
            assert any(f"{spelling}" in text for spelling in option.opts), option.name
    assert "Example" in (verb.help or ""), f"the help of {name} has no example"


def test_every_module_in_the_command_line_is_a_verb() -> None:
    folder = TOP / "src" / "tonnage" / "cli"
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    modules = {path.stem for path in folder.glob("*.py")} - {
        "__init__",
        "clusters",
        "console",
        "groups",
        "options",
        "pack_live",
        "source_options",
        "strategies",
        "tables",
        "run_summary",
        "run_view",
    }
    assert modules | packages == set(VERBS)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, TOP / "README.md", TOP / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
