"""Forgetting, checking, upgrading and exporting."""

import csv
import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from tests.archive.conftest import Store
from tests.deadlines import HANGS
from tests.warm import context
from tonnage.archive import (
    EVERYTHING,
    Archive,
    Search,
    check,
    count_forgettable,
    export,
    find,
    forget,
    import_source,
    maintenance,
    record,
)
from tonnage.archive import store as store_module
from tonnage.archive.engine import connect, make_engine, write
from tonnage.archive.maintenance import bring_up_to_date, migrate
from tonnage.archive.schema import METADATA, VERSION
from tonnage.archive.url import archive_url
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Amounts, Attempt
from tonnage.logs import table
from tonnage.logs.conditions import Condition
from tonnage.logs.log import Hints, Log
from tonnage.logs.sources import Source


def jobs(count: int) -> list[Attempt]:
    return [
        Attempt(
            row=f"{number}",
            category=f"c{number % 2}",
            ended=float(number),
            run=f"run {number // 10}",
            task=f"task {number}",
            used=Amounts.of(memory=number * 1000, wall_time=number / 2),
            fields={"number": f"{number}"},
            inputs=(f"{number % 2}.fa",),
            outputs=(f"{number}.bam",),
        )
        for number in range(count)
    ]


def test_old_attempts_are_forgotten_with_all_that_belongs_to_them(archive: Archive, store: Store) -> None:
    store(jobs(30))
    assert count_forgettable(archive, EVERYTHING, before=20) == 20
    assert archive.count() == 30
    assert forget(archive, EVERYTHING, before=20) == 20
    assert [attempt.ended for attempt in find(archive)] == list(range(20, 30))
    with connect(archive.engine) as connection:
        for name, left in {"tasks": 10, "runs": 1, "fields": 10, "files": 20, "sources": 1}.items():
            assert connection.execute(text(f"SELECT count(*) FROM {name}")).scalar() == left
    assert check(archive) == []


def test_the_newest_of_each_category_are_kept(archive: Archive, store: Store) -> None:
    store(jobs(30))
    assert forget(archive, EVERYTHING, keep=3) == 24
    assert [attempt.ended for attempt in find(archive)] == [24, 25, 26, 27, 28, 29]
    assert forget(archive, Search(category="c0"), before=28, keep=1) == 2
    assert [attempt.ended for attempt in find(archive)] == [25, 27, 28, 29]


def test_what_was_forgotten_can_be_imported_again(archive: Archive, store: Store) -> None:
    store(jobs(5))
    forget(archive, EVERYTHING, before=3)
    assert store(jobs(5)).stored == 3


@pytest.mark.parametrize(
    "search",
    [
        Search(fields={"number": "3"}),
        Search(input="1.fa"),
        Search(output="7.bam"),
        Search(run="run 1"),
        Search(task="task 4"),
        Search(where=(Condition.parse("wall_time>10s"),)),
    ],
)
def test_what_a_search_finds_is_forgotten_and_nothing_else(archive: Archive, store: Store, search: Search) -> None:
    store(jobs(30))
    found, before = list(find(archive, search)), list(find(archive))
    assert found
    assert forget(archive, search) == len(found)
    assert list(find(archive)) == [attempt for attempt in before if attempt not in found]


def test_undated_attempts_age_from_their_import(archive: Archive, store: Store) -> None:
    now = time.time()
    store([Attempt(row="undated")])
    assert count_forgettable(archive, EVERYTHING, before=now - 1) == 0
    assert count_forgettable(archive, EVERYTHING, before=now + 60) == 1


def test_a_sound_archive_has_no_problems_and_an_odd_row_is_found(archive: Archive, store: Store) -> None:
    store(jobs(5))
    assert check(archive) == []
    with write(archive.engine) as connection:
        connection.execute(text("UPDATE attempts SET outcome = 'odd' WHERE id = (SELECT min(id) FROM attempts)"))
        connection.execute(text("UPDATE attempts SET memory = -1 WHERE id = (SELECT max(id) FROM attempts)"))
    negative, odd = check(archive)
    assert "a negative amount: 1" in negative
    assert "an unknown outcome: 1" in odd


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    with Archive.open(str(file), create=True) as archive:
        import_source(archive, Source("x", "x", "csv", iter(jobs(2000))))
    data = bytearray(file.read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 6000):
        data[place] ^= 0x5A
    file.write_bytes(data)
    try:
        with Archive.open(str(file)) as archive:
            problems = check(archive)
    except TonnageError as error:
        problems = [str(error)]
    assert any("damaged: " in problem or "the file is damaged" in problem for problem in problems)


def _shape(engine_url: str) -> dict[str, object]:
    """All that a database knows about the archive's tables."""
    engine = make_engine(archive_url(engine_url))
    looked = inspect(engine)
    shape = {
        name: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in looked.get_columns(name)],
            looked.get_pk_constraint(name)["constrained_columns"],
            sorted(str(key["constrained_columns"]) + key["referred_table"] for key in looked.get_foreign_keys(name)),
            sorted((one["name"] or "", str(one["column_names"])) for one in looked.get_unique_constraints(name)),
            sorted((one["name"] or "", str(one["column_names"])) for one in looked.get_indexes(name)),
        )
        for name in sorted(METADATA.tables)
    }
    engine.dispose()
    return dict(shape)


def test_the_migrations_lead_to_the_tables_of_today(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    Archive.open(url, create=True).close()
    if url.startswith("sqlite"):
        other = f"sqlite:///{tmp_path}/migrated.db"
    else:
        other = request.getfixturevalue("postgres").new_schema()
    engine = make_engine(archive_url(other))
    with write(engine, migrating=True) as connection:
        migrate(connection)
    engine.dispose()
    assert _shape(other) == _shape(url)
    with Archive.open(other) as archive:
        assert archive.version() == VERSION


def open_as_a_later_version(file: str, steps: str) -> None:
    """In a process of its own: be of a version that needs one more step."""
    with pytest.MonkeyPatch.context() as later:
        later.setattr(maintenance, "_STEPS", Path(steps))
        for module in (maintenance, store_module):
            later.setattr(module, "VERSION", "9000")
        with Archive.open(file) as archive:
            assert archive.version() == "9000"
            assert archive.count() == 30
            assert all(attempt.fields for attempt in find(archive))


def test_an_older_file_is_upgraded_once_after_a_backup_by_whoever_opens_it_first(tmp_path: Path) -> None:
    """A step is added that a later version could have, and that makes a table anew."""
    file = tmp_path / "old.db"
    with Archive.open(str(file), create=True) as archive:
        import_source(archive, Source("x", "x", "csv", iter(jobs(30))))
    folder = tmp_path / "migrations"
    shutil.copytree(Path(maintenance.__file__).parent / "migrations", folder)
    (folder / "versions" / "9000_more.py").write_text(
        f'import sqlalchemy as sa\nfrom alembic import op\nrevision = "9000"\ndown_revision = "{VERSION}"\n\n\n'
        'def upgrade():\n    with op.batch_alter_table("attempts", recreate="always") as table:\n'
        '        table.add_column(sa.Column("energy", sa.Float))\n'
    )
    openers = [context.Process(target=open_as_a_later_version, args=(str(file), str(folder))) for _ in range(3)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(HANGS)
        assert opener.exitcode == 0
    assert [path.name for path in sorted(tmp_path.glob("old.db.backup*"))] == [f"old.db.backup-{VERSION}"]
    with sqlite3.connect(tmp_path / f"old.db.backup-{VERSION}") as backup:
        assert backup.execute("SELECT count(*) FROM attempts").fetchone() == (30,)
        assert backup.execute("SELECT version_num FROM alembic_version").fetchone() == (VERSION,)


def test_the_first_archives_are_upgraded_with_all_that_they_hold(url: str) -> None:
    with Archive.open(url, create=True) as archive:
        import_source(archive, Source("x", "x", "csv", iter(jobs(30))))
        with write(archive.engine) as connection:
            connection.execute(text("DROP INDEX attempts_category_memory"))
            connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert "upgraded from version 0001" in bring_up_to_date(url)
    with Archive.open(url) as archive:
        assert archive.count() == 30
    assert "attempts_category_memory" in str(_shape(url))


def test_a_newer_archive_is_refused(archive: Archive, url: str) -> None:
    with write(archive.engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for open_it in (lambda: Archive.open(url), lambda: bring_up_to_date(url)):
        with pytest.raises(InputError, match="9999") as caught:
            open_it()
        assert "update" in str(caught.value.hint)


def test_an_older_server_waits_for_migrate(url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("a file is upgraded on opening")
    Archive.open(url, create=True).close()
    engine = make_engine(archive_url(url))
    with write(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    engine.dispose()
    with pytest.raises(InputError, match="version 0000") as caught:
        Archive.open(url)
    assert "migrate" in str(caught.value.hint)


def test_migrate_makes_what_is_not_there(url: str) -> None:
    assert "created" in bring_up_to_date(url)
    assert f"already has version {VERSION}" in bring_up_to_date(url)
    Archive.open(url).close()


def test_csv_can_be_read_by_other_programs_and_imported_again(archive: Archive, store: Store, tmp_path: Path) -> None:
    store(jobs(25))
    assert export(find(archive), tmp_path / "jobs.csv", "csv") == 25
    with (tmp_path / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["memory (B)"]) for row in rows] == [number * 1000 for number in range(25)]
    again = [entry for entry in table.read(Log.open(tmp_path / "jobs.csv"), Hints()) if isinstance(entry, Attempt)]
    assert [(one.category, one.used, one.ended, one.task) for one in again] == [
        (one.category, one.used, one.ended, one.task) for one in jobs(25)
    ]


def test_json_lines_hold_every_fact(archive: Archive, store: Store, tmp_path: Path) -> None:
    store(jobs(25))
    export(find(archive), tmp_path / "jobs.jsonl", "jsonl")
    lines = [json.loads(line) for line in (tmp_path / "jobs.jsonl").read_text().splitlines()]
    assert lines == [record(attempt) for attempt in find(archive)]


def test_parquet_holds_every_fact(archive: Archive, store: Store, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    many = 12_000  # more than one batch
    store([Attempt(row=f"{n}", category="é", used=Amounts.of(memory=n, wall_time=n / 2)) for n in range(many)])
    assert export(find(archive), tmp_path / "jobs.parquet", "parquet") == many
    read = parquet.read_table(tmp_path / "jobs.parquet")
    assert read.column("memory").to_pylist() == list(range(many))
    assert read.column("wall_time").to_pylist() == [n / 2 for n in range(many)]
    assert set(read.column("category").to_pylist()) == {"é"}
    assert read.column_names == list(record(Attempt()))


def test_an_export_that_fails_leaves_no_file(archive: Archive, tmp_path: Path) -> None:
    def broken() -> Iterator[Attempt]:
        yield Attempt()
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        export(broken(), tmp_path / "jobs.csv", "csv")
    assert list(tmp_path.glob("*jobs*")) == []
