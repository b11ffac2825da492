"""`tonnage show`, and what every verb promises: exit status, errors, JSON, speed of help."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tonnage import __version__
from tonnage.errors import InputError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def tonnage(command_line: CommandLine) -> CommandLine:
    """Call ``tonnage`` on a terminal of 100 columns."""
    command_line.variables["COLUMNS"] = "100"
    return command_line


def test_json_holds_the_facts_under_the_keys_that_scripts_rely_on(tonnage: CommandLine) -> None:
    result = tonnage("show", EXAMPLES / "kmers" / "kmers.dag", "--json")
    assert result.stderr == ""
    facts = result.facts
    assert {key: facts[key] for key in ("tasks", "dependencies", "levels", "width", "format")} == {
        "tasks": 26,
        "dependencies": 32,
        "levels": 8,
        "width": 8,
        "format": "dagman",
    }
    assert facts["categories"] == {"count": 8, "filter": 8, "merge": 7, "simulate": 1, "spectrum": 1, "split": 1}
    assert facts["critical_path_seconds"] is None
    assert facts["total_seconds"] is None
    assert facts["tasks_per_level"] == [1, 1, 8, 8, 4, 2, 1, 1]


def test_times_are_summed_where_they_are_known(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "chain.dax"
    jobs = "".join(f'<job id="j{n}" name="step" runtime="{n}.5"/>' for n in range(4))
    links = "".join(f'<child ref="j{n + 1}"><parent ref="j{n}"/></child>' for n in range(2))
    path.write_text(f"<adag>{jobs}{links}</adag>")
    facts = tonnage("show", path, "--json").facts
    assert facts["critical_path_seconds"] == pytest.approx(4.5)
    assert facts["critical_path"] == ["j0", "j1", "j2"]
    assert facts["total_seconds"] == pytest.approx(8.0)


def test_the_table_and_the_picture(tonnage: CommandLine) -> None:
    result = tonnage("show", EXAMPLES / "kmers" / "kmers.dag")
    for text in ("kmers.dag", "dagman", "26", "critical path", "contains no run times", "1 core, 2 GiB memory", "████"):
        assert text in result.stdout, text


def test_what_is_known_about_a_category_stands_in_table_and_json(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.dag"
    path.write_text(
        "SUBMIT-DESCRIPTION big {\n request_memory = $(m)\n}\nJOB a big\nJOB b big\nJOB c big\n"
        'VARS a m="1 GB"\nVARS b m="3000 MB"\n'
    )
    assert "1 GiB to 2.93 GiB memory (2 of 3)" in tonnage("show", path).stdout
    facts = tonnage("show", path, "--json").facts
    assert facts["per_category"]["big"] == {
        "tasks": 3,
        "median_seconds": None,
        "total_seconds": None,
        "largest_memory": None,
        "requests": {"memory": {"tasks": 2, "least": 2**30, "most": 3000 * 2**20}},
    }


def test_the_first_task_without_a_run_time_is_named(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.dax"
    path.write_text('<adag><job id="a" name="x" runtime="1"/><job id="b" name="x"/></adag>')
    assert "1 of 2 tasks have no run time (first: b)" in tonnage("show", path).stdout


def test_a_deep_workflow_is_folded_and_long_names_keep_their_ends(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "chain.dag"
    long = "NFCORE." * 12
    nodes = [f"SUBMIT-DESCRIPTION {long}ALIGN {{\n}}"] + [f"JOB n{n} {long}ALIGN" for n in range(1000)]
    path.write_text("\n".join(nodes + [f"PARENT n{n} CHILD n{n + 1}" for n in range(999)]) + "\n")
    tonnage.variables["COLUMNS"] = "80"
    output = tonnage("show", path).stdout
    assert "1 each" in output
    assert ".ALIGN " in output
    assert len(output.splitlines()) < 45
    assert max(map(len, output.splitlines())) <= 80
    assert all(line == line.rstrip() for line in output.splitlines())


def test_a_terminal_that_knows_few_letters_gets_what_it_can_print() -> None:
    command = [sys.executable, "-m", "tonnage", "show", str(EXAMPLES / "kmers" / "kmers.dag")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "####" in output


def test_nothing_in_a_file_can_command_the_terminal(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.dag"
    path.write_bytes(b"JOB a x\x1b[31mred.sub\n")
    result = tonnage("show", path)
    assert "\x1b" not in result.stdout + result.stderr
    path.write_bytes(b"JUMP\x1b[31m a\n")
    assert "\x1b" not in tonnage("show", path, status=2).stderr


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "--json >/dev/full"])
def test_output_that_cannot_be_written_is_no_traceback(redirection: str) -> None:
    command = f"{sys.executable} -m tonnage show {EXAMPLES}/kmers/kmers.dag {redirection}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == (0 if redirection == ">&-" else 1)
    assert "Traceback" not in result.stderr


def test_standard_input_is_a_workflow_too(tonnage: CommandLine) -> None:
    text = (EXAMPLES / "kmers" / "lanes.dag").read_text()
    tonnage.folder = EXAMPLES / "kmers"
    assert tonnage("show", "-", "--json", stdin=text).facts["tasks"] == 16


def test_a_file_of_unknown_kind_is_a_list_of_commands_only_if_that_is_said(
    tonnage: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "tasks.conf").write_text("./simulate 1\n./simulate 2\n")
    refused = tonnage("show", "tasks.conf", "--json", status=2).stderr
    assert "is in no workflow format that Tonnage reads" in refused
    assert "--from text" in refused
    named = tonnage("show", "tasks.conf", "--from", "text", "--json")
    assert (named.facts["format"], named.stderr) == ("text", "")


def test_a_dot_file_is_written_beside_the_table(tonnage: CommandLine, tmp_path: Path) -> None:
    tonnage("show", EXAMPLES / "kmers" / "kmers.dag", "--dot", "k.dot")
    assert (tmp_path / "k.dot").read_text().count("->") == 32


def test_a_gzipped_workflow_with_another_ending(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "whatever"
    path.write_bytes(gzip.compress(b"JOB A {\n}\nJOB B {\n}\nPARENT A CHILD B\n"))
    facts = tonnage("show", path, "--json").facts
    assert (facts["tasks"], facts["dependencies"], facts["format"]) == (2, 1, "dagman")


def test_the_format_can_be_named(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("JOB A b.sub\n")
    assert tonnage("show", path, "--json", "--from", "text").facts["format"] == "text"


def test_warnings_go_to_standard_error_and_into_json(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.dag"
    path.write_text("JOB A absent.sub\n")
    result = tonnage("show", path, "--json")
    assert 'warning: submit file "absent.sub" is missing' in result.stderr
    assert len(result.facts["warnings"]) == 1


def test_an_error_is_one_line_with_file_line_and_hint_and_status_2(tonnage: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.dag"
    path.write_text("JOB align-7 a.sub\nJOB B a.sub\nPARENT B CHILD align_7\n")
    result = tonnage("show", path, status=2)
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f'tonnage: {path}:3: "align_7" is not defined by any JOB, SUBDAG or SPLICE line',
        '  did you mean "align-7"?',
    ]
    with pytest.raises(InputError):
        tonnage("--debug", "show", path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "Missing argument"),
        (["show", "/nowhere/x.dag"], "no such file"),
        (["show", "/"], "is a folder"),
        (["show", "x", "--colour"], "tonnage show has no option --colour"),
        (["sail"], 'tonnage has no verb "sail"'),
        (["show", str(EXAMPLES / "kmers" / "kmers.dag"), "--dot", "x.svg"], "expected a name ending in .dot or .gv"),
        (["show", str(EXAMPLES / "kmers" / "kmers.dag"), "--dot", "--json"], "expected a name ending in .dot or .gv"),
        (["show", str(EXAMPLES / "kmers" / "count.sub")], "is not a workflow"),
        (["generate", "jobs", "-o", "jobs.dag"], "expected a name ending in .csv"),
        (["generate", "airsn", "-o", "nowhere/x.dag"], "there is no folder nowhere"),
    ],
)
def test_a_wrong_call_has_status_2(tonnage: CommandLine, arguments: list[str], message: str) -> None:
    assert message in tonnage(*arguments, status=2).stderr


def test_version_and_help(tonnage: CommandLine) -> None:
    assert tonnage("--version").stdout == f"tonnage {__version__}\n"
    for arguments in (["--help"], ["show", "--help"], ["generate", "--help"]):
        assert "Example" in tonnage(*arguments).stdout


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from tonnage.cli import main; main(['--help']); print('LOADED', *sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split("LOADED")[1].split())
    assert not loaded & {"numpy", "numba", "rich", "yaml", "json", "tonnage.workflow.model", "sqlalchemy"}


def test_a_reader_that_closes_early_is_no_error() -> None:
    command = f"{sys.executable} -m tonnage show {EXAMPLES}/kmers/kmers.dag --json | head -1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert result.stdout == "{\n"
    assert result.stderr == ""
