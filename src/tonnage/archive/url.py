"""The location of the archive: a file, a database server, or an HTTP server."""

import os
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from tonnage.config import lookup
from tonnage.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL

__all__ = ["archive_file", "archive_url", "data_folder", "is_archive", "is_remote", "remote_url", "shown"]

_SQLITE = b"SQLite format 3"
_FORMS = "expected sqlite:///FILE, postgresql://USER@HOST/DATABASE or http://SERVER:PORT"
_REMOTE = ("http://", "https://")
_FILE = "sqlite:///"


def archive_file(text: str | None = None) -> Path | None:
    """Return the file of the archive that a text names; None if it is in another kind of place, or wrong."""
    text = _named(text)
    if "://" not in text:
        return Path(text).expanduser().absolute()
    name = text.removeprefix(_FILE)
    return Path(name).absolute() if name not in (text, "", ":memory:") and "?" not in name else None


def archive_url(text: str | None = None) -> "URL":
    """Return the URL of the archive that a text names; by default the configured archive, else the user's own file."""
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    text = _named(text)
    if "://" not in text:
        return URL.create("sqlite", database=str(archive_file(text)))
    if is_remote(text):
        hint = "run this command on the machine of tonnage serve, with the archive that it serves"
        raise InputError("this command does not work over HTTP", path=remote_url(text), hint=hint)
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


def _named(text: str | None) -> str:
    return text or _configured() or str(data_folder() / "archive.db")


def is_remote(text: str | None = None) -> bool:
    """Whether the archive that a text names, by default the configured one, is on an HTTP server."""
    return (text or _configured()).lower().startswith(_REMOTE)


def remote_url(text: str | None = None) -> str:
    """Return the URL of an archive on a server in normal form: without default port and trailing slash."""
    text = text or _configured()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError(f'"{shown(text)}" is not the URL of a server', hint=_FORMS) from None
    if parts.username is not None or parts.password is not None:
        hint = "put the token into the variable TONNAGE_TOKEN, where others do not see it"
        raise InputError(f'"{_without_user(parts)}": the URL must not hold a user name or password', hint=hint)
    odd = not host or parts.query or parts.fragment or any(letter <= " " or letter == "\x7f" for letter in text)
    if odd or not (text.isascii() and text.isprintable()):
        raise InputError(f'"{text}" is not the URL of a server', hint="http://server:8000 or https://server/path")
    host = f"[{host}]" if ":" in str(host) else str(host)
    usual = {"http": 80, "https": 443}[parts.scheme]
    place = host if port in (None, usual) else f"{host}:{port}"
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


def is_archive(text: str) -> bool:
    """Whether a source is an archive: the URL of one, or an SQLite file."""
    if text.startswith(("sqlite://", "postgres://", "postgresql://", "postgresql+psycopg://", *_REMOTE)):
        return True
    try:
        with Path(text).open("rb") as file:
            return S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def shown(url: "URL | str") -> str:
    """Return a URL without its password, for messages."""
    if not isinstance(url, str):
        return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    head, at, tail = url.rpartition("@")
    scheme, colon, rest = head.partition("://")
    return f"{scheme}{colon}{rest.split(':')[0]}:***@{tail}" if at and ":" in rest else url


def _configured() -> str:
    """Return the archive named in $TONNAGE_ARCHIVE or a ``tonnage.toml``; empty if there is none."""
    value = lookup("archive")
    return "" if value is None else value.text


def data_folder() -> Path:
    """Return the folder for this user's data."""
    base = os.environ.get("XDG_DATA_HOME")
    folder = Path(base) if base and Path(base).is_absolute() else Path("~/.local/share").expanduser()
    return folder / "tonnage"


def _without_user(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
