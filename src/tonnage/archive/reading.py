"""Attempts out of the archive: one by one, or as arrays."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, case, func, literal, or_, select, text

from tonnage.archive import schema
from tonnage.archive.engine import connect
from tonnage.archive.rows import attempt_values
from tonnage.archive.schema import attempts, runs, sources, tasks
from tonnage.archive.search import EVERYTHING, Search
from tonnage.archive.store import Archive
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import AMOUNTS, Attempt, History, Outcome, Resource

__all__ = ["GROUPS", "SORTABLE", "columns_by_group", "find", "histories", "peaks_by_task", "run_fraction"]

FloatArray: TypeAlias = NDArray[np.float64]

_FINISHED = or_(attempts.c.outcome.is_(None), attempts.c.outcome == Outcome.DONE.value)
_BATCH = 1_000
_LARGE_BATCH = 50_000
GROUPS = ("category", "label", "user", "workflow", "executable", "source")
_NOT_SORTABLE = ("id", "identity", "source", "run", "task", "raw")
SORTABLE = [column.name for column in attempts.columns if column.name not in _NOT_SORTABLE]


def find(
    archive: Archive,
    search: Search = EVERYTHING,
    *,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
) -> Iterator[Attempt]:
    """Yield the attempts that are searched for, by default in the order of their import.

    Sorted by an amount, the largest come first; by a time, the newest; by a text, as in the alphabet. What is not known
    comes last.
    """
    conditions = search.conditions(archive.engine.dialect.name)
    chosen = select(attempts, runs.c.name.label("run_name"), tasks.c.name.label("task_name"), tasks.c.command)
    chosen = chosen.select_from(attempts.outerjoin(runs).outerjoin(tasks)).where(*conditions)
    # In the order of the ids themselves, a database would rather read everything than use another index.
    chosen = chosen.order_by(*_order(sort, reverse, attempts.c.id + 0 if conditions else attempts.c.id)).limit(limit)
    with connect(archive.engine) as connection:
        rows = connection.execute(chosen, execution_options={"yield_per": _BATCH}).mappings()
        for batch in rows.partitions():
            ids = [row["id"] for row in batch]
            fields, files = (_belonging(connection, table, ids) for table in (schema.fields, schema.files))
            for row in batch:
                yield _attempt(row, dict(fields[row["id"]]), files[row["id"]])


def _attempt(row: RowMapping, fields: dict[str, str], files: list[tuple[str, str]]) -> Attempt:
    try:
        return attempt_values(row, fields, files)
    except ValueError as error:
        raise TonnageError(f"the attempt with the id {row['id']} is damaged: {error}") from None


def _order(sort: str | None, reverse: bool, number: ColumnElement[int]) -> list[ColumnElement[Any]]:
    if sort is None:
        return [number.desc() if reverse else number]
    if sort not in SORTABLE:
        raise InputError(f'"{sort}" is not a column to sort by', hint=f"one of {', '.join(SORTABLE)}")
    column = attempts.c[sort]
    largest_first = column.type.python_type is not str
    ordered = column.desc() if largest_first != reverse else column.asc()
    return [ordered.nulls_last(), attempts.c.id]


def _belonging(connection: Connection, table: Table, ids: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
    """Return the fields or the files of some attempts."""
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
) -> dict[str, History]:
    """Return what past attempts used, in one query: a history for each category, each label, or with None for all.

    The fewer resources, the faster. A category that is not known has an empty name.
    """
    requested = [resource for resource in resources if f"requested_{resource}" in AMOUNTS]
    finished = case((_FINISHED, 1), else_=0)
    columns = [attempts.c[resource] for resource in resources]
    columns += [attempts.c[f"requested_{resource}"] for resource in requested]
    found = columns_by_group(archive, [*columns, attempts.c.input_bytes, finished, _ran_out()], search, by=by)
    methods = _memory_methods(archive, search, by) if Resource.MEMORY in resources else {}
    return {group: _history(table, resources, requested, methods.get(group, {})) for group, table in found.items()}


def peaks_by_task(archive: Archive, resource: Resource, search: Search = EVERYTHING) -> dict[str, float]:
    """Return the most of a resource that each task used, by the tasks' names, in one query; of those that finished."""
    column = attempts.c[resource]
    chosen = select(tasks.c.name, func.max(column)).select_from(attempts.join(tasks))
    chosen = chosen.where(_FINISHED, column.is_not(None), *search.conditions(archive.engine.dialect.name))
    with connect(archive.engine) as connection:
        rows = connection.execute(chosen.where(tasks.c.name.is_not(None)).group_by(tasks.c.name))
        return {name: float(most) for name, most in rows}


def run_fraction(archive: Archive, search: Search = EVERYTHING) -> float | None:
    """Return for which part of the time that they asked for jobs ran, on average; None where nobody knows."""
    asked = attempts.c.requested_wall_time
    part = case((attempts.c.wall_time > asked, 1.0), else_=attempts.c.wall_time / asked)
    chosen = select(func.avg(part)).where(asked > 0, attempts.c.wall_time >= 0)
    with connect(archive.engine) as connection:
        found = connection.execute(chosen.where(*search.conditions(archive.engine.dialect.name))).scalar()
    return None if found is None else float(found)


def _ran_out() -> ColumnElement[int]:
    """Return which resource an attempt ran out of, by its place in `Resource`; -1 where its task finished after all."""
    other = attempts.alias()
    same_task = (other.c.task == attempts.c.task) & other.c.run.is_not_distinct_from(attempts.c.run)
    finished = or_(other.c.outcome.is_(None), other.c.outcome == Outcome.DONE.value)
    after_all = select(other.c.id).where(same_task, finished).exists()
    places = {resource.value: place for place, resource in enumerate(Resource)}
    place = case(places, value=attempts.c.exhausted, else_=-1)
    return case((attempts.c.exhausted.is_(None), -1), (after_all, -1), else_=place)


def _memory_methods(archive: Archive, search: Search, by: str | None) -> dict[str, dict[str, int]]:
    """Return how memory was measured in each group, and of how many attempts."""
    group = _group_column(by)
    known = [_FINISHED, attempts.c.memory.is_not(None), attempts.c.memory_method.is_not(None)]
    counted = select(group, attempts.c.memory_method, func.count())
    counted = counted.where(*known, *search.conditions(archive.engine.dialect.name)).group_by(text("1"), text("2"))
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
    archive: Archive, columns: Sequence[ColumnElement[Any]], search: Search, *, by: str | None = "category"
) -> dict[str, FloatArray]:
    """Return numbers for each group: an array a column, one number an attempt, oldest first; NaN is unknown.

    Where nobody knows when an attempt ended, the order of the import counts; such attempts come first.
    """
    group = _group_column(by)
    when = func.coalesce(attempts.c.ended, attempts.c.started, attempts.c.submitted)
    chosen = select(group, when, attempts.c.id, *columns).where(*search.conditions(archive.engine.dialect.name))
    numbers: dict[str, int] = {}
    tables = [_numbers(batch, numbers) for batch in _batches(archive, chosen)]
    if not tables:
        return {}
    table = np.concatenate(tables, axis=1)
    tables.clear()
    order = np.lexsort((table[2], np.where(np.isnan(table[1]), -np.inf, table[1]), table[0]))
    parts = np.split(order, np.searchsorted(table[0][order], np.arange(1, len(numbers))))
    return {name: table[3:, part] for name, part in zip(numbers, parts, strict=True)}


def _group_column(by: str | None) -> ColumnElement[Any]:
    """Return the name of an attempt's group: empty where it is not known, "all" where all are one."""
    return literal("all") if by is None else func.coalesce(_grouping(by), literal(""))


def _grouping(by: str) -> ColumnElement[Any]:
    if by not in GROUPS:
        raise InputError(f'attempts cannot be grouped by "{by}"', hint=f"one of {', '.join(GROUPS)}")
    if by == "source":
        return select(sources.c.label).where(sources.c.id == attempts.c.source).scalar_subquery()
    return attempts.c[by]


def _batches(archive: Archive, chosen: Select[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    with connect(archive.engine) as connection:
        result = connection.execution_options(stream_results=True, max_row_buffer=_LARGE_BATCH).execute(chosen)
        yield from result.partitions(_LARGE_BATCH)


def _numbers(batch: Sequence[Sequence[Any]], numbers: dict[str, int]) -> FloatArray:
    """Return a batch of rows as arrays, one a column; the text in front becomes the number of its group."""
    groups, *columns = zip(*batch, strict=True)
    table = np.empty((1 + len(columns), len(batch)))
    table[0] = [numbers.setdefault(group, len(numbers)) for group in groups]
    for place, column in enumerate(columns, 1):
        table[place] = column
    return table
