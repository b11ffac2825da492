"""Connections to the archive's database: set-up for each kind of database, and error messages for users."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from tonnage.archive.sqlite_file import BUSY_TIMEOUT, in_words, open_read_only, set_up
from tonnage.archive.url import shown
from tonnage.errors import InputError, TonnageError

__all__ = ["connect", "explained", "lost_connection", "make_engine", "write"]

_WRITERS = 0x746F6E6E  # the advisory lock that serialises writers on PostgreSQL


def make_engine(url: URL) -> Engine:
    """Return an engine for the database; nothing is opened yet."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT, "check_same_thread": False})
        event.listen(engine, "do_connect", _open_read_only)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return create_engine(url, connect_args={"connect_timeout": 10}, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise InputError(
            f"{shown(url)}: PostgreSQL needs the package psycopg", hint="pip install 'tonnage[postgres]'"
        ) from None


def _open_read_only(dialect: Any, record: Any, arguments: Any, options: Any) -> Any:  # noqa: ANN401, ARG001
    """Open a file read-only where necessary; SQLAlchemy opens all others."""
    return open_read_only(Path(arguments[0]))


def _set_up_sqlite(driver: Any, record: Any) -> None:  # noqa: ANN401, ARG001 (SQLAlchemy's own signature)
    set_up(driver)


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("migrating"):
        # To alter a table, SQLite recreates it and drops the old one, and with it all rows that refer to it.
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writing") else "BEGIN")


@contextmanager
def connect(engine: Engine) -> Iterator[Connection]:
    """Read from the database in one transaction, so that all results are consistent."""
    reading = engine
    if engine.dialect.name == "postgresql":
        reading = engine.execution_options(isolation_level="REPEATABLE READ")  # SQLite's default
    with explained(engine), reading.begin() as connection:
        yield connection


@contextmanager
def write(engine: Engine, *, migrating: bool = False) -> Iterator[Connection]:
    """Write to the database in one transaction; writers take turns."""
    writing = engine.execution_options(writing=True, migrating=migrating)
    with explained(engine), writing.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITERS})
        yield connection


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Turn database errors into errors that a user can understand."""
    try:
        with _interrupts():
            yield
    except DBAPIError as error:
        raise _in_words(error, engine) from error
    except (OverflowError, UnicodeError) as error:
        raise InputError(f"a value cannot be stored in a database: {error}") from error
    except Exception as error:
        # The bulk inserts of store.py call the driver directly.
        if isinstance(error, _driver(engine).Error):
            raise _in_words(error, engine) from error
        raise


@contextmanager
def _interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C, even if the driver fails to clean up the interrupted statement."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            cause = cause.__context__
        raise


def lost_connection(engine: Engine, error: TonnageError) -> bool:
    """Whether the connection to the server was lost, so that a retry may help."""
    return engine.dialect.name == "postgresql" and isinstance(
        _original(error.__cause__), _driver(engine).OperationalError
    )


def _original(error: BaseException | None) -> BaseException | None:
    """Return the driver's error, which SQLAlchemy wraps."""
    return error.orig if isinstance(error, DBAPIError) else error


def _driver(engine: Engine) -> Any:  # noqa: ANN401 (the module sqlite3 or psycopg)
    return engine.dialect.loaded_dbapi


def _in_words(error: Exception, engine: Engine) -> TonnageError:
    original = _original(error)
    lost = engine.dialect.name == "postgresql" and isinstance(original, _driver(engine).OperationalError)
    hint = "is the server running, and do you have permission to connect?" if lost else None
    return in_words(original or error, shown(engine.url), hint=hint)
