"""Numbers in the user's words, for pages."""

from collections.abc import Sequence

from tonnage.jobs import HOURS, Resource
from tonnage.size.factory import percent as part_of

__all__ = ["counted", "hours", "ladder_text", "name_of", "percent", "said", "saved", "shown"]

_RUNGS = 4


def counted(number: int, what: str) -> str:
    """Return a number of things: ``1 job``, ``2 jobs``; ``2 categories``."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what[:-1]}ies" if what.endswith("y") else f"{number:,} {what}s"


def hours(resource: Resource, amount: float) -> str:
    """Print an amount times seconds: ``12.3 GB*h``."""
    factor, unit = HOURS[resource.unit]
    value = amount / factor
    if abs(value) >= 1000:
        return f"{value:,.0f} {unit}"
    if resource.unit == "bytes" and 0 < abs(value) < 0.1:  # who has so little has no use for powers of ten
        return f"{value * 1e3:.3g} MB*h" if abs(value) >= 1e-4 else f"{value * 1e6:.3g} kB*h"
    return f"{value:.3g} {unit}"


def shown(resource: Resource, amount: float | None) -> str:
    """Print an amount, or nothing where it is not known."""
    return "" if amount is None or amount != amount else resource.shown(amount)  # noqa: PLR0124 (not a number)


def percent(fraction: float | None) -> str:
    """Print a part."""
    return "" if fraction is None else part_of(fraction)


def saved(given: float, other: float) -> str:
    """Say how much less was given than some other way to size would have."""
    if not other or not given:
        return ""
    if given <= other:
        return f"{part_of(1 - given / other)} less"
    times = given / other
    return f"{times:,.0f} times as much" if times >= 100 else f"{times:.3g} times as much"


def ladder_text(resource: Resource, ladder: Sequence[float]) -> str:
    """Print a ladder: ``1.2 GB, then 3.8 GB``."""
    rungs = [resource.shown(rung) for rung in ladder]
    if len(rungs) > _RUNGS:
        rungs = [*rungs[: _RUNGS - 1], "…", rungs[-1]]
    return ", then ".join(rungs)


def name_of(resource: Resource) -> str:
    """Return what a resource is called in a sentence."""
    return str(resource).replace("_", " ")


def said(text: str, room: int = 300) -> str:
    """Return a text of the user's for a page: what cannot be seen is marked, and what is endless is cut."""
    clean = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return clean if len(clean) <= room else f"{clean[: room * 2 // 3]} … {clean[-room // 3 :]}"
