"""What an archive knows about the tasks of a workflow: one lookup for local runs, servers and Python programs.

Only attempts of this workflow or of earlier versions of it count: jobs that merely share a category or a program with
ours may be of another kind, and a history leads to limits at which tasks are killed.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

from sqlalchemy import func, select

from tonnage.archive.attempt_rows import clean, short
from tonnage.archive.engine import connect
from tonnage.archive.reading import FINISHED, histories, newest
from tonnage.archive.schema import attempts, tasks
from tonnage.archive.search import Search
from tonnage.archive.store import Archive
from tonnage.jobs import Attempt, History

__all__ = ["LONGEST_COMMAND", "MOST", "MOST_COMMANDS", "Wanted", "history_of", "recall", "versions"]

MOST = 5_000
"""How many attempts of a category, the newest, a run learns from."""
MOST_COMMANDS = 1_000
"""How many commands of a workflow are used to recognise its other versions: any subset will do."""
LONGEST_COMMAND = 2_000
"""Longer commands are not compared."""
_MOST_VERSIONS = 20  # workflows of one name that are compared, the newest
_MOST_OF_ONE = 100_000  # commands of one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run asks an archive at its start."""

    workflow: str
    checksum: str | None = None
    folder: str | None = None
    """Where the workflow is."""
    commands: frozenset[str] = frozenset()
    """Some of its commands."""
    categories: frozenset[str] = frozenset()
    """Its categories; if empty, all that are known."""

    def body(self) -> dict[str, object]:
        """Return the body of the request to a server."""
        return {
            "workflow": self.workflow,
            "checksum": self.checksum,
            "folder": self.folder,
            "commands": sorted(self.commands),
            "categories": sorted(self.categories),
        }


def versions(archive: Archive, wanted: Wanted) -> Iterator[Search]:
    """Yield searches for this exact workflow, those of its name in its folder, and those with half of its commands.

    A program that has neither commands nor a folder is recognised by the name that it gave itself.
    """
    if wanted.checksum is not None:
        yield Search(workflow=wanted.checksum)
    if wanted.folder is not None:
        yield Search(workflow=wanted.workflow, folder=wanted.folder, patterns=False)
    elif not wanted.commands:
        yield Search(workflow=wanted.workflow, patterns=False)
    for checksum in _alike(archive, wanted.workflow, wanted.commands):
        yield Search(workflow=checksum)


def history_of(archive: Archive, wanted: Wanted) -> dict[str, History]:
    """Return what past attempts of each category used, from the first search that finds a finished one."""
    found: dict[str, History] = {}
    for search in versions(archive, wanted):
        if wanted.categories and not wanted.categories - found.keys():
            break
        for category, history in histories(archive, search).items():
            if _is_wanted(category, wanted, found) and history.finished.any():
                found[category] = _newest(history)
    return found


def recall(archive: Archive, wanted: Wanted) -> Iterator[Attempt]:
    """Yield the attempts that `history_of` is based on: the newest of each category."""
    known: dict[str, None] = {}
    for search in versions(archive, wanted):
        for category in sorted(_finished(archive, search)):
            if _is_wanted(category, wanted, known):
                known[category] = None
                here = search.conditions(archive.engine.dialect.name)
                yield from newest(archive, [*here, attempts.c.category == category], MOST)


def _is_wanted(category: str, wanted: Wanted, known: Mapping[str, object]) -> bool:
    return category not in known and (category in wanted.categories or not wanted.categories)


def _newest(history: History) -> History:
    if len(history) <= MOST:
        return history
    return replace(
        history,
        used={resource: values[-MOST:] for resource, values in history.used.items()},
        requested={resource: values[-MOST:] for resource, values in history.requested.items()},
        input_bytes=history.input_bytes[-MOST:],
        finished=history.finished[-MOST:],
        ran_out=history.ran_out[-MOST:],
    )


def _alike(archive: Archive, name: str, commands: Set[str]) -> list[str]:
    """Return the checksums of workflows of this name with at least half of these commands, the newest first.

    A name alone says little: many unrelated workflows are called run.mf.
    """
    column = attempts.c
    of_name = [column.workflow == short(name), column.workflow_checksum.is_not(None)]
    chosen = select(column.workflow_checksum).where(*of_name).group_by(column.workflow_checksum)
    wanted = {clean(command) for command in commands}
    found = []
    with connect(archive.engine) as connection:
        newest_first = chosen.order_by(func.max(column.id).desc()).limit(_MOST_VERSIONS)
        for checksum in connection.execute(newest_first).scalars().all():
            theirs = select(tasks.c.command).distinct().select_from(attempts.join(tasks))
            rows = connection.execute(theirs.where(column.workflow_checksum == checksum).limit(_MOST_OF_ONE))
            if wanted and 2 * len(wanted.intersection(rows.scalars())) >= len(wanted):
                found.append(checksum)
    return found


def _finished(archive: Archive, search: Search) -> set[str]:
    """Return the categories in which a search finds at least one finished attempt."""
    here = search.conditions(archive.engine.dialect.name)
    chosen = select(attempts.c.category).where(*here, FINISHED, attempts.c.category.is_not(None)).distinct()
    with connect(archive.engine) as connection:
        return {str(name) for name in connection.execute(chosen).scalars()}
