"""What is known about a workflow's tasks: this very workflow first, then its other versions, and never a stranger."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tonnage.archive import Archive, import_source
from tonnage.archive.history import MOST, SEVERAL, Past, Wanted, past_of, recall
from tonnage.archive.identity import identity_of
from tonnage.archive.session import ArchiveSession
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.sources import Source

COMMANDS = frozenset(f"align sample{number}" for number in range(10))
OURS = Wanted(
    workflow="run",
    checksum="ours",
    folder="/home/ada/project",
    commands=COMMANDS,
    tasks=frozenset(f"t{number}" for number in range(20)),
    categories=frozenset(("align", "merge")),
)


def store(archive: Archive, folder: str, attempts: Sequence[Attempt]) -> None:
    """Store attempts as those of a run in a folder."""
    import_source(archive, Source(f"{folder}/.tonnage/runs/1", folder, "tonnage", iter(attempts)))


def attempt(
    number: int, checksum: str, *, category: str = "align", command: str = "other", **others: object
) -> Attempt:
    """An attempt that took as many megabytes as its number says."""
    facts = {"outcome": Outcome.DONE, "workflow": "run", **others}
    return Attempt(
        native_id=f"tonnage:{number}",
        workflow_checksum=checksum,
        task=f"t{number}",
        category=category,
        command=command,
        ended=float(number),
        used=Amounts.of(memory=number * 1e6),
        **facts,  # type: ignore[arg-type]
    )


def past(archive: Archive, wanted: Wanted = OURS) -> Past:
    """Ask an archive; a file says the same with and without SQLAlchemy."""
    found = past_of(archive, wanted)
    if archive.on_sqlite:
        with ArchiveSession(str(archive)) as session:
            assert session.past(wanted) == found
            assert session.archive.engine.dialect.name == "sqlite"  # from now on, its connections are used
            assert session.past(wanted) == found
    return found


def known(archive: Archive, wanted: Wanted = OURS) -> dict[str, list[int]]:
    """Return the megabytes of what is known of each category; a server sends just those."""
    found = past(archive, wanted).histories()
    sizes = {name: sorted(int(peak / 1e6) for peak in one.used[Resource.MEMORY]) for name, one in found.items()}
    sent: dict[str, list[int]] = {}
    for one in recall(archive, wanted):
        assert one.category is not None and one.used.memory is not None
        sent.setdefault(one.category, []).append(int(one.used.memory / 1e6))
    assert {name: sorted(peaks) for name, peaks in sent.items()} == sizes
    return sizes


def test_this_very_workflow_counts_before_any_other_version(archive: Archive) -> None:
    store(archive, "/home/bob/elsewhere", [attempt(1, "ours")])
    store(archive, "/home/ada/project", [attempt(2, "older"), attempt(3, "older", category="merge")])
    assert known(archive) == {"align": [1], "merge": [3]}


def test_a_name_counts_only_in_the_same_folder(archive: Archive) -> None:
    store(archive, "/home/ada/project-2", [attempt(1, "stranger")])
    assert known(archive) == {}
    store(archive, "/home/ada/project", [attempt(2, "older")])
    assert known(archive) == {"align": [2]}


@pytest.mark.parametrize(("shared", "is_known"), [(5, True), (4, False)])
def test_elsewhere_half_of_the_commands_must_be_the_same(archive: Archive, shared: int, is_known: bool) -> None:
    commands = [*sorted(COMMANDS)[:shared], "plot"]
    attempts = [attempt(number, "moved", command=command) for number, command in enumerate(commands, start=1)]
    store(archive, "/home/ada/moved", attempts)
    assert known(archive) == ({"align": list(range(1, shared + 2))} if is_known else {})


def test_a_version_in_which_nothing_finished_says_nothing(archive: Archive) -> None:
    store(archive, "/x", [attempt(1, "ours", outcome=Outcome.FAILED)])
    store(archive, "/home/ada/project", [attempt(2, "older")])
    assert known(archive) == {"align": [2]}


def test_a_program_is_known_by_the_name_that_it_gave_itself_and_names_are_no_patterns(archive: Archive) -> None:
    store(archive, "/x", [attempt(1, "a"), attempt(2, "b", workflow="r?n", category="other")])
    assert known(archive, Wanted(workflow="run")) == {"align": [1]}
    assert known(archive, Wanted(workflow="r?n")) == {"other": [2]}


def test_only_the_newest_count(archive: Archive) -> None:
    store(archive, "/x", [attempt(number, "ours") for number in range(MOST + 10)])
    (sizes,) = known(archive).values()
    assert sizes == list(range(10, MOST + 10))


def test_a_copy_under_another_name_is_known_by_its_commands(archive: Archive) -> None:
    attempts = [attempt(n, "copy", command=one, workflow="renamed") for n, one in enumerate(sorted(COMMANDS), start=1)]
    store(archive, "/home/ada/elsewhere", attempts)
    assert known(archive) == {"align": list(range(1, 11))}


def test_what_each_task_used_is_known_in_all_versions_of_its_workflow(archive: Archive) -> None:
    first, second = attempt(1, "ours"), attempt(2, "ours", command="align sample1")
    store(archive, "/home/ada/project", [first, second, replace(attempt(3, "older"), task="t1")])
    store(archive, "/home/bob", [replace(attempt(9, "stranger"), task="t1", command="align sample1")])
    peaks = {identity_of("run", "t1", "other"): 3e6, identity_of("run", "t2", "align sample1"): 2e6}
    assert past(archive).peaks == peaks


def test_other_workflows_are_good_for_a_guess_and_only_if_they_are_several(archive: Archive) -> None:
    """First contact: a new program was given 17 MB, because an unrelated rule had the same name."""
    wanted = replace(OURS, programs={"align": "bwa", "merge": "samtools"})
    strangers = [attempt(number, "stranger", workflow="other", executable="samtools") for number in range(1, SEVERAL)]
    store(archive, "/x", strangers)
    assert past(archive, wanted).others == {}
    store(archive, "/x", [attempt(8, "stranger", workflow="other", executable="samtools")])
    found = past(archive, wanted)
    assert found.attempts == {}
    assert list(found.guesses(wanted.programs)) == [("align", "align", 5, 4e6), ("merge", "samtools", 5, 4e6)]
    assert past(archive).others == {}
    store(archive, "/home/ada/project", [attempt(9, "ours")])
    assert [one[0] for one in past(archive, wanted).guesses(wanted.programs)] == ["merge"]


def test_the_history_is_looked_up_without_heavy_imports(tmp_path: Path) -> None:
    with Archive.open(str(tmp_path / "archive.db"), create=True):
        pass
    program = (
        "import sys\n"
        "from tonnage.archive.history import Wanted\n"
        "from tonnage.archive.session import archive_session\n"
        "with archive_session(sys.argv[1]) as session:\n"
        "    assert session.past(Wanted(workflow='w')).histories() == {}\n"
        "print(sorted({'sqlalchemy', 'numpy'} & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "archive.db")], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"
