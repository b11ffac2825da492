"""Sizes: ``/category`` with its pictures, and ``/api/category`` and ``/api/sizes`` for programs.

The decisions are those of `tonnage size`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from tonnage.archive import Archive, Search, count_up_to, histories
from tonnage.archive.history import MOST
from tonnage.errors import InputError
from tonnage.jobs import GIVEN, History, Resource
from tonnage.option_values import amounts
from tonnage.report.figures import Figure, histogram
from tonnage.report.text import name_of
from tonnage.serve.cache import Cache
from tonnage.serve.pages import address, render
from tonnage.serve.responses import Answer, Json, problems
from tonnage.serve.settings import Site, site_of
from tonnage.size import WITH_OBJECTIVE, Objective, Plan, Sized, size
from tonnage.size.export import EXPORTERS, exported, worth_changing
from tonnage.size.strategies import FROM_PEAKS
from tonnage.size.tools import OWN, TOOLS, Tool

__all__ = ["FILES", "router"]

_OFFERED = FROM_PEAKS
"""Strategies that need nothing but the jobs of a category."""
_DRAWN = (Resource.MEMORY, Resource.DISK, Resource.CORES, Resource.WALL_TIME)
_COUNTED = 10_000_000
_MOST_TOGETHER = 20_000
"""How many jobs, the newest, are used to size several categories."""
router = APIRouter(tags=["categories"])
_Site = Annotated[Site, Depends(site_of)]
FILES = {
    "snakemake": ("Snakemake", "config.yaml"),
    "nextflow": ("Nextflow", "sizes.config"),
    "sbatch": ("Slurm's sbatch", "sizes.sbatch"),
    "dagman": ("DAGMan", "sizes.dag"),
    "makeflow": ("Makeflow", "sizes.makeflow"),
}
"""The name of each tool, and the file name for downloads of its settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """Which jobs to size, and how."""

    category: str | None = None
    """None means all categories."""
    workflow: str | None = None
    strategy: str = "auto"
    objective: Objective | None = None
    machine: str = ""
    """The size of the largest machine: ``cores=16,memory=64GiB``."""
    tool: Tool = OWN
    """Whose units and least amounts are used."""

    def plan(self) -> Plan:
        """Return the plan for sizing them; raises InputError."""
        if self.strategy not in _OFFERED:
            raise InputError(f'"{self.strategy}" is not a strategy', hint=f"one of {', '.join(_OFFERED)}")
        if self.objective is not None and self.strategy not in WITH_OBJECTIVE:
            hint = f"it applies to {' and '.join(WITH_OBJECTIVE)}"
            raise InputError(f"an objective does not apply to the strategy {self.strategy}", hint=hint)
        machine = amounts([self.machine], "machine") if self.machine.strip() else {}
        return Plan(
            strategy=self.strategy,
            objective=self.objective or "waste",
            resources=GIVEN,
            machine=machine,
            tool=self.tool,
        )


@dataclass(frozen=True, slots=True)
class _CategorySizes:
    """What is known about a category's jobs, and the recommended sizes."""

    jobs: int
    """How many there are."""
    looked_at: int
    """How many of them, the newest, the sizes are based on."""
    finished: int
    """How many of these finished."""
    sized: Sequence[Sized]
    figures: Mapping[Resource, Figure]
    problem: InputError | None
    """Why they cannot be sized with these settings."""

    @property
    def by_resource(self) -> dict[Resource, Sized]:
        """The recommendation for each resource, in the order of the pictures."""
        found = {one.decision.resource: one for one in self.sized}
        return {resource: found[resource] for resource in _DRAWN if resource in found}

    def facts(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "jobs": self.jobs,
            "looked_at": self.looked_at,
            "finished": self.finished,
            "allocations": [one.facts() for one in self.sized],
            "figures": {str(resource): figure for resource, figure in self.figures.items()},
        }


def _category_sizes(archive: Archive, kept: Cache, question: _Question) -> _CategorySizes | None:
    """Return the sizes for a category; None if it has no jobs."""
    state = archive.state()
    return kept.get(f"category {question}", state, lambda: _find_category_sizes(archive, kept, state, question))


def _find_category_sizes(
    archive: Archive, kept: Cache, state: tuple[object, ...], question: _Question
) -> _CategorySizes | None:
    found, jobs = _histories(archive, kept, state, question)
    if not found:
        return None
    ((_, history),) = found.items()
    sized: list[Sized] = []
    problem = None
    try:
        sized = size(found, question.plan())
    except InputError as error:
        problem = error
    return _CategorySizes(jobs, len(history), int(history.finished.sum()), sized, _figures(history, sized), problem)


def _sizes(archive: Archive, kept: Cache, question: _Question) -> Sequence[Sized]:
    """Return the sizes for one category, or for all; raises InputError if nothing is known."""
    plan, state = question.plan(), archive.state()
    found = kept.get(f"sizes {question}", state, lambda: size(_histories(archive, kept, state, question)[0], plan))
    if not found:
        raise InputError("no matching job has finished with a known use")
    return found


def _histories(
    archive: Archive, kept: Cache, state: tuple[object, ...], question: _Question
) -> tuple[Mapping[str, History], int]:
    """Return what the newest jobs used, and the total number; cached, so another strategy needs no query."""
    search = Search(category=question.category, workflow=question.workflow)
    newest = MOST if question.category is not None else _MOST_TOGETHER

    def ask() -> tuple[Mapping[str, History], int]:
        found = histories(archive, search, newest=newest)
        looked_at = sum(len(history) for history in found.values())
        return found, looked_at if looked_at < newest else count_up_to(archive, search, _COUNTED)

    return kept.get(f"histories {search}", state, ask)


def _figures(history: History, sized: Sequence[Sized]) -> dict[Resource, Figure]:
    """Return a histogram of each resource whose use is known, with the recommended ladder drawn in."""
    decided = {one.decision.resource: one for one in sized}
    found = {}
    for resource in _DRAWN:
        peaks = history.used[resource][history.finished]
        if np.isfinite(peaks).any():
            one = decided.get(resource)
            found[resource] = histogram(
                peaks,
                resource,
                decision=None if one is None else one.decision,
                requested=None if one is None else one.requested,
                title=f"Jobs by peak of {name_of(resource)}",
            )
    return found


class HowSized(BaseModel):
    """How jobs are sized."""

    model_config = ConfigDict(extra="forbid")

    strategy: Literal[_OFFERED] = Field(default="auto", description="As in `tonnage size --strategy`.")  # type: ignore[valid-type] # a list that is known at run time
    objective: Literal[Objective, ""] = Field(
        default="", description="What auto and ladder optimise; by default waste."
    )
    machine: str = Field(
        default="", max_length=1000, description="The size of the largest machine: cores=16,memory=64GiB,disk=1TB."
    )
    workflow: str = Field(default="", max_length=1000, description="Only jobs of this workflow.")

    def question(self, category: str | None) -> _Question:
        """Return the parsed parameters."""
        return _Question(
            category=category,
            workflow=self.workflow or None,
            strategy=str(self.strategy),
            objective=self.objective or None,
            machine=self.machine,
        )


class OneCategory(HowSized):
    """Which category, and how its jobs are sized."""

    name: str = Field(max_length=1000, description="The category; empty for jobs of unknown category.")


class SomeCategories(HowSized):
    """Which categories, how their jobs are sized, and in which format."""

    category: str | None = Field(default=None, max_length=1000, description="Only this category.")
    format: Literal["json", *EXPORTERS] = Field(default="json", description="JSON, or settings for a tool.")  # type: ignore[valid-type]
    all: bool = Field(default=False, description="Whether settings also hold what is not worth changing.")


class Allocation(BaseModel):
    """The recommended amounts of one resource for the jobs of a category, and why."""

    category: str
    resource: Resource
    strategy: str
    samples: int
    ladder: list[float]
    """The amounts that a job is tried with, one after the other."""
    expected_waste: float | None
    expected_retries: float | None
    reason: str
    largest: float
    used: float | None
    requested: float | None
    left_out: int
    ran_out: int
    saved: float | None
    added: float | None
    saved_unit: str | None
    saved_against: str | None
    warnings: list[str]
    notes: list[str]


class Sizes(Answer):
    """Recommended sizes."""

    allocations: list[Allocation]


class Category(Sizes):
    """What is known about a category's jobs, and the recommended sizes."""

    category: str
    jobs: int
    looked_at: int
    """How many of them, the newest, the sizes are based on."""
    finished: int
    figures: dict[Resource, dict[str, Any]]
    """Histograms of peaks with the sizes drawn in, for plotly."""


@router.get(
    "/api/category",
    response_model=Category,
    responses=problems(401, 404, 422, 503),
    summary="Recommended sizes for a category, and why",
)
def category(how: Annotated[OneCategory, Query()], site: _Site) -> Json:
    """Return recommended sizes for a category's jobs, why, and what they save, with the figures of the page.

    They are based on the newest 5,000 jobs, like the sizes of a run.
    """
    with site.asking():
        found = _category_sizes(site.archive, site.kept, how.question(how.name))
    if found is None:
        raise HTTPException(404, "no stored job has this category")
    if found.problem is not None:
        raise found.problem
    return Json({"category": how.name, **found.facts()})


@router.get(
    "/api/sizes",
    response_model=Sizes,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(401, 422, 503)},
    summary="Recommended sizes as JSON, or as settings for a workflow system",
)
def all_sizes(how: Annotated[SomeCategories, Query()], site: _Site) -> Response:
    """Return sizes for one category, or for each category of a workflow or of the newest 20,000 jobs.

    JSON is as printed by `tonnage size --json`; other formats are configuration files of workflow systems, in their
    units, with what is worth changing.
    """
    form = str(how.format)
    with site.asking():
        question = replace(how.question(how.category), tool=TOOLS.get(form, OWN))
        found = _sizes(site.archive, site.kept, question)
    if form == "json":
        return Json({"allocations": [one.facts() for one in found]})
    headers = {"Content-Disposition": f'attachment; filename="{FILES[form][1]}"'}
    text = exported(form, found if how.all else worth_changing(found))
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


@router.get("/category", include_in_schema=False)
def page(how: Annotated[OneCategory, Query()], site: _Site) -> HTMLResponse:
    """Show a category; the page reloads itself when another strategy or machine is chosen."""
    if how.strategy not in WITH_OBJECTIVE:  # the form still holds the value chosen with another strategy
        how = how.model_copy(update={"objective": ""})
    with site.asking():
        found = _category_sizes(site.archive, site.kept, how.question(how.name))
    if found is None:
        raise HTTPException(404, "no stored job has this category")
    chosen = {key: value for key, value in how.model_dump(exclude_defaults=True).items() if value and key != "name"}
    jobs = urlencode({"category": how.name, **({"workflow": how.workflow} if how.workflow else {})})
    return HTMLResponse(
        render(
            "category.html",
            here="/",
            how=how,
            found=found,
            most=MOST,
            strategies=_OFFERED,
            with_objective=WITH_OBJECTIVE,
            sized=found.by_resource,
            downloads=[
                (name, address("/api/sizes", {"category": how.name, **chosen}, format=form, all=True))
                for form, (name, _) in FILES.items()
            ],
            as_json=address("/api/category", {"name": how.name, **chosen}),
            compare=address("/compare", {"category": how.name, "machine": how.machine or None}),
            jobs_csv=f"/api/attempts.csv?{jobs}",
            search=f"/search?{jobs}" if how.name else None,
        )
    )
