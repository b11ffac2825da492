"""A batch system that Tonnage has never heard of: one folder is all that it takes to run workflows there."""

import ast
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import tonnage
from tests.pbs.programs import install
from tests.pbs.system import Pbs
from tests.run.cli_runs import check_journal
from tonnage.run.options import ClusterOptions, Options
from tonnage.run.session import Result, RunSession
from tonnage.workflow import Workflow, read

MAKEFLOW = """\
a.txt:
\techo a > a.txt

b.txt: a.txt
\tcat a.txt a.txt > b.txt

c.txt: a.txt
\tsort a.txt > c.txt

d.txt: b.txt c.txt
\tcat b.txt c.txt > d.txt
"""


class Silent:
    """A watcher of a run to whom nothing matters."""

    def started(self, *_: object) -> None: ...
    def seen(self, *_: object) -> None: ...
    def ended(self, *_: object) -> None: ...
    def tick(self, *_: object) -> None: ...


@pytest.fixture
def pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pbs]:
    # Batch jobs load the class that describes them: it is in this very package.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    yield Pbs(install(tmp_path / "pbs"))


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "w.makeflow").write_text(MAKEFLOW)
    return read(folder / "w.makeflow")


def session(workflow: Workflow, pbs: Pbs, pack: str) -> RunSession:
    assert workflow.source is not None
    archive = str(workflow.source.path.parent.parent / "archive.db")
    cluster = ClusterOptions(scheduler=pbs, pack=pack)
    return RunSession(workflow, Options(archive=archive, cluster=cluster))


def run(workflow: Workflow, pbs: Pbs, pack: str = "per-task") -> Result:
    with closing(session(workflow, pbs, pack)) as one:
        return one.go(Silent())


def is_up_to_date(workflow: Workflow, pbs: Pbs, pack: str) -> bool:
    with closing(session(workflow, pbs, pack)) as one:
        return one.nothing_to_do is not None


def test_a_workflow_runs_on_a_batch_system_that_nothing_else_knows(workflow: Workflow, pbs: Pbs) -> None:
    result = run(workflow, pbs)
    assert (result.done, result.failed) == (4, {})
    check_journal(result.run, workflow)
    assert workflow.source is not None
    assert (workflow.source.path.parent / "d.txt").read_text() == "a\na\na\n"
    assert result.run.path.joinpath("batches").is_dir()
    assert is_up_to_date(workflow, pbs, "per-task")


def test_many_tasks_share_a_pilot_job_there(workflow: Workflow, pbs: Pbs) -> None:
    run(workflow, pbs)  # it knows the run times from then on
    assert workflow.source is not None
    for name in "abcd":
        (workflow.source.path.parent / f"{name}.txt").unlink()
    result = run(workflow, pbs, "one-job")
    assert (result.done, result.failed) == (4, {})
    assert len(list(result.run.batches.iterdir())) == 1
    assert is_up_to_date(workflow, pbs, "one-job")


def test_nothing_outside_of_the_folder_of_a_batch_system_knows_its_variables() -> None:
    """What Slurm puts into the environment of a batch job is read in ``batch/slurm`` only; logs may name it."""
    package = Path(tonnage.__file__).parent
    guilty = [
        path.relative_to(package)
        for path in package.rglob("*.py")
        if "slurm" not in path.parts[-2:][0]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and str(node.value).startswith(("SLURM_", "SLURMD_"))
    ]
    assert guilty == []
