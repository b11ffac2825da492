"""What authors wrote is respected, and what is learnt has a scope: the findings of first contact."""

from pathlib import Path

import pytest

from tests.run.cli_runs import Place

MIB = 2**20


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "here"
    folder.mkdir()
    return Place(folder)


def memories(place: Place) -> list[tuple[int | None, str]]:
    """Return what the attempts of the newest run were given, and why."""
    return [
        (row.allocated.memory, next(one.reason for one in row.decisions if one.resource == "memory"))
        for row in place.rows()
    ]


def rules(memory: int, tasks: int = 2) -> str:
    lines = "".join(f"out{number}:\n\tsleep 0.05; echo {number} > out{number}\n\n" for number in range(tasks))
    return f"CATEGORY=align\nMEMORY={memory}\n{lines}"


def test_no_task_gets_less_than_its_author_wrote_until_that_is_asked_for(place: Place) -> None:
    """First contact: MEMORY=2000, and killed at 53 MB, then 80, then 115."""
    place.write("w.makeflow", rules(600))
    first = place.call("run", "w.makeflow")
    assert first.status == 0, first.stderr
    assert "tasks got what they request, but need less: with --override-requests they would take" in first.stdout
    assert " of memory instead of " in first.stdout
    again = place.call("run", "w.makeflow", "--new", "--json")
    assert [memory for memory, _ in memories(place)] == [600 * MIB] * 2
    assert memories(place)[0][1].startswith("as requested; earlier runs of this task stayed within")
    saved = again.facts["overridable"]["memory"]
    assert 0 < saved["learnt"] < saved["held"]
    overridden = place.call("run", "w.makeflow", "--new", "--override-requests")
    assert "--override-requests" not in overridden.stdout
    assert all(memory is not None and memory < 100 * MIB for memory, _ in memories(place))


def test_requests_are_overridden_by_category_and_in_the_configuration(place: Place) -> None:
    place.write("w.makeflow", rules(600, tasks=1) + "CATEGORY=merge\nMEMORY=500\nm:\n\ttouch m\n")
    assert place.call("run", "w.makeflow").status == 0
    given = {"align": 600 * MIB, "merge": 500 * MIB}
    for name, options in (("merge", ["--override-requests=merge"]), ("align", [])):
        if not options:
            place.write("tonnage.toml", f'override-requests = "{name}, not-here"\n')
        assert place.call("run", "w.makeflow", "--new", *options).status == 0
        for row in place.rows():
            less = row.allocated.memory is not None and row.allocated.memory < given[row.category]
            assert less == (row.category == name)
    said = place.call("run", "w.makeflow", "--override-requests=merg")
    assert (said.status, "did you mean merge?" in said.stderr) == (2, True)


def test_what_is_learnt_from_can_be_said(place: Place) -> None:
    place.write("old.txt", "# category: align\nsleep 0.01\nsleep 0.02\n")
    place.write("new.txt", "# category: align\nsleep 0.03\n")
    assert place.call("run", "old.txt").status == 0
    unknown, known = "nothing is known about align yet", "auto of 2 jobs"

    def why(*options: str) -> str:
        said = place.call("run", "new.txt", "--dry-run", "--new", *options)
        assert said.status == 0, said.stderr
        return said.stdout

    assert unknown in why()
    for named in ("old.txt", "old", "workflow=old,category=al*"):
        assert known in why("--learn-from", named)
    assert place.call("run", "new.txt").status == 0
    assert "earlier runs of this task" in why()
    assert unknown in why("--no-history")
    for wrong, hint in (("nobody", "no finished job"), ("usr=ada", "did you mean user?")):
        said = place.call("run", "new.txt", "--dry-run", "--new", "--learn-from", wrong)
        assert (said.status, hint in said.stderr) == (2, True)


def test_a_task_keeps_what_it_used_before_when_the_workflow_grows(place: Place) -> None:
    place.write("w.txt", "# category: align\nsleep 0.01\n")
    assert place.call("run", "w.txt").status == 0
    place.write("w.txt", "# category: align\nsleep 0.01\nsleep 0.02\n")
    said = place.call("run", "w.txt", "--dry-run", "--new").stdout
    assert "earlier runs of this task stayed within" in said
    assert "auto of 1 job" in said
