"""Queries of the archive: attempts one by one, or as arrays."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Table,
    and_,
    case,
    func,
    literal,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.sql.util import ClauseAdapter

from tonnage.archive import schema
from tonnage.archive.attempt_rows import attempt_values
from tonnage.archive.engine import connect
from tonnage.archive.registry import GROUPS
from tonnage.archive.schema import attempts, runs, sources, tasks
from tonnage.archive.search import EVERYTHING, Search
from tonnage.archive.store import Archive
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import AMOUNTS, Attempt, History, Outcome, Resource

__all__ = [
    "FINISHED",
    "SORTABLE",
    "columns_by_group",
    "count_up_to",
    "find",
    "histories",
    "newest",
    "peaks_by_task",
    "run_fraction",
    "sortable",
]

FloatArray: TypeAlias = NDArray[np.float64]

FINISHED = or_(attempts.c.outcome.is_(None), attempts.c.outcome == Outcome.DONE.value)
_WHEN = func.coalesce(attempts.c.ended, attempts.c.started, attempts.c.submitted)
_BATCH = 1_000
_LARGE_BATCH = 50_000
_FIRST = 5_000  # attempts to look at before sorting all of a category
_WALKED = ("ended", "disk", "wall_time")
"""Columns with an index over all attempts; another index sorts each category by memory."""
_NOT_SORTABLE = ("id", "identity", "source", "run", "task", "raw")
SORTABLE = [column.name for column in attempts.columns if column.name not in _NOT_SORTABLE]


def find(
    archive: Archive,
    search: Search = EVERYTHING,
    *,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
    after: bytes | None = None,
) -> Iterator[Attempt]:
    """Yield the attempts that match a search, by default in the order of their import.

    Amounts are sorted with the largest first, times with the newest first, texts alphabetically; unknown values come
    last. With `after`, results start behind the attempt with this identity, so that the next page costs as much as
    the first.
    """
    conditions = search.conditions(archive.engine.dialect.name)
    # If asked to sort by the plain id, databases read the whole table instead of using an index for these.
    sorted_late = bool(conditions) if limit is None else search.has_ranges
    left = limit
    with connect(archive.engine) as connection:
        place = None if after is None else _place(connection, after, sort)
        for part in _parts(sort, reverse, place, late=sorted_late):
            for attempt in part.found(connection, conditions, left):
                yield attempt
                left = None if left is None else left - 1
            if left == 0:
                return


def newest(archive: Archive, conditions: Sequence[ColumnElement[bool]], most: int) -> list[Attempt]:
    """Return the newest attempts that meet all conditions, the oldest of them first.

    Attempts whose end is unknown count as the oldest, in the order of their import.
    """
    order = _WHEN.desc().nulls_last(), attempts.c.id.desc()
    with connect(archive.engine) as connection:
        return list(_found(connection, _chosen(conditions).order_by(*order).limit(most)))[::-1]


def _chosen(conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    chosen = select(attempts, runs.c.name.label("run_name"), tasks.c.name.label("task_name"), tasks.c.command)
    return chosen.select_from(attempts.outerjoin(runs).outerjoin(tasks)).where(*conditions)


def _found(connection: Connection, chosen: Select[Any]) -> Iterator[Attempt]:
    # Closed also if the caller wants no more: PostgreSQL has a cursor open for it.
    with connection.execute(chosen, execution_options={"yield_per": _BATCH}) as result:
        for batch in result.mappings().partitions():
            yield from _whole(connection, batch)


def _whole(connection: Connection, rows: Sequence[RowMapping]) -> Iterator[Attempt]:
    """Yield the attempts in some rows, with their fields and files."""
    ids = [row["id"] for row in rows]
    fields, files = (_belonging(connection, table, ids) for table in (schema.fields, schema.files))
    for row in rows:
        yield _attempt(row, dict(fields[row["id"]]), files[row["id"]])


def count_up_to(archive: Archive, search: Search, most: int) -> int:
    """Return how many attempts match a search; if more than `most`, return `most` + 1."""
    some = select(attempts.c.id).where(*search.conditions(archive.engine.dialect.name)).limit(most + 1).subquery()
    with connect(archive.engine) as connection:
        return int(connection.execute(select(func.count()).select_from(some)).scalar_one())


def _attempt(row: RowMapping, fields: dict[str, str], files: list[tuple[str, str]]) -> Attempt:
    try:
        return attempt_values(row, fields, files)
    except ValueError as error:
        raise TonnageError(f"the attempt with id {row['id']} is damaged: {error}") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of an attempt in a sort order."""

    value: Any
    id: int


def _place(connection: Connection, identity: bytes, sort: str | None) -> _Place:
    value = literal(None) if sort is None else sortable(sort)
    row = connection.execute(select(value, attempts.c.id).where(attempts.c.identity == identity)).first()
    if row is None:
        raise InputError(f"there is no attempt {identity.hex()} to continue after", hint="start with the first page")
    return _Place(row[0], row[1])


def sortable(name: str) -> ColumnElement[Any]:
    """Return a column that attempts can be sorted by; raises InputError if there is none of this name."""
    if name not in SORTABLE:
        raise InputError(f'"{name}" is not a column to sort by', hint=f"one of {', '.join(SORTABLE)}")
    return attempts.c[name]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the results: its conditions in addition to those of the search, and its order."""

    conditions: Sequence[ColumnElement[bool]]
    order: Sequence[ColumnElement[Any]]
    indexed: bool = False
    """Whether there is an index over all attempts in this order."""

    def found(
        self, connection: Connection, conditions: Sequence[ColumnElement[bool]], limit: int | None
    ) -> Iterator[Attempt]:
        """Yield the attempts; with a limit, ids are selected first, because full rows are expensive to sort."""
        every = [*conditions, *self.conditions]
        if limit is None:
            yield from _found(connection, _chosen(every).order_by(*self.order))
            return
        ids = self._among_the_first(connection, conditions, limit) if self.indexed and conditions else []
        if len(ids) < limit:
            chosen = select(attempts.c.id).where(*every).order_by(*self.order).limit(limit)
            ids = connection.execute(chosen).scalars().all()
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            rows = {row["id"]: row for row in connection.execute(_chosen([attempts.c.id.in_(batch)])).mappings()}
            yield from _whole(connection, [rows[id] for id in batch])

    def _among_the_first(
        self, connection: Connection, conditions: Sequence[ColumnElement[bool]], limit: int
    ) -> Sequence[int]:
        """Return the ids of matches among the first few thousand of all attempts.

        A database would use the index of a category and sort all of it. For a large category, that takes far longer
        than looking at the first of all attempts, which include enough of this category.
        """
        some = select(attempts).where(*self.conditions).order_by(*self.order).limit(_FIRST).subquery()
        of_these = ClauseAdapter(some).traverse
        chosen = select(some.c.id).where(*map(of_these, conditions)).order_by(*map(of_these, self.order)).limit(limit)
        return connection.execute(chosen).scalars().all()


def _parts(sort: str | None, reverse: bool, after: _Place | None, *, late: bool) -> Iterator[_Part]:
    """Yield the parts that together, one after the other, are the sorted results.

    Attempts with a known value in the column come first. Queried separately, they come sorted from an index, and those
    with the same value in the order of their ids.
    """
    number = attempts.c.id
    if sort is None:
        behind = [] if after is None else [number < after.id if reverse else number > after.id]
        ordered: ColumnElement[int] = number + 0 if late else number
        yield _Part(behind, [ordered.desc() if reverse else ordered])
        return
    column = sortable(sort)
    falling = (column.type.python_type is not str) != reverse
    if after is None or after.value is not None:
        known: list[ColumnElement[bool]] = [column.is_not(None)]
        if after is not None:
            # Both databases start in the middle of the index only if the column alone is bounded, too.
            known += [
                column <= after.value if falling else column >= after.value,
                or_(
                    column < after.value if falling else column > after.value,
                    number < after.id if falling else number > after.id,
                ),
            ]
        order = [column.desc(), number.desc()] if falling else [column, number]
        yield _Part(known, order, indexed=sort in _WALKED)
    unknown: list[ColumnElement[bool]] = [column.is_(None)]
    if after is not None and after.value is None:
        unknown.append(number < after.id if falling else number > after.id)
    yield _Part(unknown, [number.desc() if falling else number])


def _belonging(connection: Connection, table: Table, ids: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
    """Return the fields or the files of some attempts, by their ids."""
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for attempt, first, second in connection.execute(select(table).where(table.c.attempt.in_(ids)).order_by(*table.c)):
        found[attempt].append((first, second))
    return found


def histories(
    archive: Archive,
    search: Search = EVERYTHING,
    *,
    by: str | None = "category",
    resources: Sequence[Resource] = tuple(Resource),
    newest: int | None = None,
) -> dict[str, History]:
    """Return what past attempts used, in one query: a history for each category or label, or with None one for all.

    Fewer resources make it faster. An unknown category has an empty name. With `newest`, only that many attempts count:
    those stored last.
    """
    requested = [resource for resource in resources if f"requested_{resource}" in AMOUNTS]
    finished = case((FINISHED, 1), else_=0)
    columns: list[ColumnElement[Any]] = [attempts.c[resource] for resource in resources]
    columns += [attempts.c[f"requested_{resource}"] for resource in requested]
    columns += [attempts.c.input_bytes, finished, _ran_out()]
    found = columns_by_group(archive, columns, search, by=by, newest=newest)
    methods = _memory_methods(archive, search, by, newest) if Resource.MEMORY in resources else {}
    return {group: _history(table, resources, requested, methods.get(group, {})) for group, table in found.items()}


def peaks_by_task(archive: Archive, resource: Resource, search: Search = EVERYTHING) -> dict[str, float]:
    """Return the largest amount of a resource that finished attempts of each task used, by task name, in one query."""
    column = attempts.c[resource]
    chosen = select(tasks.c.name, func.max(column)).select_from(attempts.join(tasks))
    chosen = chosen.where(FINISHED, column.is_not(None), *search.conditions(archive.engine.dialect.name))
    with connect(archive.engine) as connection:
        rows = connection.execute(chosen.where(tasks.c.name.is_not(None)).group_by(tasks.c.name))
        return {name: float(most) for name, most in rows}


def run_fraction(archive: Archive, search: Search = EVERYTHING) -> float | None:
    """Return the average fraction of their requested time for which jobs ran; None if unknown."""
    asked = attempts.c.requested_wall_time
    part = case((attempts.c.wall_time > asked, 1.0), else_=attempts.c.wall_time / asked)
    chosen = select(func.avg(part)).where(asked > 0, attempts.c.wall_time >= 0)
    with connect(archive.engine) as connection:
        found = connection.execute(chosen.where(*search.conditions(archive.engine.dialect.name))).scalar()
    return None if found is None else float(found)


def _ran_out() -> ColumnElement[int]:
    """Return the index in `Resource` of what an attempt ran out of; -1 for none, or if its task finished after all."""
    other = attempts.alias()
    same_task = (other.c.task == attempts.c.task) & other.c.run.is_not_distinct_from(attempts.c.run)
    finished = or_(other.c.outcome.is_(None), other.c.outcome == Outcome.DONE.value)
    after_all = select(other.c.id).where(same_task, finished).exists()
    places = {resource.value: place for place, resource in enumerate(Resource)}
    place = case(places, value=attempts.c.exhausted, else_=-1)
    return case((attempts.c.exhausted.is_(None), -1), (after_all, -1), else_=place)


def _memory_methods(archive: Archive, search: Search, by: str | None, newest: int | None) -> dict[str, dict[str, int]]:
    """Return how memory was measured in each group: the number of attempts by method."""
    group = _group_column(by)
    known = [FINISHED, attempts.c.memory.is_not(None), attempts.c.memory_method.is_not(None)]
    counted = select(group, attempts.c.memory_method, func.count()).where(*known)
    counted = counted.where(_of_newest(search, archive, newest)).group_by(text("1"), text("2"))
    found: dict[str, dict[str, int]] = defaultdict(dict)
    with connect(archive.engine) as connection:
        for name, method, count in connection.execute(counted):
            found[name][method] = count
    return found


def _history(
    table: FloatArray, resources: Sequence[Resource], requested: Sequence[Resource], methods: Mapping[str, int]
) -> History:
    return History(
        used={resource: table[place] for place, resource in enumerate(resources)},
        requested={resource: table[place] for place, resource in enumerate(requested, len(resources))},
        input_bytes=table[-3],
        finished=table[-2] == 1,
        ran_out=table[-1].astype(np.int8),
        memory_methods=methods,
    )


def columns_by_group(
    archive: Archive,
    columns: Sequence[ColumnElement[Any]],
    search: Search,
    *,
    by: str | None = "category",
    newest: int | None = None,
) -> dict[str, FloatArray]:
    """Return arrays for each group: one row per column, one number per attempt, oldest first; NaN means unknown.

    Attempts whose end is unknown come first, in the order of their import.
    """
    group = _group_column(by)
    chosen = select(group, _WHEN, attempts.c.id, *columns).where(_of_newest(search, archive, newest))
    numbers: dict[str, int] = {}
    tables = [_numbers(batch, numbers) for batch in _batches(archive, chosen)]
    if not tables:
        return {}
    table = np.concatenate(tables, axis=1)
    tables.clear()
    order = np.lexsort((table[2], np.where(np.isnan(table[1]), -np.inf, table[1]), table[0]))
    parts = np.split(order, np.searchsorted(table[0][order], np.arange(1, len(numbers))))
    return {name: table[3:, part] for name, part in zip(numbers, parts, strict=True)}


def _of_newest(search: Search, archive: Archive, newest: int | None) -> ColumnElement[bool]:
    """Return the condition for a search; with `newest`, only for the matching attempts stored last."""
    conditions = and_(true(), *search.conditions(archive.engine.dialect.name))
    if newest is None:
        return conditions
    last = select(attempts.c.id).where(conditions).order_by(attempts.c.id.desc()).limit(newest)
    return attempts.c.id.in_(last)


def _group_column(by: str | None) -> ColumnElement[Any]:
    """Return the name of an attempt's group: empty if unknown, "all" if there is only one group."""
    return literal("all") if by is None else func.coalesce(_grouping(by), literal(""))


def _grouping(by: str) -> ColumnElement[Any]:
    if by not in GROUPS:
        raise InputError(f'attempts cannot be grouped by "{by}"', hint=f"one of {', '.join(GROUPS)}")
    if by == "source":
        return select(sources.c.label).where(sources.c.id == attempts.c.source).scalar_subquery()
    return attempts.c[by]


def _batches(archive: Archive, chosen: Select[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    with connect(archive.engine) as connection:
        streaming = connection.execution_options(stream_results=True, max_row_buffer=_LARGE_BATCH)
        with streaming.execute(chosen) as result:
            yield from result.partitions(_LARGE_BATCH)


def _numbers(batch: Sequence[Sequence[Any]], numbers: dict[str, int]) -> FloatArray:
    """Return a batch of rows as arrays, one per column; the group's name in front becomes its number."""
    groups, *columns = zip(*batch, strict=True)
    table = np.empty((1 + len(columns), len(batch)))
    table[0] = [numbers.setdefault(group, len(numbers)) for group in groups]
    for place, column in enumerate(columns, 1):
        table[place] = column
    return table
