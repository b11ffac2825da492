"""Searches as users write them: in options, in forms and in the addresses of a server."""

from collections.abc import Iterator, Sequence
from dataclasses import fields as fields_of
from datetime import UTC, datetime

from tonnage.archive.search import Search
from tonnage.jobs import Outcome, Resource
from tonnage.logs.conditions import Condition
from tonnage.logs.user_times import moment
from tonnage.option_values import pairs

__all__ = ["search_of", "written"]


def search_of(
    *,
    outcome: str | None = None,
    exhausted: str | None = None,
    exit_status: int | None = None,
    since: str | None = None,
    until: str | None = None,
    where: Sequence[str] = (),
    field: Sequence[str] = (),
    **names: str | None,
) -> Search:
    """Return the search that texts describe; `names` are those of its filters that are texts themselves."""
    return Search(
        outcome=Outcome(outcome) if outcome else None,
        exhausted=Resource(exhausted) if exhausted else None,
        exit_status=exit_status,
        since=None if since is None else moment(since),
        until=None if until is None else moment(until),
        where=tuple(Condition.parse(text) for text in where),
        fields=pairs(field, "field"),
        **names,  # type: ignore[arg-type] # its only other kind of value is `patterns`, which is no filter
    )


def written(search: Search) -> Iterator[tuple[str, str]]:
    """Yield names and texts of which `search_of` makes the same search again."""
    for name in (one.name for one in fields_of(search) if one.name != "patterns"):  # a user's names are patterns
        value = getattr(search, name)
        if name == "where":
            yield from (("where", str(condition)) for condition in value)
        elif name == "fields":
            yield from (("field", f"{key}={text}") for key, text in value.items())
        elif value is not None:
            yield name, _date(value) if name in ("since", "until") else str(value)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
