"""The progress of background jobs: ``/api/work``."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from starlette.exceptions import HTTPException

from tonnage.serve.access import token_wanted
from tonnage.serve.background_jobs import BackgroundJob, State
from tonnage.serve.responses import Answer, problems
from tonnage.serve.settings import Site, site_of

__all__ = ["Work", "described", "router"]

router = APIRouter()
_Id = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,40}$", description="The id in the response that started it.")]
_Site = Annotated[Site, Depends(site_of)]


class Work(Answer):
    """A background job at one moment."""

    id: str
    kind: str
    state: State
    done: int
    """How many steps are done."""
    total: int
    """How many steps there are; 0 if unknown."""
    doing: str
    result: dict[str, Any] | None
    """The result, if it is done."""
    error: str | None
    hint: str | None
    """What can be done about the error."""


def described(piece: BackgroundJob | None) -> Work:
    """Return the progress of a background job as a response."""
    if piece is None:
        raise HTTPException(404, "there is no such background job, or it ended long ago")
    return Work(
        id=piece.id,
        kind=piece.kind,
        state=piece.state,
        done=piece.done,
        total=piece.total,
        doing=piece.doing,
        result=None if piece.result is None else dict(piece.result),
        error=piece.error,
        hint=piece.hint,
    )


@router.get("/api/work/{id}", responses=problems(401, 404, 422), summary="Progress of a background job")
def work(id: _Id, site: _Site) -> Work:
    """Return the progress of an upload or a comparison, and its result once it is done."""
    return described(site.background_jobs.piece(id))


@router.delete(
    "/api/work/{id}",
    responses=problems(401, 403, 404, 422),
    dependencies=[token_wanted],
    summary="Stop a background job",
)
def stop(id: _Id, site: _Site) -> Work:
    """Stop a background job; what it has done so far is kept."""
    return described(site.background_jobs.stop(id))
