"""The archive's database: opening, creating, reading and writing it, and its version.

A file is created, checked and written with Python's own sqlite3, so that a run need not load SQLAlchemy, which takes
longer than many tasks. Everything else uses the SQLAlchemy engine, which is made when it is first needed.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from tonnage.archive.attempt_rows import Batch
from tonnage.archive.bulk import Bulk, bulk_for, insert, note_sources
from tonnage.archive.sqlite_file import in_words, open_file, writing
from tonnage.archive.tables import SQLITE_TABLES, VERSION
from tonnage.archive.url import archive_file, archive_url, shown
from tonnage.atomic import make_private_file, make_private_folder
from tonnage.errors import InputError, TonnageError
from tonnage.files import on_network

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["Archive", "stored_version", "version_in"]

_CHANGES = (
    "SELECT coalesce(sum(n_tup_del), 0), coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables"
    " WHERE relid = 'attempts'::regclass"
)
_VERSIONS = "SELECT version_num FROM alembic_version"
_VERSION_TABLE = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"


class Archive:
    """A store of attempts in SQLite or PostgreSQL. Close it, or use it in a `with` statement."""

    def __init__(self, url: str | None = None) -> None:
        """Name the archive at a URL or in a file, by default the user's own; nothing is opened yet."""
        self.file = archive_file(url)
        """The file, if it is one."""
        self._url = str(self.file) if self.file else archive_url(url).render_as_string(hide_password=False)
        self._driver: sqlite3.Connection | None = None
        self._alone = Lock()
        """Held by the thread that uses the driver."""

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = False) -> "Archive":
        """Open the archive at a URL or in a file, by default the user's own; with `create`, create it if necessary."""
        archive = cls(url)
        try:
            archive._make_ready(create)
        except BaseException:
            archive.close()
            raise
        return archive

    @cached_property
    def engine(self) -> "Engine":
        """SQLAlchemy's engine, for queries."""
        from tonnage.archive.engine import make_engine

        return make_engine(archive_url(self._url))

    def close(self) -> None:
        """Close all connections; later calls open new ones."""
        with self._alone:
            if self._driver is not None:
                self._driver.close()
                self._driver = None
        if self._uses_engine:
            self.engine.dispose()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return shown(archive_url(self._url)) if self.file is None else str(self.file)

    @property
    def on_sqlite(self) -> bool:
        """Whether the archive is a file."""
        return self.file is not None

    @property
    def on_network(self) -> bool:
        """Whether the archive is on a network file system, where SQLite cannot use its write-ahead log."""
        return self.file is not None and on_network(self.file)

    @property
    def _uses_engine(self) -> bool:
        """Whether queries have been made, or must be: then the engine's connections are used for everything."""
        return self.file is None or "engine" in vars(self)

    def lost_connection(self, error: TonnageError) -> bool:
        """Whether the connection to a server was lost, so that a retry may help."""
        if self.file is not None:
            return False
        from tonnage.archive.engine import lost_connection

        return lost_connection(self.engine, error)

    def add(self, batch: Batch, source: Sequence[str | None]) -> int:
        """Store a batch in one transaction; return how many attempts were new.

        `source` holds the values of its row in `sources`, without the id.
        """
        with self._writing() as target:
            note_sources(target, {batch.source: source})
            return insert(target, batch)

    def add_together(self, batches: Sequence[tuple[Batch, Sequence[str | None]]]) -> list[int]:
        """Store batches in one transaction, each with its source; return how many attempts of each were new."""
        if len(batches) == 1:
            return [self.add(*batches[0])]
        with self._writing() as target:
            note_sources(target, {batch.source: source for batch, source in batches})
            known = target.known([row[0] for batch, _ in batches for row in batch.attempts])
            counts = []
            for batch, _ in batches:
                new = {row[0] for row in batch.attempts} - known
                known |= new
                counts.append(len(new))
            insert(target, Batch.joined([batch for batch, _ in batches]))
            return counts

    def count(self) -> int:
        """Return how many attempts the archive holds."""
        return int(self.rows("SELECT count(*) FROM attempts")[0][0])

    def rows(self, query: str, parameters: Mapping[str, object] = MappingProxyType({})) -> Sequence[Sequence[Any]]:
        """Return the rows of a query in SQL with named parameters; a file is read without SQLAlchemy if possible."""
        if not self._uses_engine:
            with self._using_driver() as driver:
                return driver.execute(query, dict(parameters)).fetchall()
        from sqlalchemy import text

        from tonnage.archive.engine import connect

        with connect(self.engine) as connection:
            return connection.execute(text(query), dict(parameters)).all()

    def state(self) -> tuple[object, ...]:
        """Return a value that changes whenever the archive does; it costs almost nothing.

        On PostgreSQL, removals and updates show a second later.
        """
        newest = self.rows("SELECT max(id) FROM attempts")[0]
        if self.file is None:
            return (*newest, *self.rows(_CHANGES)[0])
        return (*newest, _last_change(str(self.file)), _last_change(f"{self.file}-wal"))

    def version(self) -> str | None:
        """Return the version of the archive's tables; None if there are none yet."""
        if self._uses_engine:
            return stored_version(self.engine)
        with self._using_driver() as driver:
            return _version_of_file(driver, self)

    def _make_ready(self, create: bool) -> None:
        if self.file is not None:
            if create:
                _make_file(self.file)
            elif not os.path.exists(self.file):  # noqa: PTH110 (unlike that of a Path, it never raises)
                raise InputError(
                    "there is no archive", path=self.file, hint="create one: tonnage archive import JOBS.csv"
                )
        found = self.version()
        if found is None:
            if not create:
                raise InputError("holds no archive", path=self, hint="create one: tonnage archive import JOBS.csv")
            self._create()
        elif found != VERSION:
            from tonnage.archive.maintenance import upgrade

            self.close()
            upgrade(self.engine)

    def _create(self) -> None:
        if self.file is None:
            _create_on_server(self.engine)
            return
        with self._using_driver() as driver, writing(driver):
            if _version_of_file(driver, self) is None:  # else another process was faster
                for statement in SQLITE_TABLES.read_text(encoding="utf-8").split(";\n"):
                    driver.execute(statement)
                driver.execute(_VERSION_TABLE)
                driver.execute("INSERT INTO alembic_version VALUES (?)", (VERSION,))

    @contextmanager
    def _writing(self) -> Iterator[Bulk]:
        """Write in one transaction; writers take turns."""
        if not self._uses_engine:
            with self._using_driver() as driver, writing(driver):
                yield bulk_for(driver, sqlite=True)
            return
        from tonnage.archive.engine import write

        with write(self.engine) as connection:
            yield bulk_for(connection.connection.driver_connection, sqlite=self.on_sqlite)

    @contextmanager
    def _using_driver(self) -> Iterator[sqlite3.Connection]:
        """Use the connection to a file, which is kept for the pages in its cache, and explain its errors."""
        with self._alone:
            try:
                if self._driver is None:
                    self._driver = open_file(self.file or Path())
                yield self._driver
            except sqlite3.Error as error:
                raise in_words(error, self) from error
            except (OverflowError, UnicodeError) as error:
                raise InputError(f"a value cannot be stored in a database: {error}") from error


def _last_change(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 (unlike a Path, quick to make)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _create_on_server(engine: "Engine") -> None:
    from tonnage.archive.engine import write
    from tonnage.archive.schema import METADATA

    with write(engine) as connection:
        if version_in(connection) is None:  # else another process was faster
            METADATA.create_all(connection)
            connection.exec_driver_sql(_VERSION_TABLE)
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (%s)", (VERSION,))


def stored_version(engine: "Engine") -> str | None:
    """Return the version of the archive's tables in a database; None if there are none yet."""
    from tonnage.archive.engine import connect

    if engine.dialect.name == "sqlite" and not os.path.exists(str(engine.url.database)):  # noqa: PTH110
        return None
    with connect(engine) as connection:
        return version_in(connection)


def version_in(connection: "Connection") -> str | None:
    """Return the version of the archive's tables; None if there are none yet."""
    from sqlalchemy import inspect

    tables = set(inspect(connection).get_table_names())
    return _version(tables, lambda: connection.exec_driver_sql(_VERSIONS).all(), shown(connection.engine.url))


def _version_of_file(driver: sqlite3.Connection, place: object) -> str | None:
    tables = {name for (name,) in driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    own = {name for name in tables if not name.startswith("sqlite_")}
    return _version(own, lambda: driver.execute(_VERSIONS).fetchall(), place)


def _version(tables: set[str], read: Callable[[], Sequence[Any]], place: object) -> str | None:
    if "alembic_version" in tables and "attempts" in tables:
        versions = read()
        if len(versions) != 1:
            raise InputError("is damaged: it has no version", path=place)
        return str(versions[0][0])
    if tables:
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
