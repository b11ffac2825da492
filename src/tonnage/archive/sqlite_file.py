"""An archive that is a file, opened with Python's own sqlite3: a run need not load SQLAlchemy to store its attempts."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from tonnage.errors import InputError, TonnageError
from tonnage.files import on_network

__all__ = ["BUSY_TIMEOUT", "in_words", "open_file", "open_read_only", "set_up", "writing"]

BUSY_TIMEOUT = 120
"""Seconds to wait for another writer."""
_PAUSE = 0.01
_CACHE = 256 * 1024  # KiB: identities are looked up at random places of their index
_CHECKPOINT = 20_000  # pages: so a page that changes with each commit is written to the file less often


def open_file(file: Path) -> sqlite3.Connection:
    """Open a file as SQLAlchemy's connections are opened; it may be used by one thread after another."""
    driver = open_read_only(file) or sqlite3.connect(file, timeout=BUSY_TIMEOUT, check_same_thread=False)
    try:
        set_up(driver)
    except BaseException:
        driver.close()
        raise
    return driver


def open_read_only(path: Path) -> sqlite3.Connection | None:
    """Open a file read-only if this user cannot write to it or its folder, where SQLite would create other files.

    SQLite then assumes that the file does not change. If another process writes to it meanwhile, it looks damaged
    until it is opened again.
    """
    file = Path(os.path.realpath(path))
    if not os.access(file, os.F_OK) or (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return None
    beside = file.with_name(f"{file.name}-wal").exists()
    mode = "mode=ro" if beside else "mode=ro&immutable=1"
    return sqlite3.connect(f"{file.as_uri()}?{mode}", uri=True, timeout=BUSY_TIMEOUT, check_same_thread=False)


def set_up(driver: sqlite3.Connection) -> None:
    """Prepare a new connection."""
    driver.isolation_level = None  # transactions begin where we say so, not where Python guesses
    file = driver.execute("PRAGMA database_list").fetchone()[2]
    # Write-ahead logging lets readers continue during a write; its shared memory does not work on network file systems.
    mode = "DELETE" if on_network(Path(file)) else "WAL"
    if driver.execute("PRAGMA journal_mode").fetchone()[0].upper() != mode and os.access(file, os.W_OK):
        _change_mode(driver, mode)
    driver.execute("PRAGMA synchronous = FULL")
    driver.execute("PRAGMA foreign_keys = ON")
    driver.execute(f"PRAGMA cache_size = -{_CACHE}")
    driver.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")


def _change_mode(driver: sqlite3.Connection, mode: str) -> None:
    """Set the journal mode, with retries: SQLite does not wait here for processes that open a new file, too."""
    deadline = monotonic() + BUSY_TIMEOUT
    while True:
        try:
            driver.execute(f"PRAGMA journal_mode = {mode}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > deadline:
                raise
            sleep(_PAUSE)


@contextmanager
def writing(driver: sqlite3.Connection) -> Iterator[None]:
    """Write in one transaction; writers take turns."""
    driver.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if driver.in_transaction:
            driver.execute("ROLLBACK")
        raise
    driver.execute("COMMIT")


def in_words(error: BaseException, place: object, *, hint: str | None = None) -> TonnageError:
    """Turn an error of a database into one that a user can understand; `hint` is for those that are not known."""
    message = " ".join(str(error).split()) or type(error).__name__
    known = {
        "database or disk is full": "the disk is full",
        "No space left": "the disk is full",
        "attempt to write a readonly database": "cannot be written: no permission, or a read-only file system",
        "unable to open database file": "cannot be opened: no such folder, or no permission",
        "database is locked": f"another process has been writing to it for more than {BUSY_TIMEOUT} seconds",
        "disk I/O error": "the disk failed or is full",
    }
    if message == "interrupted" or "statement timeout" in message:
        return TonnageError("the query took too long", hint="narrow the search, or try again later")
    for words, meaning in known.items():
        if words in message:
            intact = "what was stored before is intact; repeat the command to continue"
            return TonnageError(f"{place}: {meaning}", hint=intact)
    if "file is not a database" in message or "file is encrypted" in message:
        return InputError("is not an archive but another kind of file", path=place)
    if "malformed" in message:
        repair = f"if no other process was writing to it, sqlite3 {place} .recover may recover what remains"
        return TonnageError(f"{place}: the file is damaged ({message})", hint=repair)
    return TonnageError(f"{place}: {message}", hint=hint)
