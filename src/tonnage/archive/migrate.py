"""Older archives become like new ones: the steps are in migrations/versions, one file each."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine

from tonnage.archive.engine import make_engine, write
from tonnage.archive.schema import VERSION
from tonnage.archive.store import Archive, stored_version, version_in
from tonnage.archive.url import archive_url, shown
from tonnage.atomic import make_private_file
from tonnage.errors import InputError, TonnageError

__all__ = ["bring_up_to_date", "migrate", "upgrade"]

_STEPS = Path(__file__).parent / "migrations"


def bring_up_to_date(url: str | None = None) -> str:
    """Make or upgrade an archive, and say what was done."""
    engine = make_engine(archive_url(url))
    try:
        found = stored_version(engine)
        if found not in (None, VERSION):
            upgrade(engine, server_too=True)
            return f"{shown(engine.url)}: upgraded from version {found} to {VERSION}"
    finally:
        engine.dispose()
    Archive.open(url, create=True).close()
    return f"{shown(engine.url)}: {'is' if found else 'made with'} version {VERSION}"


def upgrade(engine: Engine, *, server_too: bool = False) -> None:
    """Bring an archive up to date, a SQLite file after a backup; on a server, somebody must ask for it.

    Others wait meanwhile, and find nothing left to do.
    """
    place = shown(engine.url)
    with write(engine, migrating=True) as connection:
        found = version_in(connection)
        if found is None or found == VERSION:
            return
        if found > VERSION:
            message = f"is an archive of version {found}; this Tonnage knows {VERSION} at most"
            raise InputError(message, path=place, hint="a newer Tonnage made it: update this one")
        if engine.dialect.name == "sqlite":
            _back_up(Path(str(engine.url.database)), found)
        elif not server_too:
            hint = "tonnage archive migrate upgrades it"
            raise InputError(f"is an archive of version {found}", path=place, hint=hint)
        migrate(connection)
    engine.dispose()  # what was set for the upgrade must not stay


def migrate(connection: Connection) -> None:
    """Take the steps that are missing, within the transaction of this connection."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_STEPS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    if connection.dialect.name == "sqlite":
        dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if dangling:
            raise TonnageError(f"the upgrade would lose rows that {dangling[0]} refers to: nothing was changed")


def _back_up(file: Path, version: str) -> None:
    """Copy the archive beside itself, complete; a copy that is there already stays."""
    copy = file.with_name(f"{file.name}.backup-{version}")
    number = 1
    while copy.exists():
        number += 1
        copy = file.with_name(f"{file.name}.backup-{version}-{number}")
    temporary = copy.with_name(f".{copy.name}.part")
    try:
        temporary.unlink(missing_ok=True)  # of an upgrade that was killed
        make_private_file(temporary)
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(temporary)) as target:
            source.backup(target)
        temporary.rename(copy)
    except (OSError, sqlite3.Error) as error:
        temporary.unlink(missing_ok=True)
        raise TonnageError(f"{file}: cannot be backed up before its upgrade: {error}") from None
