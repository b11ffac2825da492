"""The names of the archive's tables and columns, for code that writes to them without SQLAlchemy.

`schema` has their types and indexes, and ``sqlite_tables.sql`` the statements that create them in a file. A test
compares all three.
"""

from pathlib import Path

from tonnage.jobs import AMOUNTS

__all__ = ["COLUMNS", "KEYS", "SQLITE_TABLES", "VERSION"]

VERSION = "0002"
"""The newest migration, whose result these tables are."""

SQLITE_TABLES = Path(__file__).with_name("sqlite_tables.sql")

COLUMNS = {
    "sources": ("id", "label", "format", "path", "assumed"),
    "runs": ("id", "name", "workflow", "workflow_checksum"),
    "tasks": ("identity", "workflow", "name", "command"),
    "attempts": (
        "id",
        "identity",
        "native_id",
        "source",
        "imported",
        "run",
        "task",
        "number",
        "category",
        "label",
        "user",
        "workflow",
        "workflow_checksum",
        "executable",
        "host",
        "submitted",
        "started",
        "ended",
        "outcome",
        "exhausted",
        "exit_status",
        "signal",
        *AMOUNTS,
        "input_bytes",
        "memory_method",
        "lower_bounds",
        "raw",
    ),
    "fields": ("attempt", "key", "value"),
    "files": ("attempt", "role", "name"),
}
"""The columns of each table, in order."""

KEYS = {"sources": ("id",), "fields": ("attempt", "key"), "files": ("attempt", "role", "name")}
"""The primary keys of the tables in which a new row replaces an old one."""
