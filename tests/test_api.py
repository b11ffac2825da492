"""What Python programs call: the same answers as the command line's, and nothing but what is documented."""

import inspect
import logging
from pathlib import Path

import pytest

import tonnage
from tests.command_line import CommandLine
from tonnage.size.export import EXPORTERS

TOP = Path(__file__).parents[1]
ROWS = [("align", 400 + 10 * number, 60) for number in range(30)] + [("<b>sort</b>", 50, 5)] * 10
TABLE = "category,memory,wall_time\n" + "".join(f"{name},{memory}MB,{seconds}s\n" for name, memory, seconds in ROWS)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    return path


def test_the_page_on_python_has_every_public_name() -> None:
    page = (TOP / "docs" / "python.md").read_text()
    for name in tonnage.__all__:
        assert name == "__version__" or f"`{name}`" in page, name
        assert name == "__version__" or inspect.getdoc(getattr(tonnage, name)), name


def test_recommendations_are_those_of_the_command_line(log: Path, command_line: CommandLine) -> None:
    found = tonnage.recommend(log, machine={"memory": "64GB"})
    said = command_line("size", log, "--machine", "memory=64GB", "--json").facts["allocations"]
    assert [one.facts() for one in found] == said
    for tool in EXPORTERS:
        assert found.settings(tool) == command_line("size", log, "--machine", "memory=64GB", "--format", tool).stdout


def test_jobs_that_were_read_before_are_sized_alike(log: Path) -> None:
    jobs = tonnage.read_jobs(log)
    assert len(jobs) == len(ROWS)
    assert tonnage.recommend(jobs) == tonnage.recommend(log)
    some = [job for job in jobs if job.category == "align"]
    assert {one.category for one in tonnage.recommend(some)} == {"align"}


def test_an_archive_is_a_source_too(log: Path, command_line: CommandLine, tmp_path: Path) -> None:
    command_line("archive", "import", log, "--archive", tmp_path / "a.db")
    assert len(tonnage.read_jobs(tmp_path / "a.db", where=["memory>100MB"])) == 30
    assert len(tonnage.recommend(tmp_path / "a.db", resources=["memory"])) == 2


def test_columns_and_units_of_a_table_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("what,peak\na,2\n")
    jobs = tonnage.read_jobs(
        tmp_path / "odd.csv", columns={"category": "what", "memory": "peak"}, units={"memory": "GB"}
    )
    assert [(job.category, job.used.memory) for job in jobs] == [("a", 2e9)]


def test_recommendations_can_be_read_and_shown(log: Path) -> None:
    found = tonnage.recommend(log, resources=["memory"], strategy="max-seen")
    lines = str(found).splitlines()
    assert lines[0].split()[:3] == ["category", "jobs", "resource"]
    assert any(line.startswith("align ") and "690 MB" in line for line in lines)
    page = found._repr_html_()
    assert "<b>sort" not in page
    assert "&lt;b&gt;sort&lt;/b&gt;" in page


def test_the_task_with_the_highest_priority_is_the_first_in_order(command_line: CommandLine) -> None:
    path = TOP / "examples" / "kmers" / "kmers.dag"
    workflow = tonnage.prioritise(tonnage.read(path), "prio")
    expected = command_line("rank", path, "--json").facts["priorities"]
    assert {task.name: task.priority for task in workflow.tasks} == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "magic"}, '"magic" is not a strategy'),
        ({"machine": {"ram": 3}}, '"ram" is not a resource'),
        ({"machine": {"memory": 0}}, "memory must be more than 0"),
        ({"resources": ["gpus"]}, '"gpus" cannot be recommended'),
    ],
)
def test_a_wrong_call_says_what_is_wrong(log: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(tonnage.InputError, match=message):
        tonnage.recommend(log, **options)  # type: ignore[arg-type]


def test_files_and_jobs_are_not_mixed(log: Path) -> None:
    with pytest.raises(tonnage.InputError, match="files and jobs"):
        tonnage.recommend(log, tonnage.read_jobs(log))
    with pytest.raises(tonnage.InputError, match='no settings for "excel"'):
        tonnage.recommend(log).settings("excel")
    with pytest.raises(tonnage.InputError, match="no jobs that ran"):
        tonnage.recommend([])


def test_what_is_skipped_is_logged(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.write_text(TABLE + "align,much,60s\n")
    with caplog.at_level(logging.WARNING, "tonnage"):
        assert len(tonnage.read_jobs(log)) == len(ROWS)
    assert "skipped 1 row" in caplog.text


def test_density_sizes_the_clusters_of_jobs_here_too(log: Path, command_line: CommandLine) -> None:
    said = command_line("size", log, "--strategy", "density", "--json").facts["allocations"]
    for found in (
        tonnage.recommend(log, strategy="density"),
        tonnage.recommend(tonnage.read_jobs(log), strategy="density"),
    ):
        assert [one.facts() for one in found] == said
