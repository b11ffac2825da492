"""A server that keeps an archive: where it is, what this user may say to it, and what is kept of it here."""

import os
import re
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from tonnage.archive.token import find_token
from tonnage.archive.url import data_folder, remote_url
from tonnage.atomic import make_private_folder, private_opener
from tonnage.errors import InputError

__all__ = ["Server"]


@dataclass(frozen=True, slots=True)
class Server:
    """A server, known by its URL."""

    url: str

    @classmethod
    def of(cls, text: str | None = None) -> "Server":
        """Return the server that a URL names, by default $TONNAGE_ARCHIVE."""
        return cls(remote_url(text))

    def __str__(self) -> str:
        return self.url

    @property
    def host(self) -> str:
        """Its name or address."""
        return str(urlsplit(self.url).hostname)

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine, so that nobody listens on the way."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def folder(self) -> Path:
        """Where this user keeps what is known of it, and what waits for it."""
        readable = re.sub(r"[^a-z0-9.-]", "_", self.url.partition("://")[2].lower())[:40]
        return data_folder() / "remote" / f"{readable}-{blake2b(self.url.encode(), digest_size=6).hexdigest()}"

    def token(self) -> str | None:
        """Return the token that lets this user write: that of $TONNAGE_TOKEN, or of a file; None where there is none.

        The user's own token file, with which a server on this machine begins, is nothing to show to other machines.
        """
        own = self.folder / "token"
        if os.environ.get("TONNAGE_TOKEN") or (self.is_here and not own.exists()):
            return find_token()
        return find_token(own) if own.exists() else None

    def make_folder(self) -> Path:
        """Return its folder here, which nobody else may look into; made if need be."""
        try:
            make_private_folder(self.folder)
            with open(self.folder / "url", "w", encoding="utf-8", opener=private_opener) as file:
                file.write(f"{self.url}\n")
        except OSError as error:
            raise InputError(f"the folder cannot be made: {error.strerror}", path=self.folder) from None
        return self.folder
