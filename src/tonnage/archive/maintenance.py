"""Maintenance of the archive: forgetting old attempts, setting labels, checking for damage, and upgrades.

The steps of an upgrade are in migrations/versions, one file each.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine, Select, bindparam, delete, func, or_, select, text, update

from tonnage.archive.engine import connect, make_engine, write
from tonnage.archive.schema import VERSION, attempts, runs, sources, tasks
from tonnage.archive.search import Search
from tonnage.archive.store import Archive, stored_version, version_in
from tonnage.archive.url import archive_url, shown
from tonnage.atomic import make_private_file
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import AMOUNTS, Outcome, Resource

__all__ = ["bring_up_to_date", "check", "count_forgettable", "forget", "migrate", "set_labels", "upgrade"]

_AT_ONCE = 10_000
_STEPS = Path(__file__).parent / "migrations"


def count_forgettable(archive: Archive, search: Search, *, before: float | None = None, keep: int | None = None) -> int:
    """Return how many attempts `forget` would remove."""
    chosen = _forgettable(archive, search, before, keep).subquery()
    with connect(archive.engine) as connection:
        return int(connection.execute(select(func.count()).select_from(chosen)).scalar_one())


def forget(archive: Archive, search: Search, *, before: float | None = None, keep: int | None = None) -> int:
    """Remove attempts that ended before a moment, or all but the newest of each category; return how many.

    If it is unknown when an attempt ended, the time of its import counts. Runs, tasks and sources that no longer have
    any attempts are removed, too.
    """
    with write(archive.engine) as connection:
        chosen = _forgettable(archive, search, before, keep)
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
    when = func.coalesce(attempts.c.ended, attempts.c.started, attempts.c.submitted, attempts.c.imported)
    conditions = search.conditions(archive.engine.dialect.name)
    if before is not None:
        conditions.append(when < before)
    if keep is None:
        return select(attempts.c.id).where(*conditions)
    newest_first = func.row_number().over(
        partition_by=attempts.c.category, order_by=(when.desc(), attempts.c.id.desc())
    )
    ranked = select(attempts.c.id, newest_first.label("place")).subquery()
    beyond = select(ranked.c.id).where(ranked.c.place > keep)
    return select(attempts.c.id).where(*conditions, attempts.c.id.in_(beyond))


def set_labels(archive: Archive, labels: Mapping[bytes, str]) -> int:
    """Set the labels of attempts, given by their identities; return how many."""
    chosen = update(attempts).where(attempts.c.identity == bindparam("which")).values(label=bindparam("found"))
    with write(archive.engine) as connection:
        rows = [{"which": identity, "found": label} for identity, label in labels.items()]
        for start in range(0, len(rows), _AT_ONCE):
            connection.execute(chosen, rows[start : start + _AT_ONCE])
    return len(labels)


def check(archive: Archive) -> list[str]:
    """Check every row, and every page of a file; return the problems found."""
    with connect(archive.engine) as connection:
        problems = list(_damage(connection)) if archive.on_sqlite else []
        return [*problems, *_oddities(connection)]


def _damage(connection: Connection) -> Iterator[str]:
    for (problem,) in connection.execute(text("PRAGMA integrity_check")):
        if problem != "ok":
            yield f"damaged: {problem}"
    for row in connection.execute(text("PRAGMA foreign_key_check")):
        yield f"damaged: row {row[1]} of {row[0]} refers to a missing row of {row[2]}"


def _oddities(connection: Connection) -> Iterator[str]:
    """Yield problems that no import can have caused."""
    column = attempts.c
    rules = {
        "an identity of the wrong length": func.length(column.identity) != 16,
        "a negative amount": or_(*(column[name] < 0 for name in AMOUNTS)),
        "an unknown outcome": column.outcome.not_in([outcome.value for outcome in Outcome]),
        "an unknown exhausted resource": column.exhausted.not_in([resource.value for resource in Resource]),
    }
    for what, condition in rules.items():
        count = connection.execute(select(func.count()).where(condition)).scalar_one()
        if count:
            first = connection.execute(select(func.min(column.id)).where(condition)).scalar()
            yield f"attempts with {what}: {count:,} (id of the first: {first})"


def bring_up_to_date(url: str | None = None) -> str:
    """Create or upgrade an archive, and return a message saying what was done."""
    engine = make_engine(archive_url(url))
    try:
        found = stored_version(engine)
        if found not in (None, VERSION):
            upgrade(engine, server_too=True)
            return f"{shown(engine.url)}: upgraded from version {found} to {VERSION}"
    finally:
        engine.dispose()
    Archive.open(url, create=True).close()
    return f"{shown(engine.url)}: {'already has' if found else 'created with'} version {VERSION}"


def upgrade(engine: Engine, *, server_too: bool = False) -> None:
    """Upgrade an archive to the current version: a SQLite file after a backup, PostgreSQL only if `server_too`.

    Other processes wait meanwhile, and then find the upgrade done.
    """
    place = shown(engine.url)
    with write(engine, migrating=True) as connection:
        found = version_in(connection)
        if found is None or found == VERSION:
            return
        if found > VERSION:
            message = f"is an archive of version {found}; this Tonnage supports versions up to {VERSION}"
            raise InputError(message, path=place, hint="it was created by a newer Tonnage: update this one")
        if engine.dialect.name == "sqlite":
            _back_up(Path(str(engine.url.database)), found)
        elif not server_too:
            hint = "upgrade it with tonnage archive migrate"
            raise InputError(f"is an archive of version {found}", path=place, hint=hint)
        migrate(connection)
    engine.dispose()  # connections must not keep the settings of the upgrade


def migrate(connection: Connection) -> None:
    """Apply the missing steps, within the transaction of this connection."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_STEPS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    if connection.dialect.name == "sqlite":
        dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if dangling:
            raise TonnageError(f"the upgrade would lose rows that {dangling[0]} refers to; nothing was changed")


def _back_up(file: Path, version: str) -> None:
    """Copy the archive to the same folder; an existing copy is kept."""
    copy = file.with_name(f"{file.name}.backup-{version}")
    number = 1
    while copy.exists():
        number += 1
        copy = file.with_name(f"{file.name}.backup-{version}-{number}")
    temporary = copy.with_name(f".{copy.name}.part")
    try:
        temporary.unlink(missing_ok=True)  # left by an upgrade that was killed
        make_private_file(temporary)
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(temporary)) as target:
            source.backup(target)
        temporary.rename(copy)
    except (OSError, sqlite3.Error) as error:
        temporary.unlink(missing_ok=True)
        raise TonnageError(f"{file}: cannot be backed up before the upgrade: {error}") from None
