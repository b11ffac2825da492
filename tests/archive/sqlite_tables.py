"""Writes the statements that create the archive's tables in a file, as SQLAlchemy would: after a change of schema.py.

python -m tests.archive.sqlite_tables
"""

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from tonnage.archive.schema import METADATA
from tonnage.archive.tables import SQLITE_TABLES

__all__ = ["statements"]


def statements() -> str:
    """Return the statements for all tables and indexes."""
    found = []
    for table in METADATA.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        elements: list[CreateTable | CreateIndex] = [CreateTable(table), *map(CreateIndex, indexes)]
        for element in elements:
            lines = str(element.compile(dialect=sqlite.dialect())).strip().replace("\t", "    ").splitlines()
            found.append("\n".join(line.rstrip() for line in lines) + ";\n")
    return "".join(found)


if __name__ == "__main__":
    SQLITE_TABLES.write_text(statements())
