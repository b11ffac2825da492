"""Older archives become like new ones: the steps are in migrations/versions, one file each."""

import sqlite3
from pathlib import Path

from sqlalchemy import Engine

from tonnage.archive.engine import make_engine, write
from tonnage.archive.schema import VERSION
from tonnage.archive.url import archive_url, shown
from tonnage.errors import InputError, TonnageError

__all__ = ["bring_up_to_date", "migrate", "upgrade"]

_STEPS = Path(__file__).parent / "migrations"


def bring_up_to_date(url: str | None = None) -> str:
    """Make or upgrade an archive, and say what was done."""
    from tonnage.archive.store import Archive, stored_version

    engine = make_engine(archive_url(url))
    try:
        found = stored_version(engine)
        if found not in (None, VERSION):
            _refuse_newer(engine, str(found))
            if engine.dialect.name == "sqlite":
                upgrade(engine, str(found))
            else:
                migrate(engine)
            return f"{shown(engine.url)}: upgraded from version {found} to {VERSION}"
    finally:
        engine.dispose()
    Archive.open(url, create=True).close()
    return f"{shown(engine.url)}: {'is' if found else 'made with'} version {VERSION}"


def upgrade(engine: Engine, found: str) -> None:
    """Bring a SQLite archive up to date, after a backup; for PostgreSQL, say who should."""
    _refuse_newer(engine, found)
    if engine.dialect.name != "sqlite":
        place = shown(engine.url)
        raise InputError(f"is an archive of version {found}", path=place, hint="tonnage archive migrate upgrades it")
    _back_up(Path(str(engine.url.database)), found)
    migrate(engine)


def migrate(engine: Engine, version: str = "head") -> None:
    """Take the steps that are missing, all or none; writers wait meanwhile."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_STEPS))
    with write(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)


def _refuse_newer(engine: Engine, found: str) -> None:
    if found > VERSION:
        message = f"is an archive of version {found}; this Tonnage knows {VERSION} at most"
        raise InputError(message, path=shown(engine.url), hint="a newer Tonnage made it: update this one")


def _back_up(file: Path, version: str) -> None:
    """Copy the archive beside itself, complete, while others may read it."""
    copy = file.with_name(f"{file.name}.backup-{version}")
    temporary = copy.with_name(f".{copy.name}.part")
    try:
        with sqlite3.connect(file) as source, sqlite3.connect(temporary) as target:
            source.backup(target)
        source.close()
        target.close()
        temporary.rename(copy)
    except (OSError, sqlite3.Error) as error:
        temporary.unlink(missing_ok=True)
        raise TonnageError(f"{file}: cannot be backed up before its upgrade: {error}") from None
