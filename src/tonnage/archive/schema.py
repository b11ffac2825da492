"""The archive's tables, the same on SQLite and PostgreSQL.

A row of `attempts` is one execution of a task; its `identity` is the same whenever the same job is read again. What
many attempts share (the log they were read from, the run, the task with its command) is in separate tables, and so are
the fields that users add and the names of the files that an attempt read and wrote. Amounts are bytes, seconds and
cores, moments are seconds since 1970 in UTC, NULL means unknown.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB

from tonnage.archive.tables import VERSION
from tonnage.jobs import AMOUNTS

__all__ = ["METADATA", "VERSION", "attempts", "fields", "files", "runs", "sources", "tasks"]

METADATA = MetaData()
_KEY = BigInteger().with_variant(Integer, "sqlite")  # there, only INTEGER autoincrements
_HASH = LargeBinary(16)

sources = Table(
    "sources",
    METADATA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("label", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("path", Text),
    Column("assumed", Text),
)

runs = Table(
    "runs",
    METADATA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("workflow", Text),
    Column("workflow_checksum", Text),
)

tasks = Table(
    "tasks",
    METADATA,
    Column("identity", _HASH, primary_key=True),
    Column("workflow", Text),
    Column("name", Text),
    Column("command", Text),
    Index("tasks_name", "name"),
)


def _amount(name: str) -> Column[Any]:
    whole = AMOUNTS[name][1].unit in ("bytes", "processes")
    return Column(name, BigInteger if whole else Float)


attempts = Table(
    "attempts",
    METADATA,
    Column("id", _KEY, primary_key=True),
    Column("identity", _HASH, nullable=False),
    Column("native_id", Text),
    Column("source", BigInteger, ForeignKey("sources.id"), nullable=False),
    Column("imported", Float, nullable=False),
    Column("run", BigInteger, ForeignKey("runs.id")),
    Column("task", _HASH, ForeignKey("tasks.identity")),
    Column("number", BigInteger, nullable=False),
    Column("category", Text),
    Column("label", Text),
    Column("user", Text),
    Column("workflow", Text),
    Column("workflow_checksum", Text),
    Column("executable", Text),
    Column("host", Text),
    Column("submitted", Float),
    Column("started", Float),
    Column("ended", Float),
    Column("outcome", Text),
    Column("exhausted", Text),
    Column("exit_status", BigInteger),
    Column("signal", BigInteger),
    *map(_amount, AMOUNTS),
    Column("input_bytes", BigInteger),
    Column("memory_method", Text),
    Column("lower_bounds", Text),
    Column("raw", JSON().with_variant(JSONB(), "postgresql")),
    UniqueConstraint("identity", name="attempts_identity"),
)

fields = Table(
    "fields",
    METADATA,
    Column("attempt", _KEY, ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Index("fields_key_value", "key", "value"),
)

files = Table(
    "files",
    METADATA,
    Column("attempt", _KEY, ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("role", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Index("files_name", "name", "role"),
)

Index("attempts_source", attempts.c.source)
# Most logs leave most of these columns empty, and empty cells take no space in partial indexes.
for _name in (
    "category",
    "label",
    "user",
    "workflow",
    "workflow_checksum",
    "executable",
    "run",
    "task",
    "ended",
    "memory",
    "disk",
    "wall_time",
):
    _column = attempts.c[_name]
    Index(f"attempts_{_name}", _column, sqlite_where=_column.is_not(None), postgresql_where=_column.is_not(None))
Index(
    "attempts_category_memory",
    attempts.c.category,
    attempts.c.memory,
    sqlite_where=attempts.c.memory.is_not(None),
    postgresql_where=attempts.c.memory.is_not(None),
)
