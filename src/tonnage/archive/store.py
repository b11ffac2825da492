"""The store: opened, filled, and read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from types import TracebackType

from sqlalchemy import Connection, Engine, func, inspect, select, text

from tonnage.archive import schema
from tonnage.archive.bulk import bulk
from tonnage.archive.engine import connect, make_engine, write
from tonnage.archive.rows import attempt_row, field_rows, task_row
from tonnage.archive.schema import METADATA, VERSION
from tonnage.archive.url import archive_url, shown
from tonnage.errors import InputError
from tonnage.jobs import Attempt

__all__ = ["Archive", "stored_version"]

_ATTEMPT_COLUMNS = [column.name for column in schema.attempts.columns][1:]
_TASK_COLUMNS = [column.name for column in schema.tasks.columns]


@dataclass(frozen=True)
class Archive:
    """Every job ever run, on SQLite or PostgreSQL. Close it, or use it in a `with` statement."""

    engine: Engine

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = False) -> "Archive":
        """Open the archive that a URL or a file names, by default the user's own; with `create`, make it if need be."""
        archive = cls(make_engine(archive_url(url)))
        try:
            archive._make_ready(create)
        except BaseException:
            archive.close()
            raise
        return archive

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return shown(self.engine.url)

    @property
    def on_sqlite(self) -> bool:
        """Whether the archive is a file of this machine."""
        return self.engine.dialect.name == "sqlite"

    def source(self, label: str, format: str, path: str | None) -> int:
        """Return the number of a source, noting that it is read now."""
        table = schema.sources
        with write(self.engine) as connection:
            found = connection.execute(
                select(table.c.id).where(table.c.label == label, table.c.format == format)
            ).scalar()
            facts = {"path": path, "imported": time()}
            if found is None:
                new = table.insert().values(label=label, format=format, **facts).returning(table.c.id)
                return int(connection.execute(new).scalar_one())
            connection.execute(table.update().where(table.c.id == found).values(**facts))
            return int(found)

    def add(self, attempts: Sequence[Attempt], identities: Sequence[bytes], source: int) -> int:
        """Store attempts, all of them or, if something goes wrong, none; return how many were new."""
        if not attempts:
            return 0
        with write(self.engine) as connection:
            runs = _run_numbers(connection, attempts)
            target = bulk(connection)
            tasks = {row[0]: row for row in map(task_row, attempts) if row[0] is not None}
            if tasks:
                target.insert(schema.tasks, _TASK_COLUMNS, list(tasks.values()))
            rows = [
                attempt_row(attempt, identity, source, runs[attempt.run] if attempt.run else None)
                for attempt, identity in zip(attempts, identities, strict=True)
            ]
            stored = target.insert(schema.attempts, _ATTEMPT_COLUMNS, rows)
            fields = list(_fields(attempts, identities))
            if fields:
                target.insert_fields(fields)
            return stored

    def count(self) -> int:
        """Return how many attempts the archive holds."""
        with connect(self.engine) as connection:
            return int(connection.execute(select(func.count()).select_from(schema.attempts)).scalar_one())

    def version(self) -> str | None:
        """Return the version of the archive's tables; None where there are none yet."""
        return stored_version(self.engine)

    def _make_ready(self, create: bool) -> None:
        if self.on_sqlite:
            file = Path(str(self.engine.url.database))
            if create:
                _make_folder(file.parent)
            elif not file.exists():
                raise InputError("there is no archive", path=file, hint="tonnage archive import JOBS.csv makes one")
        found = self.version()
        if found is None:
            if not create:
                raise InputError("holds no archive", path=self, hint="tonnage archive import JOBS.csv makes one")
            self._create()
        elif found != VERSION:
            from tonnage.archive.migrate import upgrade

            upgrade(self.engine, found)

    def _create(self) -> None:
        with write(self.engine) as connection:
            if _version(connection) is not None:
                return  # another process was quicker
            METADATA.create_all(connection)
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": VERSION})


def stored_version(engine: Engine) -> str | None:
    """Return the version of the archive's tables in a database; None where there are none yet."""
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists():
        return None
    with connect(engine) as connection:
        return _version(connection)


def _version(connection: Connection) -> str | None:
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables and "attempts" in tables:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())
    if tables:
        place = shown(connection.engine.url)
        raise InputError("is a database of something else, not an archive", path=place, hint=f"it holds {min(tables)}")
    return None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder cannot be made: {error.strerror}", path=folder) from None


def _run_numbers(connection: Connection, attempts: Sequence[Attempt]) -> Mapping[str, int]:
    """Return the numbers of all runs that attempts belong to; new ones are noted."""
    first = {attempt.run: attempt for attempt in reversed(attempts) if attempt.run}
    numbers: dict[str, int] = {}
    table = schema.runs
    for name, attempt in first.items():
        found = connection.execute(select(table.c.id).where(table.c.name == name)).scalar()
        if found is None:
            facts = {"workflow": attempt.workflow, "workflow_checksum": attempt.workflow_checksum}
            found = connection.execute(table.insert().values(name=name, **facts).returning(table.c.id)).scalar_one()
        numbers[name] = int(found)
    return numbers


def _fields(attempts: Sequence[Attempt], identities: Sequence[bytes]) -> Iterator[tuple[bytes, str, str]]:
    for attempt, identity in zip(attempts, identities, strict=True):
        if attempt.fields or attempt.inputs or attempt.outputs:
            for key, value in field_rows(attempt):
                yield identity, key, value
