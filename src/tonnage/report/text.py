"""Numbers, amounts and outcomes as text, for pages."""

from collections.abc import Sequence

from tonnage.jobs import HOURS, Attempt, Resource
from tonnage.size.factory import percent as part_of

__all__ = ["hours", "ladder_text", "name_of", "outcome_of", "percent", "said", "saved", "shown"]

_RUNGS = 4


def hours(resource: Resource, amount: float) -> str:
    """Format an amount times seconds: ``12.3 GB*h``."""
    factor, unit = HOURS[resource.unit]
    value = amount / factor
    if abs(value) >= 1000:
        return f"{value:,.0f} {unit}"
    if resource.unit == "bytes" and 0 < abs(value) < 0.1:  # smaller units read better than powers of ten
        return f"{value * 1e3:.3g} MB*h" if abs(value) >= 1e-4 else f"{value * 1e6:.3g} kB*h"
    return f"{value:.3g} {unit}"


def shown(resource: Resource, amount: float | None) -> str:
    """Format an amount; empty if it is unknown."""
    return "" if amount is None or amount != amount else resource.format_amount(amount)  # noqa: PLR0124 (not a number)


def percent(fraction: float | None) -> str:
    """Format a fraction as a percentage."""
    return "" if fraction is None else part_of(fraction)


def saved(given: float, other: float) -> str:
    """Describe how much less was allocated than with another way of sizing."""
    if not other or not given:
        return ""
    if given <= other:
        return f"{part_of(1 - given / other)} less"
    times = given / other
    return f"{times:,.0f} times as much" if times >= 100 else f"{times:.3g} times as much"


def ladder_text(resource: Resource, ladder: Sequence[float]) -> str:
    """Format a ladder: ``1.2 GB, then 3.8 GB``."""
    rungs = [resource.format_amount(rung) for rung in ladder]
    if len(rungs) > _RUNGS:
        rungs = [*rungs[: _RUNGS - 1], "…", rungs[-1]]
    return ", then ".join(rungs)


def name_of(resource: Resource) -> str:
    """Return the name of a resource for use in a sentence."""
    return str(resource).replace("_", " ")


def outcome_of(attempt: Attempt) -> str:
    """Describe how an attempt ended."""
    if attempt.exhausted is not None:
        return f"{name_of(attempt.exhausted)} exhausted"
    if attempt.outcome is None:
        return ""
    if attempt.exit_status:
        return f"{attempt.outcome} ({attempt.exit_status})"
    return f"{attempt.outcome} (signal {attempt.signal})" if attempt.signal else str(attempt.outcome)


def said(text: str, room: int = 300) -> str:
    """Return a user's text for a page: unprintable characters are replaced, and long texts are shortened."""
    clean = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return clean if len(clean) <= room else f"{clean[: room * 2 // 3]} … {clean[-room // 3 :]}"
