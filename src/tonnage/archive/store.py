"""The archive's database: opening and creating it, bulk inserts, and its version."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Table, func, inspect, select, text

from tonnage.archive import schema
from tonnage.archive.attempt_rows import Batch, clean
from tonnage.archive.engine import connect, make_engine, on_network, write
from tonnage.archive.schema import METADATA, VERSION
from tonnage.archive.url import archive_url, shown
from tonnage.atomic import make_private_file, make_private_folder
from tonnage.errors import InputError

__all__ = ["Archive", "stored_version", "version_in"]

_AT_ONCE = 10_000
_CHANGES = text(
    "SELECT coalesce(sum(n_tup_del), 0), coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables"
    " WHERE relid = 'attempts'::regclass"
)
_Row = tuple[object, ...]
_FEW = 500  # rows; for fewer, PostgreSQL takes longer to create a table than to insert them


@dataclass(frozen=True)
class Archive:
    """A store of attempts in SQLite or PostgreSQL. Close it, or use it in a `with` statement."""

    engine: Engine

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = False) -> "Archive":
        """Open the archive at a URL or in a file, by default the user's own; with `create`, create it if necessary."""
        archive = cls(make_engine(archive_url(url)))
        try:
            archive._make_ready(create)
        except BaseException:
            archive.close()
            raise
        return archive

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return shown(self.engine.url)

    @property
    def on_sqlite(self) -> bool:
        """Whether the archive is a file."""
        return self.engine.dialect.name == "sqlite"

    @property
    def on_network(self) -> bool:
        """Whether the archive is on a network file system, where SQLite cannot use its write-ahead log."""
        return self.on_sqlite and on_network(Path(str(self.engine.url.database)))

    def add(self, batch: Batch, source: Sequence[str | None]) -> int:
        """Store a batch in one transaction; return how many attempts were new.

        `source` holds the values of its row in `sources`, without the id.
        """
        with write(self.engine) as connection:
            _note_sources(connection, {batch.source: source})
            return _insert(connection, batch)

    def add_together(self, batches: Sequence[tuple[Batch, Sequence[str | None]]]) -> list[int]:
        """Store batches in one transaction, each with its source; return how many attempts of each were new."""
        if len(batches) == 1:
            return [self.add(*batches[0])]
        with write(self.engine) as connection:
            _note_sources(connection, {batch.source: source for batch, source in batches})
            known = _known(connection, [row[0] for batch, _ in batches for row in batch.attempts])
            counts = []
            for batch, _ in batches:
                new = {row[0] for row in batch.attempts} - known
                known |= new
                counts.append(len(new))
            _insert(connection, Batch.joined([batch for batch, _ in batches]))
            return counts

    def count(self) -> int:
        """Return how many attempts the archive holds."""
        with connect(self.engine) as connection:
            return int(connection.execute(select(func.count()).select_from(schema.attempts)).scalar_one())

    def state(self) -> tuple[object, ...]:
        """Return a value that changes whenever the archive does; it costs almost nothing.

        On PostgreSQL, removals and updates show a second later.
        """
        newest = select(func.max(schema.attempts.c.id))
        with connect(self.engine) as connection:
            if not self.on_sqlite:
                return (*connection.execute(newest).one(), *connection.execute(_CHANGES).one())
            file = str(self.engine.url.database)
            return (*connection.execute(newest).one(), _last_change(file), _last_change(f"{file}-wal"))

    def version(self) -> str | None:
        """Return the version of the archive's tables; None if there are none yet."""
        return stored_version(self.engine)

    def _make_ready(self, create: bool) -> None:
        if self.on_sqlite:
            file = Path(str(self.engine.url.database))
            if create:
                _make_file(file)
            elif not os.path.exists(file):  # noqa: PTH110 (unlike that of a Path, it never raises)
                raise InputError("there is no archive", path=file, hint="create one: tonnage archive import JOBS.csv")
        found = self.version()
        if found is None:
            if not create:
                raise InputError("holds no archive", path=self, hint="create one: tonnage archive import JOBS.csv")
            self._create()
        elif found != VERSION:
            from tonnage.archive.maintenance import upgrade

            upgrade(self.engine)

    def _create(self) -> None:
        with write(self.engine) as connection:
            if version_in(connection) is not None:
                return  # another process was faster
            METADATA.create_all(connection)
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": VERSION})


def _last_change(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 (unlike a Path, quick to make)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def stored_version(engine: Engine) -> str | None:
    """Return the version of the archive's tables in a database; None if there are none yet."""
    if engine.dialect.name == "sqlite" and not os.path.exists(str(engine.url.database)):  # noqa: PTH110
        return None
    with connect(engine) as connection:
        return version_in(connection)


def version_in(connection: Connection) -> str | None:
    """Return the version of the archive's tables; None if there are none yet."""
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables and "attempts" in tables:
        versions = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
        if len(versions) != 1:
            raise InputError("is damaged: it has no version", path=shown(connection.engine.url))
        return str(versions[0])
    if tables:
        place = shown(connection.engine.url)
        raise InputError("is a database, but not an archive", path=place, hint=f"it has a table {min(tables)}")
    return None


def _make_file(file: Path) -> None:
    """Create an empty file, private to its owner, if there is none; SQLite gives its other files the same mode."""
    try:
        make_private_folder(file.parent)
    except OSError as error:
        raise InputError(f"cannot create the folder: {error.strerror}", path=file.parent) from None
    with suppress(OSError):  # SQLite's error message is better
        make_private_file(file)


def _columns(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def _insert(connection: Connection, batch: Batch) -> int:
    """Insert the rows of a batch; return how many attempts were new."""
    target = _bulk(connection)
    if batch.runs:
        target.insert(schema.runs, _columns(schema.runs), list(batch.runs.values()))
    if batch.tasks:
        target.insert(schema.tasks, _columns(schema.tasks), list(batch.tasks.values()))
    stored = target.insert(schema.attempts, _columns(schema.attempts)[1:], batch.attempts)
    if batch.fields:
        target.insert_for_attempts(schema.fields, batch.fields)
    if batch.files:
        target.insert_for_attempts(schema.files, batch.files)
    return stored


def _known(connection: Connection, identities: Sequence[object]) -> set[object]:
    """Return which of these identities are in the archive."""
    found: set[object] = set()
    column = schema.attempts.c.identity
    for start in range(0, len(identities), _AT_ONCE):
        chosen = select(column).where(column.in_(identities[start : start + _AT_ONCE]))
        found |= {bytes(identity) for identity in connection.execute(chosen).scalars()}
    return found


def _note_sources(connection: Connection, wanted: Mapping[int, Sequence[str | None]]) -> None:
    """Record where attempts come from; another file with the same label replaces the previous one.

    Looked up before writing, since most sources are already recorded.
    """
    table = schema.sources
    known = {row[0]: row for row in connection.execute(select(table).where(table.c.id.in_(list(wanted))))}
    for number, cells in wanted.items():
        row = (number, *map(clean, cells))
        if number in known and tuple(known[number]) == row:
            continue
        named = dict(zip(_columns(table), row, strict=True))
        change = table.update().where(table.c.id == number) if number in known else table.insert()
        connection.execute(change.values(named))


class _Bulk(Protocol):
    """Inserts into an open transaction."""

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        """Insert rows, skipping those whose key or identity already exists; return how many were new."""

    def insert_for_attempts(self, table: Table, rows: Sequence[tuple[bytes, str, str]]) -> None:
        """Insert fields or files of attempts, given by their identities; a new value replaces an old one."""


def _bulk(connection: Connection) -> _Bulk:
    """Return the bulk inserter for this connection's database."""
    driver: Any = connection.connection.driver_connection
    return _SQLite(driver) if connection.dialect.name == "sqlite" else _Postgres(driver)


def _names(columns: Sequence[str]) -> str:
    """Quote names of columns; they come from schema.py, never from a user."""
    return ", ".join(f'"{name}"' for name in columns)


def _on_conflict(table: Table) -> str:
    """Return the clause for rows that already exist: columns that are not part of the key are replaced."""
    keys = _names([column.name for column in table.primary_key])
    changing = [f'"{column.name}" = excluded."{column.name}"' for column in table.columns if not column.primary_key]
    return f"ON CONFLICT ({keys}) DO " + (f"UPDATE SET {', '.join(changing)}" if changing else "NOTHING")


class _SQLite:
    def __init__(self, driver: Any) -> None:  # noqa: ANN401 (a sqlite3.Connection)
        self._driver = driver

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table.name} ({_names(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
        return int(self._driver.executemany(statement, rows).rowcount)

    def insert_for_attempts(self, table: Table, rows: Sequence[tuple[bytes, str, str]]) -> None:
        self._driver.executemany(
            f"INSERT INTO {table.name} SELECT id, ?2, ?3 FROM attempts WHERE identity = ?1 {_on_conflict(table)}",  # noqa: S608
            rows,
        )


class _Postgres:
    """COPY cannot handle conflicts, so rows go into a temporary table first, unless they are few."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401 (a psycopg.Connection)
        self._cursor = driver.cursor()

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        names, staging = _names(columns), f"new_{table.name}"
        if len(rows) <= _FEW:
            marks = ", ".join(["%s"] * len(columns))
            self._cursor.executemany(
                f"INSERT INTO {table.name} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING",  # noqa: S608
                rows,
            )
            return int(self._cursor.rowcount)
        self._cursor.execute(
            f"CREATE TEMP TABLE {staging} ON COMMIT DROP AS SELECT {names} FROM {table.name} WITH NO DATA"  # noqa: S608
        )
        self._copy(f"COPY {staging} ({names}) FROM STDIN", rows)
        self._cursor.execute(
            f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {staging} ON CONFLICT DO NOTHING"  # noqa: S608
        )
        return int(self._cursor.rowcount)

    def insert_for_attempts(self, table: Table, rows: Sequence[tuple[bytes, str, str]]) -> None:
        if len(rows) <= _FEW:
            self._cursor.executemany(
                f"INSERT INTO {table.name} SELECT id, %s, %s FROM attempts WHERE identity = %s {_on_conflict(table)}",  # noqa: S608
                [(role, name, identity) for identity, role, name in rows],
            )
            return
        staging = f"new_{table.name}"
        last = {row[: len(table.primary_key)]: row for row in rows}  # one statement can change a row only once
        self._cursor.execute(f"CREATE TEMP TABLE {staging} (identity bytea, a text, b text) ON COMMIT DROP")
        self._copy(f"COPY {staging} FROM STDIN", last.values())
        self._cursor.execute(
            f"INSERT INTO {table.name} SELECT id, a, b FROM {staging} JOIN attempts USING (identity)"  # noqa: S608
            f" {_on_conflict(table)}"
        )

    def _copy(self, statement: str, rows: Iterable[_Row]) -> None:
        with self._cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
