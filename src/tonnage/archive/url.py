"""Where the archive is: a file on this machine, or a server."""

import os
from pathlib import Path
from stat import S_ISREG

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from tonnage.errors import InputError

__all__ = ["archive_url", "data_folder", "is_archive", "shown"]

_SQLITE = b"SQLite format 3"
_FORMS = "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE"


def archive_url(text: str | None = None) -> URL:
    """Return the archive that a text names: a URL, a file, or by default $TONNAGE_ARCHIVE or the user's own file."""
    text = text or os.environ.get("TONNAGE_ARCHIVE") or str(data_folder() / "archive.db")
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    if text.startswith(("http://", "https://")):
        raise InputError(f'"{text}": an archive on a web server cannot be opened yet', hint=_FORMS)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InputError(f'"{shown(text)}" is not an archive', hint=_FORMS) from None
    kind = url.get_backend_name() if url.drivername else ""
    if kind in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise InputError(f'"{shown(text)}": {kind} is not a kind of archive', hint=_FORMS)
    if url.query:
        raise InputError(f'"{text}": an archive in a file has no options', hint=_FORMS)
    if not url.database or url.database == ":memory:" or url.host:
        raise InputError(f'"{text}" does not name a file', hint="sqlite:///jobs.db, or sqlite:////home/me/jobs.db")
    return URL.create("sqlite", database=str(Path(url.database).absolute()))


def is_archive(text: str) -> bool:
    """Whether a source is an archive: a URL of one, or a file that SQLite made."""
    if text.startswith(("sqlite://", "postgres://", "postgresql://", "postgresql+psycopg://")):
        return True
    try:
        with Path(text).open("rb") as file:
            return S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def shown(url: URL | str) -> str:
    """Return a URL without its password, for messages."""
    if isinstance(url, URL):
        return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    head, at, tail = url.rpartition("@")
    scheme, colon, rest = head.partition("://")
    return f"{scheme}{colon}{rest.split(':')[0]}:***@{tail}" if at and ":" in rest else url


def data_folder() -> Path:
    """Return the folder of what Tonnage keeps for this user."""
    base = os.environ.get("XDG_DATA_HOME")
    folder = Path(base) if base and Path(base).is_absolute() else Path("~/.local/share").expanduser()
    return folder / "tonnage"
