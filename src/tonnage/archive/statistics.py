"""Statistics by category: what jobs use, and how much of their memory they waste."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from sqlalchemy import case, func

from tonnage.archive.reading import FINISHED, FloatArray, columns_by_group
from tonnage.archive.schema import attempts
from tonnage.archive.search import EVERYTHING, Search
from tonnage.archive.store import Archive
from tonnage.jobs import HOURS, Resource
from tonnage.waste import Account, added_up, held_seconds_each

__all__ = ["CategoryStats", "ResourceStats", "Waste", "stats"]

_BINS = 12
_GB_HOUR, _ = HOURS["bytes"]
_USED = tuple(Resource)


@dataclass(frozen=True, slots=True)
class ResourceStats:
    """The distribution of a resource's use over attempts."""

    count: int
    """How many attempts have a known use; excludes those that ran out of it, since their need is unknown."""
    p50: float
    p95: float
    max: float
    histogram: tuple[int, ...]
    """Numbers of attempts in ranges of equal width, from 0 to the largest use."""

    def facts(self) -> dict[str, object]:
        """Return all of it as plain values."""
        return {**asdict(self), "histogram": list(self.histogram)}


@dataclass(frozen=True, slots=True)
class Waste:
    """The memory that attempts held and wasted, as defined in `tonnage.waste`, in bytes times seconds."""

    attempts: int
    """How many attempts are counted: those whose waste is known."""
    account: Account
    savings: float
    """What would have been saved if each attempt had held the largest peak of its category.

    Only attempts with a known peak count; those that ran out of memory save nothing, because they needed more.
    """

    def facts(self) -> dict[str, object]:
        """Return all of it as plain values, in gigabytes times hours."""
        return {
            "jobs": self.attempts,
            "gbh": self.account.wasted / _GB_HOUR,
            "requested_gbh": (self.account.given - self.account.unmeasured) / _GB_HOUR,
            "unmeasured_gbh": self.account.unmeasured / _GB_HOUR,
            "savings_gbh": self.savings / _GB_HOUR,
            "fraction": self.account.waste_fraction,
        }


@dataclass(frozen=True, slots=True)
class CategoryStats:
    """What is known about the attempts of one category."""

    category: str
    jobs: int
    exhausted: dict[Resource, int]
    """How many attempts ran out of each resource."""
    resources: dict[Resource, ResourceStats]
    waste: Waste | None

    def facts(self) -> dict[str, object]:
        """Return all of it as plain values."""
        return {
            "category": self.category,
            "jobs": self.jobs,
            "exhausted": {str(resource): count for resource, count in self.exhausted.items()},
            "resources": {str(resource): spread.facts() for resource, spread in self.resources.items()},
            "waste": self.waste and self.waste.facts(),
        }


def stats(archive: Archive, search: Search = EVERYTHING, *, by: str | None = "category") -> list[CategoryStats]:
    """Return the statistics of each category: first those that waste the most memory, then those with the most jobs."""
    ran_out = case(*((attempts.c.exhausted == name.value, number) for number, name in enumerate(_USED)), else_=-1)
    held = func.coalesce(attempts.c.allocated_memory, attempts.c.requested_memory)
    succeeded = case((FINISHED, 1), else_=0)
    columns = [*(attempts.c[resource] for resource in _USED), held, ran_out, succeeded]
    groups = columns_by_group(archive, [*columns, attempts.c.started, attempts.c.ended], search, by=by)
    names = (*_USED, "held", "ran out", "succeeded", "started", "ended")
    found = [_category(name, dict(zip(names, table, strict=True))) for name, table in groups.items()]
    return sorted(found, key=lambda one: (-(one.waste.account.wasted if one.waste else 0), -one.jobs, one.category))


def _category(name: str, columns: dict[str, FloatArray]) -> CategoryStats:
    waste = _waste(columns)
    exhausted = {}
    for number, resource in enumerate(_USED):
        ran_out = columns["ran out"] == number
        if ran_out.any():
            exhausted[resource] = int(ran_out.sum())
            columns[resource] = np.where(ran_out, np.nan, columns[resource])
    spreads = {resource: _spread(columns[resource]) for resource in _USED}
    known = {resource: spread for resource, spread in spreads.items() if spread is not None}
    return CategoryStats(name, len(columns["held"]), exhausted, known, waste)


def _spread(values: FloatArray) -> ResourceStats | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    p50, p95 = np.percentile(known, (50, 95))
    largest = float(known.max())
    shares = known / (largest or 1)  # of the largest: absolute ranges may be too narrow for floats
    counts: Sequence[int] = np.histogram(shares, bins=_BINS, range=(0, 1))[0].tolist()
    return ResourceStats(len(known), float(p50), float(p95), largest, tuple(counts))


def _waste(columns: dict[str, FloatArray]) -> Waste | None:
    held, peaks, succeeded = columns["held"], columns[Resource.MEMORY], columns["succeeded"] == 1
    seconds = held_seconds_each(columns["started"], columns["ended"], columns[Resource.WALL_TIME])
    known = ~np.isnan(held + seconds)
    counted = known & ~(succeeded & np.isnan(peaks))
    if not counted.any():
        return None
    account = added_up(held, peaks, seconds, succeeded)
    fitting = known & ~np.isnan(peaks) & (columns["ran out"] != _USED.index(Resource.MEMORY))
    unused = np.maximum(held[fitting] - peaks[fitting].max(initial=0.0), 0.0)
    return Waste(int(counted.sum()), account, float(unused @ seconds[fitting]))
