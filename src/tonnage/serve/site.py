"""What all requests share."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from fastapi import Request

from tonnage.archive import Archive
from tonnage.archive.query_timeout import within
from tonnage.serve.background_jobs import BackgroundJobs
from tonnage.serve.cache import Cache
from tonnage.serve.overview import Overview
from tonnage.serve.settings import Settings

__all__ = ["Site", "site_of"]


@dataclass(frozen=True, slots=True)
class Site:
    """What all requests share: ``request.app.state.site``."""

    settings: Settings
    archive: Archive
    overview: Overview
    background_jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    reports: BackgroundJobs = field(default_factory=BackgroundJobs)
    """Makes reports, for which somebody waits: they do not stand behind an import of a million rows."""
    kept: Cache = field(default_factory=Cache)

    def asking(self) -> AbstractContextManager[None]:
        """Let no question to the archive, asked in this block, take longer than it may."""
        return within(self.settings.limits.seconds)

    def close(self) -> None:
        """Stop all that is under way."""
        self.background_jobs.close()
        self.reports.close()
        self.overview.close()

    @property
    def archive_url(self) -> str:
        """Where the archive is, for a process that opens it by itself; never to be shown: it may hold a password."""
        return self.archive.engine.url.render_as_string(hide_password=False)


async def site_of(request: Request) -> Site:
    """Return what all requests share, as a dependency: ``site: Annotated[Site, Depends(site_of)]``.

    It waits for nothing, but FastAPI takes every other function to a thread and back.
    """
    site: Site = request.app.state.site
    return site
