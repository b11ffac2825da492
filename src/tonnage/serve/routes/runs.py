"""Runs: those in progress, those with a journal on this machine, and those in the archive."""

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from tonnage.archive import Archive, Search, find
from tonnage.jobs import SHARED, Attempt, Resource
from tonnage.report.accounts import Sums, accounts_of, covered
from tonnage.report.attempt_table import Columns, Gathering, columns_of, outcomes_of
from tonnage.report.figures import Figure, Palette
from tonnage.report.figures.over_time import committed_and_used, running_by_category
from tonnage.run.failed_tasks import Kind, failed_tasks, kinds_of
from tonnage.run.folders import RunFolder, runs_of
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.run.state import InFlight, facts_of, in_flight, machine_of
from tonnage.serve.pages import render
from tonnage.serve.reporting import made
from tonnage.serve.responses import Answer, Json, problems
from tonnage.serve.settings import Site, site_of
from tonnage.waste import Account
from tonnage.wording import counted

__all__ = ["router"]

_MOST_ATTEMPTS = 20_000
"""How many attempts of an archived run are read at most."""
_LISTED = 200
_SHOWN = 50
_MOST_FAILED = 2000
"""How many failed tasks are sorted by kind, each time that a page is refreshed."""
router = APIRouter()
_Site = Annotated[Site, Depends(site_of)]
_NOWHERE = "there is no run with this id, neither here nor in the archive"
_Id = Annotated[str, Query(min_length=1, max_length=1000, pattern=r"^[^\x00]*$", description="The id of the run.")]


class Line(BaseModel):
    """A run in one line."""

    id: str
    workflow: str
    state: str
    begun: float | None


def _runs_here(folders: tuple[Path, ...]) -> list[Line]:
    """Return the runs with a journal in one of these folders, the newest first."""
    found = [_line(run) for run in _runs(folders)]
    return sorted(found, key=lambda one: -(one.begun or 0.0))[:_LISTED]


def _find_here(folders: tuple[Path, ...], id: str) -> RunFolder | None:
    """Return the run with this id, chosen from existing ones: a client's text never becomes part of a path."""
    return next((run for run in _runs(folders) if run.id == id), None)


def _state_here(folder: RunFolder) -> object:
    """Return a value that changes whenever the journal does; None while the run is in progress."""
    if folder.process() is not None:
        return None
    files = (folder.journal, folder.journal.with_name(f"{folder.journal.name}-wal"))
    return tuple((one.st_mtime_ns, one.st_size) for path in files if (one := _stat(path)) is not None)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _run_here(folder: RunFolder) -> dict[str, Any]:
    """Return the state of a run according to its journal."""
    under_way, now = folder.process() is not None, time.time()
    with closing(Reader(folder.journal)) as reader:
        facts = reader.facts()
        machine = machine_of(facts).amounts() if "memory" in facts else {}
        tasks, done = reader.counts()
        failures = reader.failures()
        kinds = kinds_of(failed_tasks(reader, _MOST_FAILED))
        columns = columns_of(reader, now if under_way else None)
        flight = in_flight(reader) if under_way else InFlight([], [], 0)
        by_category = {name: (many, well) for name, many, well in reader.tasks_by_category()}
    peaks = _peaks(columns)
    running = sorted(flight.running, key=lambda row: row.started)
    return {
        "id": folder.id,
        "workflow": facts.get("name", folder.id),
        "here": True,
        "state": _state(folder, facts),
        "now": now,
        "settings": {name: facts[name] for name in ("strategy", "rank", "on") if name in facts},
        "tasks": tasks,
        "done": done,
        "failures": failures,
        "failed": [one.facts() for kind in kinds for one in kind.examples][:_SHOWN],
        "more_failed": _more_failed(kinds, failures),
        "running": [_running(row, peaks) for row in running[:_SHOWN]],
        "running_now": len(running),
        "queued_now": flight.queued_tasks,
        "left_out": 0,
        **_sums(columns, machine, by_category),
    }


def _more_failed(kinds: list[Kind], failures: int) -> list[str]:
    """Return a line for each kind of failure with tasks that are not shown, and how many were not looked at."""
    more = failures - sum(kind.count for kind in kinds)
    lines = [kind.others for kind in kinds if kind.others][:_SHOWN]
    return [*lines, f"{counted(more, 'more task')} failed"] if more > 0 else lines


def _archived_run(archive: Archive, id: str) -> dict[str, Any] | None:
    """Return what the archive knows about a run; None if it has none with this id."""
    attempts = list(find(archive, Search(run=id), limit=_MOST_ATTEMPTS + 1))
    if not attempts:
        return None
    left_out = len(attempts) > _MOST_ATTEMPTS
    material = Gathering().gather(attempts[:_MOST_ATTEMPTS])
    tasks = _tasks(attempts[:_MOST_ATTEMPTS])
    return {
        "id": id,
        "workflow": attempts[0].workflow or "",
        "here": False,
        "state": "in the archive",
        "now": time.time(),
        "settings": {},
        "tasks": sum(many for many, _ in tasks.values()),
        "done": sum(well for _, well in tasks.values()),
        "failures": 0,
        "failed": [],
        "more_failed": [],
        "running": [],
        "running_now": 0,
        "queued_now": 0,
        "left_out": int(left_out),
        **_sums(material, {}, tasks),
    }


def _tasks(attempts: list[Attempt]) -> dict[str, tuple[int, int]]:
    """Return how many tasks each category has, and how many of them are done."""
    done: dict[tuple[str, str], bool] = {}
    for place, attempt in enumerate(attempts):
        key = attempt.category or "", attempt.task or f"\0{place}"
        done[key] = done.get(key, False) or attempt.finished
    many = Counter(category for category, _ in done)
    well = Counter(category for (category, _), good in done.items() if good)
    return {category: (number, well[category]) for category, number in many.items()}


def _peaks(columns: Columns) -> dict[str, float]:
    """Return the largest memory peak of each category so far."""
    used, peaks = columns.used[Resource.MEMORY], np.zeros(len(columns.categories))
    known = np.isfinite(used)
    np.maximum.at(peaks, columns.category[known], used[known])
    return {name: float(peak) for name, peak in zip(columns.categories, peaks, strict=True) if peak}


def _runs(folders: tuple[Path, ...]) -> Iterator[RunFolder]:
    for folder in folders:
        yield from runs_of(folder)


def _line(run: RunFolder) -> Line:
    facts = facts_of(run)
    begun = facts.get("begun")
    return Line(
        id=run.id,
        workflow=facts.get("name", run.id),
        state=_state(run, facts),
        begun=float(begun) if begun else None,
    )


def _state(run: RunFolder, facts: dict[str, str]) -> str:
    if run.process() is not None:
        return "under way"
    return "finished" if "finished" in facts else "not finished"


def _running(row: Row, peaks: dict[str, float]) -> dict[str, Any]:
    return {
        "task": row.task,
        "title": row.title,
        "category": row.category,
        "number": row.number,
        "started": row.started,
        "allocated": {str(resource): amount for resource, amount in row.allocated.known()},
        "category_peak": peaks.get(row.category),
        "reason": next((one.reason for one in row.decisions if one.resource is Resource.MEMORY), ""),
    }


def _sums(columns: Columns, machine: dict[Resource, float], tasks: dict[str, tuple[int, int]]) -> dict[str, Any]:
    total, by_category = accounts_of(columns, machine)
    names = list(dict.fromkeys([*by_category, *tasks]))
    names.sort(key=lambda name: -tasks.get(name, (by_category[name].attempts if name in by_category else 0, 0))[0])
    return {
        "attempts": total.attempts,
        "retries": total.retries,
        "outcomes": dict(outcomes_of(columns)),
        "seconds": covered(columns),
        "resources": {str(one): _account(account) for one, account in total.accounts.items() if account.given},
        "categories": [_category(name, by_category.get(name), tasks.get(name)) for name in names],
        "pictures": _pictures(columns, machine, names),
    }


def _category(name: str, sums: Sums | None, tasks: tuple[int, int] | None) -> dict[str, Any]:
    return {
        "category": name,
        "tasks": tasks[0] if tasks else None,
        "done": tasks[1] if tasks else sums.done if sums else 0,
        "attempts": sums.attempts if sums else 0,
        "failed": sums.failed if sums else 0,
        "seconds": sums.seconds if sums else 0.0,
        "memory": _account(sums.accounts[Resource.MEMORY]) if sums else None,
    }


def _account(account: Account) -> dict[str, float | None]:
    return {
        "given": account.given,
        "used": account.used,
        "waste_fraction": account.waste_fraction,
        "whole_machine": account.whole_machine or None,
        "max_seen": account.max_seen or None,
    }


def _pictures(columns: Columns, machine: dict[Resource, float], names: list[str]) -> dict[str, Figure | None]:
    times = columns.started, columns.ended
    return {
        "running": running_by_category(*times, columns.category, columns.categories, Palette.of(names)),
        **{
            str(one): committed_and_used(
                *times, columns.given[one], columns.needed(one), one, capacity=machine.get(one)
            )
            for one in SHARED
        },
    }


class Runs(Answer):
    """The runs with a journal in the server's folders, the newest first."""

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
    failed: list[dict[str, Any]]
    """The first failed tasks of each kind: their commands, why they failed, and what they printed last."""
    more_failed: list[str]
    """The others, in a line for each kind."""
    running: list[dict[str, Any]]
    running_now: int
    queued_now: int
    """Tasks that wait in the queue of a batch system."""
    left_out: int
    """1 if the archive has more attempts than are included."""
    attempts: int
    retries: int
    outcomes: dict[str, int]
    seconds: float | None
    resources: dict[str, dict[str, float | None]]
    categories: list[dict[str, Any]]
    pictures: dict[str, dict[str, Any] | None]


@router.get("/api/runs", responses=problems(401, 503), summary="List runs")
def runs(site: _Site) -> Runs:
    """List the runs with a journal in the folders that the server was started with, the newest first."""
    return Runs(runs=_runs_here(site.settings.runs))


@router.get(
    "/api/run", response_model=Run, responses=problems(401, 404, 422, 503), summary="Progress and resource use of a run"
)
def run(id: _Id, site: _Site) -> Json:
    """Return the progress of a run: what runs, what failed and why, what is wasted, and the figures of its page."""
    return Json(_facts(site, id))


@router.get("/runs", include_in_schema=False)
def list_page(site: _Site) -> HTMLResponse:
    """Show the runs."""
    return HTMLResponse(render("runs.html", here="/runs", runs=_runs_here(site.settings.runs)))


@router.get("/run", include_in_schema=False)
def run_page(id: _Id, site: _Site) -> HTMLResponse:
    """Show a run; the page refreshes itself while the run is under way."""
    return HTMLResponse(render("run.html", here="/runs", run=_facts(site, id), most=_MOST_ATTEMPTS))


@router.get(
    "/api/report",
    response_class=Response,
    responses={200: {"content": {"text/html": {}}}, **problems(401, 404, 422, 503)},
    summary="The report of a run",
)
async def report(id: _Id, site: _Site) -> Response:
    """Send the report that `tonnage report` writes: one self-contained HTML file."""
    run = await run_in_threadpool(_place, site, id)
    page = await made(site.reports, run, site.archive_url, id)
    return Response(page, media_type="text/html", headers={"Content-Disposition": _named(id)})


def _place(site: Site, id: str) -> Path | None:
    """Return the folder of a run; None if only the archive knows it."""
    folder = _find_here(site.settings.runs, id)
    if folder is not None:
        return folder.path
    with site.asking():
        known = any(True for _ in find(site.archive, Search(run=id), limit=1))
    if not known:
        raise HTTPException(404, _NOWHERE)
    return None


def _named(id: str) -> str:
    """Return the header that suggests a file name, in characters that every system accepts."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", id).strip("-.")[:80]
    return f'attachment; filename="{name or "run"}.html"'


def _facts(site: Site, id: str) -> dict[str, Any]:
    folder = _find_here(site.settings.runs, id)
    if folder is not None:
        return site.kept.get(f"here {folder.path}", _state_here(folder), lambda: _run_here(folder))
    with site.asking():
        found = site.kept.get(f"archive {id}", None, lambda: _archived_run(site.archive, id))
    if found is None:
        raise HTTPException(404, _NOWHERE)
    return found
