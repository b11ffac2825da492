"""The files of attempts: Tonnage moves what an attempt wrote, and nothing else."""

import time
from pathlib import Path

import pytest

from tests.run.cli_runs import Place
from tests.waiting import until
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.minders import Answer
from tonnage.run.outcomes import judge
from tonnage.workflow import Task


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "w").mkdir()
    return Place(tmp_path / "w")


def mine(place: Place, *names: str) -> None:
    """Write files, and wait until none of them can be taken for one that an attempt writes."""
    for name in names:
        path = place.write(name, "mine")
    until(lambda: time.time() > path.stat().st_ctime + 0.1)


def rules(**commands: str) -> str:
    return "".join(f"{output}: \n\t{command}\n" for output, command in commands.items())


def test_of_a_folder_only_what_a_failed_attempt_wrote_is_moved_away(place: Place) -> None:
    (place.folder / "empty").mkdir()
    mine(place, "results/notes", "results/deep/notes")
    results = "echo half > results/half; echo half > results/deep/half; false"
    empty, made = "echo half > empty/half; false", "mkdir made && echo half > made/half; false"
    place.write("w.mf", rules(results=results, empty=empty, made=made) + ".: \n\techo half > here; false\n")
    assert place.call("run", "w.mf", "--retries", "1").status == 1
    left = {str(path.relative_to(place.folder)) for path in place.folder.rglob("*") if ".tonnage" not in path.parts}
    assert left == {"empty", "here", "results", "results/deep", "results/deep/notes", "results/notes", "w.mf"}
    partial = place.runs()[0].partial
    moved = [path.relative_to(partial).parts[1:] for path in partial.rglob("half")]
    found = sorted("/".join(parts) for parts in moved)
    assert found == sorted(["results/half", "results/deep/half", "empty/half", "made/half"] * 2)


def test_what_an_attempt_cannot_have_written_is_not_moved_away(tmp_path: Path) -> None:
    task = Task("t", "false", outputs=("later", "before"))
    files = Files(tmp_path, RunFolder(tmp_path / "run"))
    now = time.time()
    (tmp_path / "before").write_text("mine")
    (tmp_path / "later").write_text("mine")
    files.reject(task, 1, now - 100, now - 50)  # an engine was killed, and the user went on by hand
    files.prepare(task, 2)
    files.reject(task, 2, now - 100)  # the clock was set back
    judge(Answer(3), task, files)  # it never started
    assert {path.name for path in tmp_path.iterdir()} == {"before", "later"}


def test_a_folder_from_a_sandbox_is_added_to_the_one_that_is_there(place: Place) -> None:
    mine(place, "results/notes", "results/all")
    place.write("w.mf", rules(results="mkdir -p results/deep && echo new | tee results/all > results/deep/x"))
    assert place.call("run", "w.mf", "--sandbox").status == 0
    found = {path.name: path.read_text() for path in (place.folder / "results").rglob("*") if path.is_file()}
    assert found == {"notes": "mine", "all": "new\n", "x": "new\n"}
