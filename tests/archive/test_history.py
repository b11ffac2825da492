"""What is known about a workflow's tasks: this very workflow first, then its other versions, and never a stranger."""

from collections.abc import Sequence

import pytest

from tonnage.archive import Archive, import_source
from tonnage.archive.history import MOST, Wanted, history_of, recall
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.sources import Source

COMMANDS = frozenset(f"align sample{number}" for number in range(10))
OURS = Wanted(
    workflow="run",
    checksum="ours",
    folder="/home/ada/project",
    commands=COMMANDS,
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


def known(archive: Archive, wanted: Wanted = OURS) -> dict[str, list[int]]:
    """Return the megabytes of what is known of each category; a server sends just those."""
    found = history_of(archive, wanted)
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
