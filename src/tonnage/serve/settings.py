"""The settings of a server, and the objects shared by all requests."""

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
    """Limits on the cost of a request."""

    body: int = 8 * _MIB
    """The most bytes in a request's body."""
    upload: int = 512 * _MIB
    """The most bytes in the body of an upload."""
    seconds: float = 10.0
    """How many seconds a query on the archive may take."""
    body_seconds: float = 20.0
    """How many seconds a body may take, in addition to the time its bytes need on a slow network."""
    body_speed: int = 64 * 1024
    """Bytes per second on a slow network."""
    stall_seconds: float = 60.0
    """How many seconds a client may stop reading a response."""


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
    """The token that clients must send to read or write."""
    public: bool = False
    """Whether reading needs no token."""
    hosts: frozenset[str] = frozenset()
    """Further host names of the server."""
    limits: Limits = field(default_factory=Limits)

    def called_by(self, host: str) -> bool:
        """Whether a host name is this server's; another site may have pointed its name at this address."""
        name = host.lower().rstrip(".")
        if name in ("localhost", self.host.lower()) or name in self.hosts:
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True  # only names can point elsewhere


@dataclass(frozen=True, slots=True)
class Site:
    """Objects shared by all requests: ``request.app.state.site``."""

    settings: Settings
    archive: Archive
    overview: Overview
    background_jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    reports: BackgroundJobs = field(default_factory=BackgroundJobs)
    """Makes reports, for which a user is waiting: they do not queue behind an import of a million rows."""
    kept: Cache = field(default_factory=Cache)

    def asking(self) -> AbstractContextManager[None]:
        """Limit the time of queries on the archive within this block."""
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
    """Return the shared objects, as a dependency: ``site: Annotated[Site, Depends(site_of)]``.

    This is a coroutine only because FastAPI would call a plain function in a thread.
    """
    site: Site = request.app.state.site
    return site
