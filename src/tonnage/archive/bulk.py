"""Many rows into the archive at once, as fast as each database can: what is already there stays as it is."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, Table

__all__ = ["Bulk", "bulk"]

_Row = tuple[object, ...]


class Bulk(Protocol):
    """Inserts into an open transaction; returns how many rows were new."""

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        """Insert rows; one whose key or identity is already there is left out."""

    def insert_fields(self, rows: Iterable[tuple[bytes, str, str]]) -> None:
        """Insert fields of attempts that are given by their identities: identity, key, value."""


def bulk(connection: Connection) -> Bulk:
    """Return what inserts into the database of this connection."""
    driver: Any = connection.connection.driver_connection
    return _SQLite(driver) if connection.dialect.name == "sqlite" else _Postgres(driver)


def _names(columns: Sequence[str]) -> str:
    """Quote the names of columns; they are those of schema.py, never a user's."""
    return ", ".join(f'"{name}"' for name in columns)


class _SQLite:
    def __init__(self, driver: Any) -> None:  # noqa: ANN401 (a sqlite3.Connection)
        self._driver = driver

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table.name} ({_names(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
        return int(self._driver.executemany(statement, rows).rowcount)

    def insert_fields(self, rows: Iterable[tuple[bytes, str, str]]) -> None:
        self._driver.executemany(
            "INSERT INTO fields (attempt, key, value) SELECT id, ?2, ?3 FROM attempts WHERE identity = ?1"
            " ON CONFLICT DO NOTHING",
            rows,
        )


class _Postgres:
    """COPY knows no conflicts, so rows are copied into a table of this transaction first."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401 (a psycopg.Connection)
        self._cursor = driver.cursor()

    def insert(self, table: Table, columns: Sequence[str], rows: Sequence[_Row]) -> int:
        names, staging = _names(columns), f"new_{table.name}"
        self._cursor.execute(
            f"CREATE TEMP TABLE {staging} ON COMMIT DROP AS SELECT {names} FROM {table.name} WITH NO DATA"  # noqa: S608
        )
        self._copy(f"COPY {staging} ({names}) FROM STDIN", rows)
        self._cursor.execute(
            f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {staging} ON CONFLICT DO NOTHING"  # noqa: S608
        )
        return int(self._cursor.rowcount)

    def insert_fields(self, rows: Iterable[tuple[bytes, str, str]]) -> None:
        self._cursor.execute("CREATE TEMP TABLE new_fields (identity bytea, key text, value text) ON COMMIT DROP")
        self._copy("COPY new_fields FROM STDIN", rows)
        self._cursor.execute(
            "INSERT INTO fields (attempt, key, value) SELECT id, key, value"
            " FROM new_fields JOIN attempts USING (identity) ON CONFLICT DO NOTHING"
        )

    def _copy(self, statement: str, rows: Iterable[_Row]) -> None:
        with self._cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
