"""What a server was started with, and what all its requests share."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from fastapi import Request

from tonnage.archive import Archive
from tonnage.archive.query_timeout import within
from tonnage.serve.background_jobs import BackgroundJobs
from tonnage.serve.cache import Cache
from tonnage.serve.overview import Overview

__all__ = ["Limits", "Settings", "Site", "site_of"]

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a request may cost."""

    body: int = 8 * _MIB
    """Bytes of a request's body."""
    upload: int = 512 * _MIB
    """Bytes of the body of an upload."""
    seconds: float = 10.0
    """How long a query on the archive may take."""
    body_seconds: float = 20.0
    """How long a body may take, on top of the time its bytes need on a slow network."""
    body_speed: int = 64 * 1024
    """Bytes per second that a slow network carries."""
    stall_seconds: float = 60.0
    """How long a client may read nothing of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings a server was started with."""

    archive: str | None = None
    """The URL of the archive; by default the user's own."""
    host: str = "127.0.0.1"
    port: int = 8000
    runs: tuple[Path, ...] = ()
    """Folders to look for runs in."""
    token: str
    """What clients must send to read or write."""
    public: bool = False
    """Whether anyone may read."""
    hosts: frozenset[str] = frozenset()
    """Further host names of the server."""
    limits: Limits = field(default_factory=Limits)

    def called_by(self, host: str) -> bool:
        """Whether a request's host name is this server's: another site's name may have been pointed at it."""
        name = host.lower().rstrip(".")
        if name in ("localhost", self.host.lower()) or name in self.hosts:
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True  # only names can be pointed elsewhere


@dataclass(frozen=True, slots=True)
class Site:
    """What all requests share: ``request.app.state.site``."""

    settings: Settings
    archive: Archive
    overview: Overview
    background_jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    reports: BackgroundJobs = field(default_factory=BackgroundJobs)
    """Makes reports, which a user waits for: they do not queue behind an import of a million rows."""
    kept: Cache = field(default_factory=Cache)

    def asking(self) -> AbstractContextManager[None]:
        """Limit the time of queries on the archive in this block."""
        return within(self.settings.limits.seconds)

    def close(self) -> None:
        """Stop all background jobs."""
        self.background_jobs.close()
        self.reports.close()
        self.overview.close()

    @property
    def archive_url(self) -> str:
        """The archive's URL, for another process to open; never shown, since it may contain a password."""
        return self.archive.engine.url.render_as_string(hide_password=False)


async def site_of(request: Request) -> Site:
    """Return what all requests share, as a dependency: ``site: Annotated[Site, Depends(site_of)]``.

    A coroutine only because FastAPI would call a plain function in a thread.
    """
    site: Site = request.app.state.site
    return site
