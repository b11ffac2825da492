"""The token for an archive on a server; the server and its clients look for it in the same place."""

import os
import secrets
from pathlib import Path

from tonnage.archive.url import data_folder
from tonnage.atomic import make_private_folder
from tonnage.errors import InputError

__all__ = ["find_token", "make_token"]

_SHORTEST = 16
_LONGEST = 1000


def _token_file() -> Path:
    """Return the file that holds the user's token by default."""
    return data_folder() / "token"


def find_token(file: Path | None = None) -> str | None:
    """Return the token in a file; by default $TONNAGE_TOKEN, else the one in the user's default file, else None."""
    if file is not None:
        return _read(file)
    text = os.environ.get("TONNAGE_TOKEN")
    if text:
        return _checked(text, "$TONNAGE_TOKEN")
    return _read(_token_file()) if _token_file().exists() else None


def make_token(file: Path | None = None) -> tuple[str, str]:
    """Return the token and where it is stored; a missing file is created, readable by its owner only."""
    if file is None and os.environ.get("TONNAGE_TOKEN"):
        return _checked(os.environ["TONNAGE_TOKEN"], "$TONNAGE_TOKEN"), "$TONNAGE_TOKEN"
    file = file or _token_file()
    if not file.exists():
        _write(file)
    return _read(file), str(file)


def _write(file: Path) -> None:
    """Create the file atomically: if two processes do so, the second uses the token of the first."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        make_private_folder(file.parent)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as opened:
            opened.write(f"{secrets.token_urlsafe(32)}\n")
        try:
            os.link(temporary, file)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    except OSError as error:
        raise InputError(f"cannot write the token: {error.strerror}", path=file) from None


def _read(file: Path) -> str:
    try:
        text = file.read_bytes()[: _LONGEST + 2].decode("ascii")
    except OSError as error:
        raise InputError(f"cannot read the token: {error.strerror}", path=file) from None
    except UnicodeDecodeError:
        raise InputError("holds no token: it has characters outside ASCII", path=file) from None
    return _checked(text, file)


def _checked(text: str, place: object) -> str:
    """Return a token that fits into a header and is hard to guess."""
    token = text.strip()
    if not _SHORTEST <= len(token) <= _LONGEST or not token.isprintable() or " " in token:
        hint = f"a token is one word of {_SHORTEST} to {_LONGEST:,} ASCII characters"
        raise InputError("holds no token", path=place, hint=hint)
    return token
