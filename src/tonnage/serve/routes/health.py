"""Whether the server and its archive are up: ``/api/health``."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends

from tonnage import __version__
from tonnage.serve.responses import Answer, problems
from tonnage.serve.settings import Site, site_of

__all__ = ["router"]

router = APIRouter()


class Health(Answer):
    """Who answers."""

    version: str
    archive: Literal["sqlite", "postgresql"]
    archive_version: str


@router.get("/api/health", responses=problems(401, 503), summary="Whether the server and its archive are there")
def health(site: Annotated[Site, Depends(site_of)]) -> Health:
    """Say which Tonnage answers, and what kind of archive it has."""
    kind: Literal["sqlite", "postgresql"] = "sqlite" if site.archive.on_sqlite else "postgresql"
    return Health(version=__version__, archive=kind, archive_version=site.archive.version() or "")
