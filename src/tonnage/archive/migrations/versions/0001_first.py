"""The first version of the archive. This file stays as it is when schema.py changes."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INDEXED = (
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
)


def upgrade() -> None:
    """Apply this migration."""
    op.create_table("sources", _hash(), *_texts("label", "format", known=True), *_texts("path", "assumed"))
    op.create_table("runs", _hash(), *_texts("name", known=True), *_texts("workflow", "workflow_checksum"))
    op.create_table(
        "tasks",
        sa.Column("identity", sa.LargeBinary(16), primary_key=True),
        *_texts("workflow", "name", "command"),
    )
    op.create_index("tasks_name", "tasks", ["name"])
    _create_attempts()
    op.create_table("fields", *_of_an_attempt("key"), *_texts("value", known=True))
    op.create_index("fields_key_value", "fields", ["key", "value"])
    op.create_table("files", *_of_an_attempt("role", "name"))
    op.create_index("files_name", "files", ["name", "role"])


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("identity", sa.LargeBinary(16), nullable=False),
        sa.Column("native_id", sa.Text),
        sa.Column("source", sa.BigInteger, sa.ForeignKey("sources.id"), nullable=False),
        sa.Column("imported", sa.Float, nullable=False),
        sa.Column("run", sa.BigInteger, sa.ForeignKey("runs.id")),
        sa.Column("task", sa.LargeBinary(16), sa.ForeignKey("tasks.identity")),
        sa.Column("number", sa.BigInteger, nullable=False),
        *_texts("category", "label", "user", "workflow", "workflow_checksum", "executable", "host"),
        *_columns(sa.Float, "submitted", "started", "ended"),
        *_texts("outcome", "exhausted"),
        *_columns(sa.BigInteger, "exit_status", "signal"),
        *_amounts(""),
        *_columns(sa.Float, "cpu_time"),
        *_columns(sa.BigInteger, "processes"),
        *_amounts("requested_"),
        *_amounts("allocated_"),
        *_columns(sa.BigInteger, "input_bytes"),
        *_texts("memory_method", "lower_bounds"),
        sa.Column("raw", sa.JSON().with_variant(JSONB(), "postgresql")),
        sa.UniqueConstraint("identity", name="attempts_identity"),
    )
    op.create_index("attempts_source", "attempts", ["source"])
    for name in _INDEXED:
        known = sa.text(f'"{name}" IS NOT NULL')
        op.create_index(f"attempts_{name}", "attempts", [name], sqlite_where=known, postgresql_where=known)


def _hash() -> sa.Column[Any]:
    return sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False)


def _of_an_attempt(*keys: str) -> list[sa.Column[Any]]:
    attempt = sa.ForeignKey("attempts.id", ondelete="CASCADE")
    return [
        sa.Column("attempt", _KEY, attempt, primary_key=True),
        *(sa.Column(key, sa.Text, primary_key=True) for key in keys),
    ]


def _texts(*names: str, known: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=not known) for name in names]


def _columns(kind: Any, *names: str) -> list[sa.Column[Any]]:  # noqa: ANN401 (a type of SQLAlchemy's)
    return [sa.Column(name, kind) for name in names]


def _amounts(prefix: str) -> list[sa.Column[Any]]:
    cores, *sizes, time = (f"{prefix}{name}" for name in ("cores", "memory", "disk", "wall_time"))
    return [*_columns(sa.Float, cores), *_columns(sa.BigInteger, *sizes), *_columns(sa.Float, time)]
