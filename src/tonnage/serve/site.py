"""What all requests share."""

from dataclasses import dataclass

from fastapi import Request

from tonnage.archive import Archive
from tonnage.serve.settings import Settings

__all__ = ["Site", "site_of"]


@dataclass(frozen=True, slots=True)
class Site:
    """What all requests share: ``request.app.state.site``."""

    settings: Settings
    archive: Archive


def site_of(request: Request) -> Site:
    """Return what all requests share; also a dependency: ``site: Annotated[Site, Depends(site_of)]``."""
    site: Site = request.app.state.site
    return site
