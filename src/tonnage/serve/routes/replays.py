"""Comparison of strategies on stored jobs: ``/api/replays``, its page, and the background job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse

from tonnage.archive import Archive, Search, find
from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.lab.size_protocols import PROTOCOLS
from tonnage.lab.size_replay import compared, replay
from tonnage.option_values import amounts
from tonnage.serve.access import token_wanted
from tonnage.serve.background_jobs import Tell
from tonnage.serve.pages import render
from tonnage.serve.responses import problems
from tonnage.serve.routes.background_jobs import Work, described
from tonnage.serve.settings import Site, site_of
from tonnage.size import STRATEGIES, collect
from tonnage.size.strategies import OFFLINE

__all__ = ["router"]

_MOST_JOBS = 50_000
"""Only the newest jobs are replayed, up to this many."""
router = APIRouter()
_Site = Annotated[Site, Depends(site_of)]
_Text = Annotated[str, Field(max_length=1000)]
_AT_FIRST = ("auto", "min-waste", "max-throughput", "max-seen", "percentile", "whole-machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """Which strategies to compare, on which jobs, and how."""

    search: Search
    strategies: Sequence[str]
    protocol: str = "tovar-online"
    by: str = "category"
    resource: Resource = Resource.MEMORY
    machine: Mapping[Resource, float] | None = None


def _compare(tell: Tell, archive: str, wanted: _Comparison) -> Mapping[str, object]:
    """Replay stored jobs with each strategy; return what `tonnage replay size --json` prints."""
    steps = 1 + len(wanted.strategies)
    tell(0, steps, "reading jobs")
    with Archive.open(archive) as opened:
        newest = list(find(opened, wanted.search, reverse=True, limit=_MOST_JOBS))
    records = collect(reversed(newest), wanted.by)  # strategies learn job by job, oldest first
    if not len(records):
        raise InputError("no stored job matches")
    protocol = replace(PROTOCOLS[wanted.protocol], resources=(wanted.resource,))
    if wanted.machine:
        protocol = replace(protocol, machine={**(protocol.machine or {}), **wanted.machine})
    found = []
    for number, strategy in enumerate(wanted.strategies, start=1):
        tell(number, steps, strategy)
        found += [compared("archive", wanted.by, [one]) for one in replay(records, [strategy], protocol)]
    tell(steps, steps, "")
    return {"protocol": wanted.protocol, "jobs": len(records), "most_jobs": _MOST_JOBS, "results": found}


class Wanted(BaseModel):
    """Which strategies, on which jobs, and how."""

    model_config = ConfigDict(extra="forbid")

    strategies: list[_Text] = Field(default=list(_AT_FIRST), min_length=1, max_length=len(STRATEGIES))
    protocol: Literal[*PROTOCOLS] = "tovar-online"  # type: ignore[valid-type]
    by: Literal["category", "label", "executable", "user", "workflow", "none"] = "category"
    resource: Literal["memory", "cores", "disk"] = "memory"
    machine: _Text = ""
    """The size of the largest machine: ``memory=64GB,cores=16``; by default the largest peak."""
    category: _Text | None = None
    label: _Text | None = None
    workflow: _Text | None = None
    user: _Text | None = None
    executable: _Text | None = None
    source: _Text | None = None

    def comparison(self) -> _Comparison:
        """Return the comparison asked for; raises InputError."""
        unknown = [name for name in self.strategies if name not in STRATEGIES]
        if unknown:
            raise InputError(f'"{unknown[0]}" is not a strategy', hint=f"one of {', '.join(STRATEGIES)}")
        late = [name for name in self.strategies if name in OFFLINE]
        if late and PROTOCOLS[self.protocol].online:
            raise InputError(f"{late[0]} cannot decide job by job", hint="use the protocol tovar")
        names = ("category", "label", "workflow", "user", "executable", "source")
        return _Comparison(
            search=Search(**{name: value for name in names if (value := getattr(self, name))}),
            strategies=list(dict.fromkeys(self.strategies)),
            protocol=self.protocol,
            by=self.by,
            resource=Resource(self.resource),
            machine=amounts([self.machine], "machine") if self.machine else None,
        )


@router.post(
    "/api/replays",
    status_code=202,
    responses=problems(400, 401, 403, 413, 422, 429, 503),
    summary="Compare strategies on stored jobs",
    dependencies=[token_wanted],
)
def begin(wanted: Wanted, site: _Site) -> Work:
    """Start replaying stored jobs with each strategy; ``/api/work/ID`` returns the progress and finally the costs."""
    return described(site.background_jobs.take("replay", _compare, site.archive_url, wanted.comparison()))


@router.get("/compare", include_in_schema=False)
def page(request: Request) -> HTMLResponse:
    """Show the form, where results will appear."""
    chosen = request.query_params
    return HTMLResponse(
        render(
            "compare.html",
            here="/compare",
            strategies=[(name, name in _AT_FIRST) for name in STRATEGIES],
            protocols=list(PROTOCOLS),
            category=chosen.get("category", ""),
            machine=chosen.get("machine", ""),
            most=_MOST_JOBS,
        )
    )
