"""Bulk inserts into the archive, in SQLite and PostgreSQL: rows that are already there are skipped or replaced."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tonnage.archive.attempt_rows import Batch
from tonnage.archive.tables import COLUMNS, KEYS
from tonnage.archive.texts import clean

__all__ = ["Bulk", "bulk_for", "insert", "note_sources"]

_AT_ONCE = 10_000
_FEW = 500  # rows; for fewer, PostgreSQL takes longer to create a table than to insert them
_Row = tuple[object, ...]


class Bulk(Protocol):
    """Inserts into an open transaction."""

    def sources(self, numbers: Sequence[int]) -> list[_Row]:
        """Return the rows of sources, given by their numbers."""

    def replace_sources(self, rows: Sequence[_Row]) -> None:
        """Insert sources; a new row replaces an old one."""

    def known(self, identities: Sequence[object]) -> set[object]:
        """Return which of these identities are in the archive."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        """Insert rows, skipping those whose key or identity already exists; return how many were new."""

    def insert_for_attempts(self, table: str, rows: Sequence[tuple[bytes, str, str]]) -> None:
        """Insert fields or files of attempts, given by their identities; a new value replaces an old one."""


def bulk_for(connection: Any, *, sqlite: bool) -> Bulk:  # noqa: ANN401 (of Python's sqlite3 or of psycopg)
    """Return what inserts with a driver's own connection, inside of its transaction."""
    return _SQLite(connection) if sqlite else _Postgres(connection)


def insert(target: Bulk, batch: Batch) -> int:
    """Insert the rows of a batch; return how many attempts were new."""
    if batch.runs:
        target.insert("runs", COLUMNS["runs"], list(batch.runs.values()))
    if batch.tasks:
        target.insert("tasks", COLUMNS["tasks"], list(batch.tasks.values()))
    stored = target.insert("attempts", COLUMNS["attempts"][1:], batch.attempts)
    if batch.fields:
        target.insert_for_attempts("fields", batch.fields)
    if batch.files:
        target.insert_for_attempts("files", batch.files)
    return stored


def note_sources(target: Bulk, wanted: Mapping[int, Sequence[str | None]]) -> None:
    """Record where attempts come from; another file with the same label replaces the previous one.

    Looked up before writing, since most sources are already recorded.
    """
    rows = [(number, *map(clean, cells)) for number, cells in wanted.items()]
    known = set(target.sources(list(wanted)))
    target.replace_sources([row for row in rows if row not in known])


def _names(columns: Sequence[str]) -> str:
    """Quote names of columns; they come from tables.py, never from a user."""
    return ", ".join(f'"{name}"' for name in columns)


def _on_conflict(table: str) -> str:
    """Return the clause for rows that already exist: columns that are not part of the key are replaced."""
    changing = [f'"{name}" = excluded."{name}"' for name in COLUMNS[table] if name not in KEYS[table]]
    return f"ON CONFLICT ({_names(KEYS[table])}) DO " + (f"UPDATE SET {', '.join(changing)}" if changing else "NOTHING")


def _some(values: Sequence[object]) -> Iterator[Sequence[object]]:
    """Yield as many values at a time as one query takes."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


class _SQLite:
    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def sources(self, numbers: Sequence[int]) -> list[_Row]:
        names, marks = _names(COLUMNS["sources"]), ", ".join("?" * len(numbers))
        return self._driver.execute(f"SELECT {names} FROM sources WHERE id IN ({marks})", numbers).fetchall()  # noqa: S608

    def replace_sources(self, rows: Sequence[_Row]) -> None:
        names, marks = _names(COLUMNS["sources"]), ", ".join("?" * len(COLUMNS["sources"]))
        statement = f"INSERT INTO sources ({names}) VALUES ({marks}) {_on_conflict('sources')}"  # noqa: S608
        self._driver.executemany(statement, rows)

    def known(self, identities: Sequence[object]) -> set[object]:
        found: set[object] = set()
        for some in _some(identities):
            marks = ", ".join("?" * len(some))
            found |= {
                identity
                for (identity,) in self._driver.execute(
                    f"SELECT identity FROM attempts WHERE identity IN ({marks})",  # noqa: S608
                    some,
                )
            }
        return found

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({_names(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
        return int(self._driver.executemany(statement, rows).rowcount)

    def insert_for_attempts(self, table: str, rows: Sequence[tuple[bytes, str, str]]) -> None:
        self._driver.executemany(
            f"INSERT INTO {table} SELECT id, ?2, ?3 FROM attempts WHERE identity = ?1 {_on_conflict(table)}",  # noqa: S608
            rows,
        )


class _Postgres:
    """COPY cannot handle conflicts, so rows go into a temporary table first, unless they are few."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401 (a psycopg.Connection)
        self._cursor = driver.cursor()

    def sources(self, numbers: Sequence[int]) -> list[_Row]:
        names = _names(COLUMNS["sources"])
        self._cursor.execute(f"SELECT {names} FROM sources WHERE id = ANY(%s)", (list(numbers),))  # noqa: S608
        return list(self._cursor.fetchall())

    def replace_sources(self, rows: Sequence[_Row]) -> None:
        names, marks = _names(COLUMNS["sources"]), ", ".join(["%s"] * len(COLUMNS["sources"]))
        statement = f"INSERT INTO sources ({names}) VALUES ({marks}) {_on_conflict('sources')}"  # noqa: S608
        self._cursor.executemany(statement, rows)

    def known(self, identities: Sequence[object]) -> set[object]:
        found: set[object] = set()
        for some in _some(identities):
            self._cursor.execute("SELECT identity FROM attempts WHERE identity = ANY(%s)", (list(some),))
            found |= {bytes(identity) for (identity,) in self._cursor.fetchall()}
        return found

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        names, staging = _names(columns), f"new_{table}"
        if len(rows) <= _FEW:
            marks = ", ".join(["%s"] * len(columns))
            self._cursor.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING",  # noqa: S608
                rows,
            )
            return int(self._cursor.rowcount)
        self._cursor.execute(
            f"CREATE TEMP TABLE {staging} ON COMMIT DROP AS SELECT {names} FROM {table} WITH NO DATA"  # noqa: S608
        )
        self._copy(f"COPY {staging} ({names}) FROM STDIN", rows)
        self._cursor.execute(
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {staging} ON CONFLICT DO NOTHING"  # noqa: S608
        )
        return int(self._cursor.rowcount)

    def insert_for_attempts(self, table: str, rows: Sequence[tuple[bytes, str, str]]) -> None:
        if len(rows) <= _FEW:
            self._cursor.executemany(
                f"INSERT INTO {table} SELECT id, %s, %s FROM attempts WHERE identity = %s {_on_conflict(table)}",  # noqa: S608
                [(role, name, identity) for identity, role, name in rows],
            )
            return
        staging = f"new_{table}"
        last = {row[: len(KEYS[table])]: row for row in rows}  # one statement can change a row only once
        self._cursor.execute(f"CREATE TEMP TABLE {staging} (identity bytea, a text, b text) ON COMMIT DROP")
        self._copy(f"COPY {staging} FROM STDIN", last.values())
        self._cursor.execute(
            f"INSERT INTO {table} SELECT id, a, b FROM {staging} JOIN attempts USING (identity)"  # noqa: S608
            f" {_on_conflict(table)}"
        )

    def _copy(self, statement: str, rows: Iterable[_Row]) -> None:
        with self._cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
