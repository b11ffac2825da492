"""What a run wants to know at its start, and what an archive knows of it."""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select

from tonnage.archive.engine import connect
from tonnage.archive.reading import FINISHED, newest
from tonnage.archive.rows import clean, short
from tonnage.archive.schema import attempts, tasks
from tonnage.archive.store import Archive
from tonnage.jobs import Attempt

__all__ = ["MOST", "Wanted", "alike", "recall"]

MOST = 5_000
"""Attempts of a category that a run learns from: the newest."""
_MOST_VERSIONS = 20  # workflows of one name that are compared, the newest
_MOST_COMMANDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run wants to know at its start."""

    workflow: str
    checksum: str | None = None
    categories: frozenset[str] = frozenset()
    """Its categories; none: all that are known."""

    def body(self) -> dict[str, object]:
        """Return it as it is asked."""
        return {"workflow": self.workflow, "checksum": self.checksum, "categories": sorted(self.categories)}


def recall(archive: Archive, wanted: Wanted) -> Iterator[Attempt]:
    """Yield what an archive knows of what a run wants to know, of each category the newest attempts.

    They are those of this very workflow, else of one of its name: the first of these of which an attempt has finished.
    """
    column = attempts.c
    known = set[str]()
    for here in (column.workflow_checksum == short(wanted.checksum), column.workflow == short(wanted.workflow)):
        for category in sorted(_finished(archive, here) - known):
            if category in wanted.categories or not wanted.categories:
                known.add(category)
                yield from newest(archive, [here, column.category == category], MOST)


def alike(archive: Archive, name: str, commands: Set[str]) -> list[str]:
    """Return the checksums of workflows of a name that have at least half of these commands, the newest first.

    A name alone says little: many workflows of different projects are called run.mf.
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
            rows = connection.execute(theirs.where(column.workflow_checksum == checksum).limit(_MOST_COMMANDS))
            if wanted and 2 * len(wanted.intersection(rows.scalars())) >= len(wanted):
                found.append(checksum)
    return found


def _finished(archive: Archive, condition: ColumnElement[bool]) -> set[str]:
    """Return the categories of which attempts that meet a condition have finished."""
    chosen = select(attempts.c.category).where(condition, FINISHED, attempts.c.category.is_not(None)).distinct()
    with connect(archive.engine) as connection:
        return {str(name) for name in connection.execute(chosen).scalars()}
