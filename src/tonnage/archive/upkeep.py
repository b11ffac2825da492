"""Keeping the archive small and sound: forgetting old attempts, and looking for damage."""

from collections.abc import Iterator

from sqlalchemy import Connection, Select, delete, func, select, text

from tonnage.archive.engine import connect, write
from tonnage.archive.schema import METADATA, attempts, fields, runs, sources, tasks
from tonnage.archive.search import Search
from tonnage.archive.store import Archive

__all__ = ["check", "count_forgettable", "forget"]


def count_forgettable(archive: Archive, search: Search, *, before: float | None = None, keep: int | None = None) -> int:
    """Return how many attempts `forget` would remove."""
    chosen = _forgettable(archive, search, before, keep).subquery()
    with connect(archive.engine) as connection:
        return int(connection.execute(select(func.count()).select_from(chosen)).scalar_one())


def forget(archive: Archive, search: Search, *, before: float | None = None, keep: int | None = None) -> int:
    """Remove attempts that ended before a moment, or all but the newest few of each category; return how many.

    Where nobody knows when an attempt ended, the moment of its import counts. Runs, tasks and sources that no attempt
    is left of go, too.
    """
    with write(archive.engine) as connection:
        chosen = _forgettable(archive, search, before, keep)
        connection.execute(delete(fields).where(fields.c.attempt.in_(chosen)))
        removed = connection.execute(delete(attempts).where(attempts.c.id.in_(chosen))).rowcount
        for table, key, reference in (
            (tasks, tasks.c.identity, attempts.c.task),
            (runs, runs.c.id, attempts.c.run),
            (sources, sources.c.id, attempts.c.source),
        ):
            still_used = select(reference).where(reference == key).exists()
            connection.execute(delete(table).where(~still_used))
        return int(removed)


def _forgettable(archive: Archive, search: Search, before: float | None, keep: int | None) -> Select[tuple[int]]:
    when = func.coalesce(attempts.c.ended, attempts.c.started, attempts.c.submitted, sources.c.imported)
    joined = attempts.join(sources)
    conditions = search.conditions(archive.engine.dialect.name)
    if before is not None:
        conditions.append(when < before)
    if keep is None:
        return select(attempts.c.id).select_from(joined).where(*conditions)
    newest_first = func.row_number().over(
        partition_by=attempts.c.category, order_by=(when.desc(), attempts.c.id.desc())
    )
    ranked = select(attempts.c.id, newest_first.label("place")).select_from(joined).subquery()
    beyond = select(ranked.c.id).where(ranked.c.place > keep)
    return select(attempts.c.id).select_from(joined).where(*conditions, attempts.c.id.in_(beyond))


def check(archive: Archive) -> list[str]:
    """Look at every page and every row; return what is wrong, nothing where all is well."""
    with connect(archive.engine) as connection:
        problems = list(_damage(connection)) if archive.on_sqlite else []
        return [*problems, *_oddities(connection)]


def _damage(connection: Connection) -> Iterator[str]:
    for (said,) in connection.execute(text("PRAGMA integrity_check")):
        if said != "ok":
            yield f"damaged: {said}"
    for row in connection.execute(text("PRAGMA foreign_key_check")):
        yield f"damaged: row {row[1]} of {row[0]} refers to a row of {row[2]} that is not there"


def _oddities(connection: Connection) -> Iterator[str]:
    """Yield what no import of ours can have written."""
    column = attempts.c
    rules = {
        "an identity of the wrong length": func.length(column.identity) != 16,
        "ended before it started": column.ended < column.started,
        "a negative amount": (column.memory < 0) | (column.disk < 0) | (column.wall_time < 0) | (column.cpu_time < 0),
        "an outcome that is not known": column.outcome.not_in(
            ("done", "failed", "exhausted", "preempted", "lost", "cancelled")
        ),
    }
    for what, condition in rules.items():
        count = connection.execute(select(func.count()).where(condition)).scalar_one()
        if count:
            first = connection.execute(select(column.id).where(condition).order_by(column.id).limit(1)).scalar()
            yield f"{count:,} attempts have {what} (the first: {first})"
    for table in METADATA.sorted_tables:
        connection.execute(select(func.count()).select_from(table))  # an error says which table cannot be read
