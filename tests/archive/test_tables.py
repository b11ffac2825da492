"""The archive's tables are described three times, each for another reader; all three agree."""

from pathlib import Path

from tests.archive.sqlite_tables import statements
from tonnage.archive import Archive
from tonnage.archive.schema import METADATA
from tonnage.archive.tables import COLUMNS, KEYS, SQLITE_TABLES


def test_a_file_is_created_as_sqlalchemy_would_create_it() -> None:
    assert SQLITE_TABLES.read_text() == statements(), "run python -m tests.archive.sqlite_tables"


def test_rows_are_written_in_the_order_of_the_columns() -> None:
    assert {name: tuple(table.columns.keys()) for name, table in METADATA.tables.items()} == COLUMNS
    for name, key in KEYS.items():
        assert tuple(METADATA.tables[name].primary_key.columns.keys()) == key


def test_a_new_archive_is_empty(tmp_path: Path) -> None:
    with Archive.open(str(tmp_path / "new.db"), create=True) as archive:
        assert archive.count() == 0
        assert archive.engine.dialect.name == "sqlite"  # from now on, its connections are used
        assert archive.count() == 0
