"""Runs: those under way, those of which there are journals here, and those in the archive."""

import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from tonnage.archive import Search, find
from tonnage.serve.answers import Answer, Json
from tonnage.serve.pages import render
from tonnage.serve.problems import problems
from tonnage.serve.reporting import made
from tonnage.serve.run_facts import MOST_ATTEMPTS, RunLine, archived_run, find_here, run_here, runs_here, state_here
from tonnage.serve.site import Site, site_of

__all__ = ["router"]

router = APIRouter()
_Site = Annotated[Site, Depends(site_of)]
_NOWHERE = "there is no run of this name, neither here nor in the archive"
_Id = Annotated[str, Query(min_length=1, max_length=1000, pattern=r"^[^\x00]*$", description="What the run is called.")]


class Line(BaseModel):
    """A run in one line."""

    id: str
    workflow: str
    state: str
    begun: float | None


class Runs(Answer):
    """The runs of which there are journals in the folders that the server was told of, the newest first."""

    runs: list[Line]


class Run(Answer):
    """A run at one moment; pictures are figures for plotly."""

    id: str
    workflow: str
    here: bool
    state: str
    now: float
    settings: dict[str, str]
    tasks: int
    done: int
    failures: int
    failed: list[dict[str, str]]
    running: list[dict[str, Any]]
    running_now: int
    queued_now: int
    """Tasks that a batch system has and that do not run."""
    left_out: int
    """1 where the archive has more attempts than were looked at."""
    attempts: int
    again: int
    outcomes: dict[str, int]
    seconds: float | None
    resources: dict[str, dict[str, float | None]]
    categories: list[dict[str, Any]]
    pictures: dict[str, dict[str, Any] | None]


@router.get("/api/runs", responses=problems(401, 503), summary="The runs that are here")
def runs(site: _Site) -> Runs:
    """List the runs of which there are journals in the folders that the server was told of, the newest first."""
    return Runs(runs=[_described(one) for one in runs_here(site.settings.runs)])


@router.get(
    "/api/run", response_model=Run, responses=problems(401, 404, 422, 503), summary="How far a run is, and what it uses"
)
def run(id: _Id, site: _Site) -> Json:
    """Say how far a run is, what runs, what failed and why, what is wasted, with the pictures of its page."""
    return Json(_facts(site, id))


@router.get("/runs", include_in_schema=False)
def list_page(site: _Site) -> HTMLResponse:
    """Show the runs."""
    return HTMLResponse(render("runs.html", here="/runs", runs=runs_here(site.settings.runs)))


@router.get("/run", include_in_schema=False)
def run_page(id: _Id, site: _Site) -> HTMLResponse:
    """Show a run; the page asks again as long as it is under way."""
    return HTMLResponse(render("run.html", here="/runs", run=_facts(site, id), most=MOST_ATTEMPTS))


@router.get(
    "/api/report",
    response_class=Response,
    responses={200: {"content": {"text/html": {}}}, **problems(401, 404, 422, 503)},
    summary="The report of a run",
)
async def report(id: _Id, site: _Site) -> Response:
    """Send what `tonnage report` writes: one HTML file that needs no network, to be kept or sent on."""
    run = await run_in_threadpool(_place, site, id)
    page = await made(site.reports, run, site.archive_url, id)
    return Response(page, media_type="text/html", headers={"Content-Disposition": _named(id)})


def _place(site: Site, id: str) -> Path | None:
    """Return where a run is; None where only the archive knows it."""
    folder = find_here(site.settings.runs, id)
    if folder is not None:
        return folder.path
    with site.asking():
        known = any(True for _ in find(site.archive, Search(run=id), limit=1))
    if not known:
        raise HTTPException(404, _NOWHERE)
    return None


def _named(id: str) -> str:
    """Return the header that proposes a name for the file: letters that every system knows."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", id).strip("-.")[:80]
    return f'attachment; filename="{name or "run"}.html"'


def _facts(site: Site, id: str) -> dict[str, Any]:
    folder = find_here(site.settings.runs, id)
    if folder is not None:
        return site.kept.get(f"here {folder.path}", state_here(folder), lambda: run_here(folder))
    with site.asking():
        found = site.kept.get(f"archive {id}", None, lambda: archived_run(site.archive, id))
    if found is None:
        raise HTTPException(404, _NOWHERE)
    return found


def _described(one: RunLine) -> Line:
    return Line(id=one.id, workflow=one.workflow, state=one.state, begun=one.begun)
