"""Whether the server and its archive are up: ``/api/health``."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends

from tonnage import __version__
from tonnage.serve.responses import Answer, problems
from tonnage.serve.settings import Site, site_of

__all__ = ["router"]

router = APIRouter()


class Health(Answer):
    """The versions of the server and its archive."""

    version: str
    archive: Literal["sqlite", "postgresql"]
    archive_version: str


@router.get("/api/health", responses=problems(401, 503), summary="Whether the server and its archive are up")
def health(site: Annotated[Site, Depends(site_of)]) -> Health:
    """Return the version of Tonnage and the kind of its archive."""
    kind: Literal["sqlite", "postgresql"] = "sqlite" if site.archive.on_sqlite else "postgresql"
    return Health(version=__version__, archive=kind, archive_version=site.archive.version() or "")
