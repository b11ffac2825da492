"""The categories of an archive: ``/``, and ``/api/categories``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse

from tonnage.jobs import Resource
from tonnage.serve.overview import Counted
from tonnage.serve.pages import address, render
from tonnage.serve.responses import Answer, Json, problems
from tonnage.serve.settings import Site, site_of

__all__ = ["router"]

router = APIRouter(tags=["categories"])
_Site = Annotated[Site, Depends(site_of)]
_ON_A_PAGE = 100


class Choice(BaseModel):
    """Which categories, and in which order."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="", max_length=1000, description="Only those whose names contain this.")
    resource: Literal["memory", "disk", "cores", "wall_time", "cpu_time", "processes"] = Field(
        default="memory", description="The resource to sort by, if `sort` is p50, p95 or max."
    )
    sort: Literal["waste", "jobs", "category", "p50", "p95", "max"] = Field(
        default="waste", description="By default, those that waste the most memory first."
    )
    reverse: bool = Field(default=False, description="Reverse the order.")
    offset: int = Field(default=0, ge=0, le=10_000_000, description="How many to skip at the beginning.")
    limit: int = Field(default=1000, ge=1, le=10_000, description="How many to return at most.")

    def select(self, counted: Counted) -> list[Mapping[str, Any]]:
        """Return the chosen categories, in order."""
        words = self.name.lower()
        found = [one for one in counted.categories if words in one["category"].lower()]
        if self.sort == "category":
            return sorted(found, key=lambda one: one["category"], reverse=self.reverse)
        key = {"jobs": _jobs, "waste": _wasted}.get(self.sort) or _spread(self.resource, self.sort)
        known = [(value, one) for one in found if (value := key(one)) is not None]
        known.sort(key=lambda pair: pair[0], reverse=not self.reverse)
        return [one for _, one in known] + [one for one in found if key(one) is None]


def _jobs(one: Mapping[str, Any]) -> float:
    return float(one["jobs"])


def _wasted(one: Mapping[str, Any]) -> float | None:
    return one["waste"] and float(one["waste"]["gbh"])


def _spread(resource: str, name: str) -> Any:  # noqa: ANN401 (a function)
    return lambda one: one["resources"].get(resource, {}).get(name)


class Spread(BaseModel):
    """The distribution of a resource's use over jobs."""

    count: int
    p50: float
    p95: float
    max: float
    histogram: list[int]
    """Numbers of jobs in ranges of equal width, from 0 to the largest use."""


class Waste(BaseModel):
    """Memory that jobs held and wasted, in GB times hours; jobs that did not succeed waste all of it."""

    jobs: int
    gbh: float
    requested_gbh: float
    """What they held."""
    unmeasured_gbh: float
    """What successful jobs with unknown use held: counts as neither used nor wasted."""
    savings_gbh: float
    fraction: float | None


class Category(BaseModel):
    """What the jobs of a category use; the name is empty for jobs of unknown category."""

    category: str
    jobs: int
    exhausted: dict[Resource, int]
    """How many ran out of each resource."""
    resources: dict[Resource, Spread]
    waste: Waste | None


class Categories(Answer):
    """The categories of the archive."""

    counted: float
    """When they were counted, in seconds since 1970."""
    jobs: int
    """How many jobs there are in total."""
    total: int
    """How many categories match."""
    categories: list[Category]


@router.get(
    "/api/categories",
    response_model=Categories,
    responses=problems(401, 422, 503),
    summary="What the jobs of each category use",
)
def categories(choice: Annotated[Choice, Query()], site: _Site) -> Json:
    """List the categories with their number of jobs and the median, 95th percentile and largest use of resources."""
    counted = site.overview.now(site.settings.limits.seconds)
    found = choice.select(counted)
    some = found[choice.offset : choice.offset + choice.limit]
    return Json({"counted": counted.at, "jobs": counted.jobs, "total": len(found), "categories": some})


@router.get("/", include_in_schema=False)
def page(site: _Site, choice: Annotated[Choice, Query()]) -> HTMLResponse:
    """Show the categories; if the archive is being counted for the first time, as soon as that is done."""
    counted = site.overview.begun()
    if counted is None:
        return HTMLResponse(render("categories.html", here="/", counted=None))
    found = choice.select(counted)
    here = {key: value for key, value in choice.model_dump(exclude_defaults=True).items() if key != "limit"}
    end = choice.offset + _ON_A_PAGE
    return HTMLResponse(
        render(
            "categories.html",
            here="/",
            counted=counted,
            choice=choice,
            found=found[choice.offset : end],
            total=len(found),
            end=min(end, len(found)),
            resources=_known(counted),
            headers=[(name, text, _sorted_by(here, choice, name)) for name, text in _HEADERS],
            later=address("/", here, offset=end) if end < len(found) else None,
            earlier=address("/", here, offset=max(0, choice.offset - _ON_A_PAGE) or None) if choice.offset else None,
        )
    )


_HEADERS = (("jobs", "Jobs"), ("p50", "Median"), ("p95", "95 %"), ("max", "Largest"), ("waste", "Memory wasted"))


def _sorted_by(here: Mapping[str, Any], choice: Choice, name: str) -> str:
    """Return the URL of the same list sorted by a column; reversed if it already is."""
    again = choice.sort == name and not choice.reverse
    return address("/", here, sort=name, reverse=again or None, offset=None)


def _known(counted: Counted) -> Sequence[Resource]:
    """Return the resources that any category has data on."""
    found = {name for one in counted.categories for name in one["resources"]}
    return [resource for resource in Resource if resource in found] or [Resource.MEMORY]
