"""Many rows into the archive at once, as fast as each database can: what is already there stays as it is."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, Table

__all__ = ["Bulk", "bulk"]

_Row = tuple[object, ...]
_FEW = 500  # rows for which PostgreSQL takes longer to make a table than to insert them


class Bulk(Protocol):
    """Inserts into an open transaction."""

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        """Insert rows, leaving out those whose key or identity is already there; return how many were new."""

    def insert_for_attempts(self, table: Table, rows: Sequence[tuple[bytes, str, str]]) -> None:
        """Insert fields or files of attempts, which are given by their identities; a new value replaces an old one."""


def bulk(connection: Connection) -> Bulk:
    """Return what inserts into the database of this connection."""
    driver: Any = connection.connection.driver_connection
    return _SQLite(driver) if connection.dialect.name == "sqlite" else _Postgres(driver)


def _names(columns: Sequence[str]) -> str:
    """Quote the names of columns; they are those of schema.py, never a user's."""
    return ", ".join(f'"{name}"' for name in columns)


def _on_conflict(table: Table) -> str:
    """Return what becomes of a row that is there already: columns that are no part of its key are replaced."""
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
    """COPY knows no conflicts, so rows are copied into a table of this transaction first; a few are not worth that."""

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
        last = {row[: len(table.primary_key)]: row for row in rows}  # one statement may change a row only once
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
