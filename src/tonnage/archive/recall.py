"""What a run wants to know at its start, and what an archive knows of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, select

from tonnage.archive.engine import connect
from tonnage.archive.reading import FINISHED, newest
from tonnage.archive.rows import short
from tonnage.archive.schema import attempts
from tonnage.archive.store import Archive
from tonnage.jobs import Attempt

__all__ = ["MOST", "Wanted", "recall"]

MOST = 5_000
"""Attempts of a category that a run learns from: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run wants to know at its start."""

    workflow: str
    checksum: str | None = None
    programs: Mapping[str, str | None] = field(default_factory=dict)
    """Its categories, each with its program where that says something about it; none: all that are known."""

    def body(self) -> dict[str, object]:
        """Return it as it is asked."""
        categories = [{"name": name, "executable": program} for name, program in self.programs.items()]
        return {"workflow": self.workflow, "checksum": self.checksum, "categories": categories}


def recall(archive: Archive, wanted: Wanted) -> Iterator[Attempt]:
    """Yield what an archive knows of what a run wants to know, of each category the newest attempts.

    They are those of this very workflow, else of one of its name, else of any, else those of the category's program:
    the first of these of which an attempt has finished.
    """
    column = attempts.c
    left = set(wanted.programs)
    known = set[str]()
    for here in (column.workflow_checksum == short(wanted.checksum), column.workflow == short(wanted.workflow)):
        for category in sorted(_finished(archive, here) - known):
            if category in left or not wanted.programs:
                known.add(category)
                yield from newest(archive, [here, column.category == category], MOST)
    asked = set[str]()
    for category in sorted(left - known):
        of_category = column.category == short(category)
        program = wanted.programs[category]
        if _finished(archive, of_category):
            yield from newest(archive, [of_category], MOST)
        elif program is not None and program not in asked:
            asked.add(program)
            yield from newest(archive, [column.executable == short(program)], MOST)


def _finished(archive: Archive, condition: ColumnElement[bool]) -> set[str]:
    """Return the categories of which attempts that meet a condition have finished."""
    chosen = select(attempts.c.category).where(condition, FINISHED, attempts.c.category.is_not(None)).distinct()
    with connect(archive.engine) as connection:
        return {str(name) for name in connection.execute(chosen).scalars()}
