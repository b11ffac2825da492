"""Filters for attempts: as database conditions, and as users write them in options, forms and URLs.

Text from users never becomes part of an SQL statement.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Table, func, or_, select

from tonnage.archive.attempt_rows import INPUT, OUTPUT
from tonnage.archive.identity import number_of
from tonnage.archive.schema import attempts, fields, files, sources, tasks
from tonnage.archive.texts import clean, short
from tonnage.jobs import Outcome, Resource
from tonnage.logs.conditions import OPERATORS, Condition
from tonnage.logs.user_times import moment
from tonnage.option_values import pairs

__all__ = ["EVERYTHING", "Search", "search_of", "written"]

_GLOB = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Filters; an attempt must match all of them, and None matches any.

    Names of workflows, users, categories, labels, tasks and executables may be patterns with ``*`` and ``?``; an empty
    one matches attempts for which it is unknown.
    """

    workflow: str | None = None
    """Name or checksum."""
    run: str | None = None
    user: str | None = None
    category: str | None = None
    label: str | None = None
    task: str | None = None
    command: str | None = None
    """A part of the command, or with ``*`` or ``?`` a pattern for all of it."""
    executable: str | None = None
    input: str | None = None
    output: str | None = None
    file: str | None = None
    """The attempt read or wrote this file."""
    exit_status: int | None = None
    outcome: Outcome | None = None
    exhausted: Resource | None = None
    """The attempt ran out of this."""
    since: float | None = None
    """The attempt is known to have ended at this moment or later."""
    until: float | None = None
    """The attempt is known to have ended before this moment."""
    source: str | None = None
    """The attempt was read from a source with this label."""
    folder: str | None = None
    """The attempt was read from a file in this folder; for a run's journal, the folder of the workflow."""
    patterns: bool = True
    """Whether ``*`` and ``?`` in names are wildcards."""
    where: tuple[Condition, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_ranges(self) -> bool:
        """Whether amounts or moments are restricted to a range."""
        return bool(self.where) or self.since is not None or self.until is not None

    def conditions(self, dialect: str) -> list[ColumnElement[bool]]:
        """Return the conditions on the rows of `attempts`, for ``sqlite`` or ``postgresql``."""
        column = attempts.c
        found: list[ColumnElement[bool]] = [
            self._named(column[name], value, dialect)
            for name in ("user", "category", "label", "executable")
            if (value := getattr(self, name)) is not None
        ]
        found += [
            column[name] == value.value
            for name in ("outcome", "exhausted")
            if (value := getattr(self, name)) is not None
        ]
        if self.exit_status is not None:
            found.append(column.exit_status == self.exit_status)
        if self.workflow is not None:
            named = self._named(column.workflow, self.workflow, dialect)
            found.append(or_(named, column.workflow_checksum == short(self.workflow)))
        if self.run is not None:
            found.append(column.run == number_of(self.run))
        if self.source is not None:
            found.append(column.source.in_(select(sources.c.id).where(sources.c.label == clean(self.source))))
        if self.folder is not None:
            inside = sources.c.path.startswith(f"{str(clean(self.folder)).rstrip('/')}/", autoescape=True)
            found.append(column.source.in_(select(sources.c.id).where(inside)))
        if self.task is not None:
            named = self._named(tasks.c.name, self.task, dialect)
            found.append(column.task.in_(select(tasks.c.identity).where(named)))
        if self.command is not None:
            matching = _matches(tasks.c.command, str(clean(self.command)), dialect)
            found.append(column.task.in_(select(tasks.c.identity).where(matching)))
        found += [_compared(condition) for condition in self.where]
        found += [_has(fields, key, value) for key, value in self.fields.items()]
        found += [_has(files, role, name) for role, name in ((INPUT, self.input), (OUTPUT, self.output)) if name]
        if self.file:
            found.append(column.id.in_(select(files.c.attempt).where(files.c.name == short(self.file))))
        if self.since is not None:
            found.append(column.ended >= self.since)
        if self.until is not None:
            found.append(column.ended < self.until)
        return found

    def _named(self, column: ColumnElement[str], name: str, dialect: str) -> ColumnElement[bool]:
        if not name:
            return or_(column.is_(None), column == "")
        if not self.patterns or not _GLOB.search(name):
            return column == short(name)
        # There are few distinct names, all of them in an index, so a pattern is matched there instead of on every row.
        return column.in_(select(column).where(_matches(column, str(clean(name)), dialect)).distinct())


EVERYTHING = Search()


def _compared(condition: Condition) -> ColumnElement[bool]:
    # PostgreSQL would convert integers to floats to compare them with one, and could then use no index.
    value = int(condition.value) if condition.value.is_integer() else condition.value
    result: ColumnElement[bool] = OPERATORS[condition.operator](attempts.c[condition.name], value)  # type: ignore[arg-type, assignment] # a column compares into a condition
    return result


def _has(table: Table, key: str, value: str) -> ColumnElement[bool]:
    """Return the condition that an attempt has a field, or a file in a role."""
    attempt, first, second = table.columns
    return attempts.c.id.in_(select(attempt).where(first == short(key), second == short(value)))


def _matches(column: ColumnElement[str], pattern: str, dialect: str) -> ColumnElement[bool]:
    """Return a case-sensitive match that works alike on both databases."""
    if not _GLOB.search(pattern):
        place = func.instr if dialect == "sqlite" else func.strpos
        return place(column, pattern) > 0
    if dialect == "sqlite":
        return column.op("GLOB")(pattern.replace("[", "[[]"))
    escaped = re.sub(r"([\\%_])", r"\\\1", pattern)
    return column.like(escaped.replace("*", "%").replace("?", "_"), escape="\\")


def search_of(
    *,
    outcome: str | None = None,
    exhausted: str | None = None,
    exit_status: int | None = None,
    since: str | None = None,
    until: str | None = None,
    where: Sequence[str] = (),
    field: Sequence[str] = (),
    **names: str | None,
) -> Search:
    """Parse the texts of a search; `names` are the filters that need no parsing."""
    return Search(
        outcome=Outcome(outcome) if outcome else None,
        exhausted=Resource(exhausted) if exhausted else None,
        exit_status=exit_status,
        since=None if since is None else moment(since),
        until=None if until is None else moment(until),
        where=tuple(Condition.parse(text) for text in where),
        fields=pairs(field, "field"),
        **names,  # type: ignore[arg-type] # its only other kind of value is `patterns`, which is no filter
    )


def written(search: Search) -> Iterator[tuple[str, str]]:
    """Yield pairs of name and text from which `search_of` makes the same search."""
    for name in (one.name for one in fields_of(search) if one.name != "patterns"):  # a user's names are patterns
        value = getattr(search, name)
        if name == "where":
            yield from (("where", str(condition)) for condition in value)
        elif name == "fields":
            yield from (("field", f"{key}={text}") for key, text in value.items())
        elif value is not None:
            yield name, _date(value) if name in ("since", "until") else str(value)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
