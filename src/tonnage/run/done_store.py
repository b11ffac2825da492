"""The store of finished work: for each task of the workflows in a folder, the last attempt that finished it.

It is one SQLite file, ``.tonnage/done.db``. It outlives the folders of runs.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tonnage.atomic import make_private_file, make_private_folder
from tonnage.errors import JournalError
from tonnage.run.folders import RUNS
from tonnage.run.journal import read_only
from tonnage.run.up_to_date import FileState, Record, outputs_of
from tonnage.workflow import Task

__all__ = ["DoneStore"]

_VERSION = 1
_BUSY_TIMEOUT = 30.0  # seconds until another process has written
_SCHEMA = """
CREATE TABLE done (
    key BLOB PRIMARY KEY,  -- its first output or, if it has none, the names of its workflow and of the task
    ended REAL NOT NULL, run TEXT NOT NULL,
    record TEXT NOT NULL   -- command, inputs, scripts, outputs and the input that changed, as JSON
) WITHOUT ROWID
"""
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_PUT = "INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?)"  # whatever the times say: clocks are set back, too


class DoneStore:
    """Reads and writes the records of finished tasks."""

    def __init__(self, home: Path, workflow: str, *, network: bool = False) -> None:
        """Use the store in the folder of a workflow; a task without outputs is known by the name of its `workflow`."""
        self.path = home / RUNS.parent / "done.db"
        self._workflow = workflow
        self._network = network
        self._writer: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def records(self, tasks: Sequence[Task]) -> list[Record | None]:
        """Return the record of each task, or None if there is none."""
        if not self.path.exists():
            return [None] * len(tasks)
        try:
            with closing(read_only(self.path)) as connection:
                self._check(connection)
                if _is_empty(connection):
                    return [None] * len(tasks)
                find = "SELECT ended, run, record FROM done WHERE key = ?"
                return [
                    None if row is None else _record(*row)
                    for row in (connection.execute(find, (self._key(task),)).fetchone() for task in tasks)
                ]
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise self._error("read", error) from None

    def put(self, records: Iterable[tuple[Task, Record]]) -> None:
        """Store records in one transaction; those that were there are replaced."""
        rows = [(self._key(task), record.ended, record.run, _text(record)) for task, record in records]
        try:
            self._writer = self._writer or self._open()
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.executemany(_PUT, rows)
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._error("written", error) from None

    def _open(self) -> sqlite3.Connection:
        """Open the store for writing; one process after the other creates it."""
        with suppress(OSError):  # SQLite gives the better error message
            make_private_folder(self.path.parent)
            make_private_file(self.path)
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_TIMEOUT, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = " + ("DELETE" if self._network else "WAL"))
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        if _is_empty(connection):
            connection.execute(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
        self._check(connection)
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != _VERSION and not _is_empty(connection):
            raise self._error("used", f"its format is {version}, not {_VERSION}")

    def _error(self, verb: str, error: object) -> JournalError:
        hint = "tonnage run --new works without it; if it is moved away, everything counts as not done"
        return JournalError(f"{self.path}: the record of finished tasks cannot be {verb}: {error}", hint=hint)

    def _key(self, task: Task) -> bytes:
        if task.outputs:
            return os.fsencode(outputs_of(task)[0])
        return f"{self._workflow}\0{task.name}".encode("utf-8", "surrogatepass")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _text(record: Record) -> str:
    files = [_plain(one) for one in (record.inputs, record.scripts, record.outputs)]
    return _ENCODER.encode([record.command, *files, record.changed])


def _record(ended: float, run: str, text: str) -> Record:
    command, inputs, scripts, outputs, changed = json.loads(text)
    return Record(command, _states(inputs), _states(scripts), _states(outputs), changed, run, ended)


def _plain(states: Mapping[str, FileState | None]) -> dict[str, list[object] | None]:
    return {
        place: None if state is None else [state.size, state.time, state.content] for place, state in states.items()
    }


def _states(plain: Mapping[str, Any]) -> dict[str, FileState | None]:
    return {place: None if cells is None else FileState(*cells) for place, cells in plain.items()}
