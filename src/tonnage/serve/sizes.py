"""Sizes: ``/category`` with its pictures, and ``/api/category`` and ``/api/sizes`` for programs."""

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from tonnage.jobs import Resource
from tonnage.serve.answers import Answer, Json
from tonnage.serve.pages import address, render
from tonnage.serve.problems import problems
from tonnage.serve.site import Site, site_of
from tonnage.serve.sized import MOST, OFFERED, Question, category_sizes, sizes
from tonnage.size import WITH_OBJECTIVE, Objective
from tonnage.size.export import EXPORTERS, exported

__all__ = ["router"]

router = APIRouter(tags=["categories"])
_Site = Annotated[Site, Depends(site_of)]
FILES = {
    "snakemake": ("Snakemake", "config.yaml"),
    "nextflow": ("Nextflow", "sizes.config"),
    "sbatch": ("Slurm's sbatch", "sizes.sbatch"),
    "dagman": ("DAGMan", "sizes.dag"),
    "makeflow": ("Makeflow", "sizes.makeflow"),
}
"""What a tool is called, and the file that its settings are downloaded as."""


class HowSized(BaseModel):
    """How jobs are sized."""

    model_config = ConfigDict(extra="forbid")

    strategy: Literal[OFFERED] = Field(default="auto", description="As in `tonnage size --strategy`.")  # type: ignore[valid-type] # a list that is known at run time
    objective: Literal[Objective, ""] = Field(
        default="", description="What auto and ladder are to serve; by default waste."
    )
    machine: str = Field(
        default="", max_length=1000, description="What the largest machine has: cores=16,memory=64GiB,disk=1TB."
    )
    workflow: str = Field(default="", max_length=1000, description="Only jobs of this workflow.")

    def question(self, category: str | None) -> Question:
        """Return what is asked."""
        return Question(
            category=category,
            workflow=self.workflow or None,
            strategy=str(self.strategy),
            objective=self.objective or None,
            machine=self.machine,
        )


class OneCategory(HowSized):
    """Which category, and how its jobs are sized."""

    name: str = Field(max_length=1000, description="The category; empty for jobs whose category is not known.")


class SomeCategories(HowSized):
    """Which categories, how their jobs are sized, and in whose words."""

    category: str | None = Field(default=None, max_length=1000, description="Only this category.")
    format: Literal["json", *EXPORTERS] = Field(default="json", description="JSON, or settings for a tool.")  # type: ignore[valid-type]


class Allocation(BaseModel):
    """What the jobs of a category should be given of one resource, and why."""

    category: str
    resource: Resource
    strategy: str
    samples: int
    ladder: list[float]
    """What a job is tried with, one after the other."""
    expected_waste: float | None
    expected_retries: float | None
    reason: str
    largest: float
    requested: float | None
    left_out: int
    saved: float | None
    saved_unit: str | None
    saved_against: str | None
    warnings: list[str]
    notes: list[str]


class Sizes(Answer):
    """What jobs should be given."""

    allocations: list[Allocation]


class Category(Sizes):
    """What is known about a category's jobs, and what to give them."""

    category: str
    jobs: int
    looked_at: int
    """How many of them, the newest, the sizes come from."""
    finished: int
    figures: dict[Resource, dict[str, Any]]
    """Histograms of peaks with the sizes drawn in, for plotly."""


@router.get(
    "/api/category",
    response_model=Category,
    responses=problems(401, 404, 422, 503),
    summary="What to give the jobs of a category, and why",
)
def category(how: Annotated[OneCategory, Query()], site: _Site) -> Json:
    """Say what a category's jobs should be given of each resource, why, and what that saves, with the page's pictures.

    The newest 5,000 jobs are looked at, as a run does at its start.
    """
    with site.asking():
        found = category_sizes(site.archive, site.kept, how.question(how.name))
    if found is None:
        raise HTTPException(404, "no stored job has this category")
    if found.problem is not None:
        raise found.problem
    return Json({"category": how.name, **found.facts()})


@router.get(
    "/api/sizes",
    response_model=Sizes,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(401, 422, 503)},
    summary="Sizes for programs: as JSON, or as settings of a workflow system",
)
def all_sizes(how: Annotated[SomeCategories, Query()], site: _Site) -> Response:
    """Say what to give the jobs of a category, or of each category of a workflow or of the newest 20,000 jobs.

    As JSON it is what `tonnage size --json` prints; other formats are files that a workflow system reads.
    """
    with site.asking():
        found = sizes(site.archive, site.kept, how.question(how.category))
    form = str(how.format)
    if form == "json":
        return Json({"allocations": [one.facts() for one in found]})
    headers = {"Content-Disposition": f'attachment; filename="{FILES[form][1]}"'}
    return Response(exported(form, found), media_type="text/plain; charset=utf-8", headers=headers)


@router.get("/category", include_in_schema=False)
def page(how: Annotated[OneCategory, Query()], site: _Site) -> HTMLResponse:
    """Show a category; the page asks for itself again when another strategy or machine is chosen."""
    if how.strategy not in WITH_OBJECTIVE:  # the form still says what it was with another strategy
        how = how.model_copy(update={"objective": ""})
    with site.asking():
        found = category_sizes(site.archive, site.kept, how.question(how.name))
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
            strategies=OFFERED,
            with_objective=WITH_OBJECTIVE,
            sized=found.by_resource,
            downloads=[
                (name, address("/api/sizes", {"category": how.name, **chosen}, format=form))
                for form, (name, _) in FILES.items()
            ],
            as_json=address("/api/category", {"name": how.name, **chosen}),
            compare=address("/compare", {"category": how.name, "machine": how.machine or None}),
            jobs_csv=f"/api/attempts.csv?{jobs}",
            search=f"/search?{jobs}" if how.name else None,
        )
    )
