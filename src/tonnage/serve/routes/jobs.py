"""Single jobs: ``/search``, and ``/api/attempts`` as JSON, JSON lines and CSV."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import HTMLResponse, Response, StreamingResponse

from tonnage.archive import Search, count_up_to, find, record
from tonnage.archive.codec import schema
from tonnage.archive.reading import SORTABLE, sortable
from tonnage.archive.registry import EXPORTERS
from tonnage.archive.search import search_of, written
from tonnage.errors import InputError
from tonnage.jobs import Attempt, Outcome, Resource
from tonnage.option_values import parts
from tonnage.serve.pages import address, render
from tonnage.serve.responses import Answer, Json, problems
from tonnage.serve.settings import Site, site_of

__all__ = ["router"]

_LONGEST = 4096
_MOST = 20  # conditions, and as many fields: together they fit into a URL
_Short = Annotated[str, Field(max_length=1000)]
router = APIRouter(tags=["jobs"])
_Site = Annotated[Site, Depends(site_of)]
_ON_A_PAGE = 50
_COUNTED = 1000
"""Matches are counted up to this number; beyond it, the page says "more than"."""
_RESOURCES = (Resource.MEMORY, *(one for one in Resource if one is not Resource.MEMORY))
_COLUMNS = (
    ("category", "Category", False),
    ("memory", "Memory", True),
    ("requested_memory", "Requested", True),
    ("wall_time", "Time", True),
    ("outcome", "Outcome", False),
    ("disk", "Disk", True),
    ("cores", "Cores", True),
    ("user", "User", False),
    ("workflow", "Workflow", False),
    ("ended", "Ended (UTC)", False),
)


_ATTEMPT: dict[str, Any] = schema()


def _text(about: str) -> str | None:
    found: str | None = Field(default=None, max_length=_LONGEST, description=about)
    return found


class Filters(BaseModel):
    """Filters, all of which a job must match; names can be patterns with * and ?, an empty name means unknown."""

    model_config = ConfigDict(extra="forbid")

    workflow: str | None = _text("Of this workflow, given by name or checksum.")
    run: str | None = _text("Of this run.")
    user: str | None = _text("Of this user.")
    category: str | None = _text("Of this category.")
    label: str | None = _text("With this label, set by discover.")
    task: str | None = _text("Of the task with this name.")
    command: str | None = _text("With this in the command, or matching a pattern like */bwa mem*.")
    executable: str | None = _text("Of this program.")
    input: str | None = _text("That read this file.")
    output: str | None = _text("That wrote this file.")
    file: str | None = _text("That read or wrote this file.")
    source: str | None = _text("Of the source with this label.")
    exit_status: int | None = Field(
        default=None, ge=-(2**62), le=2**62, description="That ended with this exit status."
    )
    outcome: Outcome | None = Field(default=None, description="That ended this way.")
    exhausted: Resource | None = Field(default=None, description="That ran out of this.")
    since: str | None = _text("That ended since a date like 2026-11-15, or within the last 30d.")
    until: str | None = _text("That ended before a date, or more than 30d ago.")
    where: list[_Short] = Field(default=[], max_length=_MOST, description="Like memory>4GB or requested_cores>=8.")
    field: list[_Short] = Field(default=[], max_length=_MOST, description="With this custom field: project=atlas.")

    def search(self) -> Search:
        """Return the search; raises InputError."""
        return search_of(**{name: getattr(self, name) for name in Filters.model_fields})


class Sorted(Filters):
    """Which jobs, in which order, and how many."""

    sort: str | None = Field(
        default=None,
        description="Largest or newest first, names alphabetically; by default in the order of their import.",
        json_schema_extra={"enum": list[Any](SORTABLE)},
    )
    reverse: bool = Field(default=False, description="Reverse the order.")
    limit: int | None = Field(default=None, ge=1, le=2**31, description="How many to return at most; by default all.")


class Page(Sorted):
    """Which jobs, in which order, and where the page starts."""

    limit: int = Field(default=_ON_A_PAGE, ge=1, le=1000, description="How many per page.")
    after: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{32}$",
        description="The `next` of the previous page; a later page costs as much as the first.",
    )

    def found(self, site: Site) -> tuple[list[Attempt], bool]:
        """Return the jobs of this page, and whether there are more."""
        after = bytes.fromhex(self.after) if self.after else None
        with site.asking():
            # Ask for one more than is shown, to find out whether there are more.
            some = find(
                site.archive, self.search(), sort=self.sort, reverse=self.reverse, limit=self.limit + 1, after=after
            )
            found = list(some)
        return found[: self.limit], len(found) > self.limit


class Attempts(Answer):
    """A page of attempts."""

    attempts: list[dict[str, Any]] = Field(json_schema_extra={"items": _ATTEMPT})
    more: bool
    next: str | None
    """The `after` for the next page, if there is one."""


@router.get(
    "/api/attempts", response_model=Attempts, responses=problems(401, 422, 503), summary="Find jobs, page by page"
)
def attempts(page: Annotated[Page, Query()], site: _Site) -> Json:
    """List the attempts that match all filters, with everything known about each, in bytes, seconds and cores."""
    found, more = page.found(site)
    return Json({"attempts": [record(one) for one in found], "more": more, "next": _identity(found) if more else None})


@router.get(
    "/api/attempts.csv",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}, **problems(401, 422, 503)},
    summary="Find jobs, all of them as CSV",
)
def attempts_csv(wanted: Annotated[Sorted, Query()], site: _Site) -> Response:
    """Send the attempts that match all filters as a table, with the columns of `tonnage archive export`."""
    headers = {"Content-Disposition": 'attachment; filename="jobs.csv"'}
    return StreamingResponse(_all(site, wanted, "csv"), media_type="text/csv; charset=utf-8", headers=headers)


@router.get(
    "/api/attempts.jsonl",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}, **problems(401, 422, 503)},
    summary="Find jobs, all of them as JSON lines",
)
def attempts_jsonl(wanted: Annotated[Sorted, Query()], site: _Site) -> Response:
    """Send the attempts that match all filters, one JSON object per line; `tonnage size http://...` uses this."""
    return StreamingResponse(_all(site, wanted, "jsonl"), media_type="application/x-ndjson")


def _all(site: Site, wanted: Sorted, format: str) -> Iterator[bytes]:
    """Return the pieces of a file; an invalid query raises at once, not in the middle of the file."""
    search = wanted.search()
    if wanted.sort is not None:
        sortable(wanted.sort)
    found = find(site.archive, search, sort=wanted.sort, reverse=wanted.reverse, limit=wanted.limit)
    return EXPORTERS[format](found)


def _identity(found: list[Attempt]) -> str | None:
    return found[-1].identity.hex() if found and found[-1].identity else None


# The page


@router.get("/search", include_in_schema=False)
def page(request: Request, site: _Site) -> HTMLResponse:
    """Show the form and the results."""
    given = {name: text.strip() for name, text in request.query_params.items() if text.strip()}
    context: dict[str, Any] = {"given": given, "outcomes": list(Outcome), "resources": _RESOURCES}
    try:
        wanted = _wanted(given)
        found, more = wanted.found(site)
    except (InputError, ValidationError) as error:
        return HTMLResponse(render("search.html", here="/search", problem=_message(error), **context))
    search = wanted.search()
    with site.asking():
        total = count_up_to(site.archive, search, _COUNTED) if more and not wanted.after else None
    same = [*written(search), *([("sort", wanted.sort)] if wanted.sort else [])]
    return HTMLResponse(
        render(
            "search.html",
            here="/search",
            problem=None,
            found=found,
            columns=[_column(given, wanted, *column) for column in _COLUMNS if _is_known(found, column[0])],
            said=_how_many(len(found), total, wanted),
            later=address("/search", given, after=_identity(found)) if more else None,
            first=address("/search", given, after=None) if wanted.after else None,
            as_csv=address("/api/attempts.csv", _together(same), reverse=wanted.reverse),
            as_json=address("/api/attempts", _together(same), reverse=wanted.reverse),
            **context,
        )
    )


def _wanted(given: Mapping[str, str]) -> Page:
    """Return the page that the form asks for; its conditions and fields are comma-separated."""
    wanted: dict[str, Any] = {**given, "limit": _ON_A_PAGE}
    wanted["where"] = [one.strip() for one in parts([given.get("where", "")]) if one.strip()]
    wanted["field"] = [one.strip() for one in parts([given.get("field", "")]) if one.strip()]
    resource, least, most = (wanted.pop(name, "") for name in ("resource", "least", "most"))
    wanted["where"] += [f"{resource or 'memory'}{sign}{text}" for sign, text in ((">=", least), ("<=", most)) if text]
    if "sort" not in given:
        wanted["reverse"] = True  # the newest first
    return Page.model_validate(wanted)


def _message(error: InputError | ValidationError) -> tuple[str, str | None]:
    if isinstance(error, InputError):
        return str(error), error.hint
    first = error.errors()[0]
    return f"{first['loc'][0]}: {first['msg']}", None


def _how_many(shown: int, total: int | None, wanted: Page) -> str:
    if not shown:
        return "No matching jobs."
    if total is None:
        return f"{shown:,} {'more ' if wanted.after else ''}{'job' if shown == 1 else 'jobs'}"
    return f"the first {shown:,} of {'more than ' if total > _COUNTED else ''}{min(total, _COUNTED):,} jobs"


def _is_known(found: list[Attempt], name: str) -> bool:
    return any(record(one)[name] is not None for one in found)


def _column(given: Mapping[str, str], wanted: Page, name: str, text: str, number: bool) -> dict[str, Any]:
    """Return a column's header, with the URL of the same search sorted by it."""
    here = wanted.sort == name
    falling = (name in ("ended", *Resource, "requested_memory")) != wanted.reverse
    again = here and not wanted.reverse
    return {
        "name": name,
        "text": text,
        "number": number,
        "address": address("/search", given, sort=name, reverse=again or None, after=None),
        "sorted": ("descending" if falling else "ascending") if here else None,
    }


def _together(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(text)
    return found
