"""Connections to the archive's database: how each kind is set up, and its errors in the user's words."""

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
_CACHE = 256 * 1024  # KiB: identities are looked up all over their index
_CHECKPOINT = 20_000  # pages: a page that changes with each commit is then written to the file less often
_WRITERS = 0x746F6E6E  # the advisory lock that writers take turns with on PostgreSQL
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
    """Open a file that this user may only read: without its folder, SQLite cannot make the files it wants beside it.

    Then SQLite takes it that nobody writes to it. Who does so meanwhile makes it look damaged, until it is read again.
    """
    file = Path(os.path.realpath(arguments[0]))
    if not os.access(file, os.F_OK) or (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return None  # SQLAlchemy opens it
    beside = file.with_name(f"{file.name}-wal").exists()
    mode = "mode=ro" if beside else "mode=ro&immutable=1"
    return sqlite3.connect(f"{file.as_uri()}?{mode}", uri=True, timeout=_PATIENCE, check_same_thread=False)


def _set_up_sqlite(driver: Any, record: Any) -> None:  # noqa: ANN401, ARG001 (SQLAlchemy's own signature)
    driver.isolation_level = None  # transactions begin where _begin_sqlite says, not where Python guesses
    file = driver.execute("PRAGMA database_list").fetchone()[2]
    # Write-ahead logging lets readers go on while one writes; on a network its shared memory does not work.
    mode = "DELETE" if on_network(Path(file)) else "WAL"
    if driver.execute("PRAGMA journal_mode").fetchone()[0].upper() != mode and os.access(file, os.W_OK):
        _change_mode(driver, mode)
    driver.execute("PRAGMA synchronous = FULL")
    driver.execute("PRAGMA foreign_keys = ON")
    driver.execute(f"PRAGMA cache_size = -{_CACHE}")
    driver.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")


def _change_mode(driver: Any, mode: str) -> None:  # noqa: ANN401
    """Choose how transactions are kept; SQLite does not wait for others here, who open a new file at the same time."""
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
        # To change a table, SQLite makes it anew and drops the old one, and with it all rows that refer to it.
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writing") else "BEGIN")


def on_network(file: Path) -> bool:
    """Whether a file lies on a file system that other machines share."""
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
    """Read from the database, in one transaction: all that is read belongs together."""
    reading = engine
    if engine.dialect.name == "postgresql":
        reading = engine.execution_options(isolation_level="REPEATABLE READ")  # as SQLite does by itself
    with explained(engine), reading.begin() as connection:
        yield connection


@contextmanager
def write(engine: Engine, *, migrating: bool = False) -> Iterator[Connection]:
    """Write to the database, all or nothing; writers take turns."""
    writing = engine.execution_options(writing=True, migrating=migrating)
    with explained(engine), writing.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITERS})
        yield connection


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Say in the user's words what is wrong with the database."""
    try:
        with _interrupts():
            yield
    except DBAPIError as error:
        raise _in_words(error, engine) from error
    except (OverflowError, UnicodeError) as error:
        raise InputError(f"a value is none that a database can hold: {error}") from error
    except Exception as error:
        # The bulk inserts of store.py call the driver directly.
        if isinstance(error, _driver(engine).Error):
            raise _in_words(error, engine) from error
        raise


@contextmanager
def _interrupts() -> Iterator[None]:
    """Let Ctrl-C be Ctrl-C, even where the driver then fails to clean up a statement in its midst."""
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
    """Whether the server went away, so that it may be worth while to try again."""
    return engine.dialect.name == "postgresql" and isinstance(
        _original(error.__cause__), _driver(engine).OperationalError
    )


def _original(error: BaseException | None) -> BaseException | None:
    """Return the driver's own error."""
    return error.orig if isinstance(error, DBAPIError) else error


def _driver(engine: Engine) -> Any:  # noqa: ANN401 (the module sqlite3 or psycopg)
    return engine.dialect.loaded_dbapi


def _in_words(error: Exception, engine: Engine) -> TonnageError:
    place = shown(engine.url)
    original = _original(error)
    said = " ".join(str(original).split()) or type(original).__name__
    known = {
        "database or disk is full": "the disk is full",
        "No space left": "the disk is full",
        "attempt to write a readonly database": "it cannot be written: no permission, or a read-only file system",
        "unable to open database file": "the file cannot be opened: no such folder, or no permission for it",
        "database is locked": f"another process has been writing to it for more than {_PATIENCE} seconds",
        "disk I/O error": "the disk failed, or is full",
    }
    if said == "interrupted" or "statement timeout" in said:
        return TonnageError("this question to the archive took too long", hint="narrow the search, or try again later")
    for words, meaning in known.items():
        if words in said:
            return TonnageError(f"{place}: {meaning}", hint="what was stored before is intact; the same call goes on")
    if "file is not a database" in said or "file is encrypted" in said:
        return InputError("is not an archive: another kind of file", path=place)
    if "malformed" in said:
        repair = f"if nobody wrote to it just now, sqlite3 {place} .recover may save what is left"
        return TonnageError(f"{place}: the file is damaged ({said})", hint=repair)
    lost = engine.dialect.name == "postgresql" and isinstance(original, _driver(engine).OperationalError)
    return TonnageError(f"{place}: {said}", hint="is the server running, and may you connect to it?" if lost else None)
