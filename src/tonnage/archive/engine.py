"""Connections to the archive's database: set-up for each kind of database, and error messages for users."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from tonnage.archive.url import shown
from tonnage.errors import InputError, TonnageError

__all__ = ["connect", "explained", "lost_connection", "make_engine", "on_network", "write"]

_PATIENCE = 120  # seconds to wait for another writer
_PAUSE = 0.01
_CACHE = 256 * 1024  # KiB: identities are looked up at random places of their index
_CHECKPOINT = 20_000  # pages: so a page that changes with each commit is written to the file less often
_WRITERS = 0x746F6E6E  # the advisory lock that serialises writers on PostgreSQL
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "lustre", "gpfs", "beegfs", "ceph", "fuse.sshfs", "afs"}


def make_engine(url: URL) -> Engine:
    """Return an engine for the database; nothing is opened yet."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _PATIENCE, "check_same_thread": False})
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
    """Open a file read-only if this user cannot write to it or its folder, where SQLite would create other files.

    SQLite then assumes that the file does not change. If another process writes to it meanwhile, it looks damaged
    until it is opened again.
    """
    file = Path(os.path.realpath(arguments[0]))
    if not os.access(file, os.F_OK) or (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return None  # SQLAlchemy opens it
    beside = file.with_name(f"{file.name}-wal").exists()
    mode = "mode=ro" if beside else "mode=ro&immutable=1"
    return sqlite3.connect(f"{file.as_uri()}?{mode}", uri=True, timeout=_PATIENCE, check_same_thread=False)


def _set_up_sqlite(driver: Any, record: Any) -> None:  # noqa: ANN401, ARG001 (SQLAlchemy's own signature)
    driver.isolation_level = None  # transactions begin in _begin_sqlite, not where Python guesses
    file = driver.execute("PRAGMA database_list").fetchone()[2]
    # Write-ahead logging lets readers continue during a write; its shared memory does not work on network file systems.
    mode = "DELETE" if on_network(Path(file)) else "WAL"
    if driver.execute("PRAGMA journal_mode").fetchone()[0].upper() != mode and os.access(file, os.W_OK):
        _change_mode(driver, mode)
    driver.execute("PRAGMA synchronous = FULL")
    driver.execute("PRAGMA foreign_keys = ON")
    driver.execute(f"PRAGMA cache_size = -{_CACHE}")
    driver.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")


def _change_mode(driver: Any, mode: str) -> None:  # noqa: ANN401
    """Set the journal mode, with retries: SQLite does not wait here for processes that open a new file, too."""
    deadline = monotonic() + _PATIENCE
    while True:
        try:
            driver.execute(f"PRAGMA journal_mode = {mode}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > deadline:
                raise
            sleep(_PAUSE)


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("migrating"):
        # To alter a table, SQLite recreates it and drops the old one, and with it all rows that refer to it.
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writing") else "BEGIN")


def on_network(file: Path) -> bool:
    """Whether a file is on a network file system."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    resolved = str(file.resolve())
    best, kind = "", ""
    for device_place_kind in (line.split() for line in mounts):
        place = device_place_kind[1].replace("\\040", " ")
        if len(place) >= len(best) and (resolved == place or resolved.startswith(f"{place.rstrip('/')}/")):
            best, kind = place, device_place_kind[2]
    return kind in _NETWORK


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
    place = shown(engine.url)
    original = _original(error)
    message = " ".join(str(original).split()) or type(original).__name__
    known = {
        "database or disk is full": "the disk is full",
        "No space left": "the disk is full",
        "attempt to write a readonly database": "cannot be written: no permission, or a read-only file system",
        "unable to open database file": "cannot be opened: no such folder, or no permission",
        "database is locked": f"another process has been writing to it for more than {_PATIENCE} seconds",
        "disk I/O error": "the disk failed or is full",
    }
    if message == "interrupted" or "statement timeout" in message:
        return TonnageError("the query took too long", hint="narrow the search, or try again later")
    for words, meaning in known.items():
        if words in message:
            hint = "what was stored before is intact; repeat the command to continue"
            return TonnageError(f"{place}: {meaning}", hint=hint)
    if "file is not a database" in message or "file is encrypted" in message:
        return InputError("is not an archive but another kind of file", path=place)
    if "malformed" in message:
        repair = f"if no other process was writing to it, sqlite3 {place} .recover may recover what remains"
        return TonnageError(f"{place}: the file is damaged ({message})", hint=repair)
    lost = engine.dialect.name == "postgresql" and isinstance(original, _driver(engine).OperationalError)
    connecting = "is the server running, and do you have permission to connect?"
    return TonnageError(f"{place}: {message}", hint=connecting if lost else None)
