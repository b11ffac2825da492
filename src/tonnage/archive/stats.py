"""What the jobs of each category use, and how much of what they asked for they waste."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from sqlalchemy import case

from tonnage.archive.reading import FloatArray, columns_by_group
from tonnage.archive.schema import attempts
from tonnage.archive.search import EVERYTHING, Search
from tonnage.archive.store import Archive
from tonnage.jobs import HOURS, Resource

__all__ = ["CategoryStats", "ResourceStats", "Waste", "stats"]

_LEAST = 1e-300  # what is less cannot be divided into ranges
_BINS = 12
_GB_HOUR, _ = HOURS["bytes"]
_USED = tuple(Resource)


@dataclass(frozen=True, slots=True)
class ResourceStats:
    """How a resource's use is spread over attempts."""

    count: int
    """Of how many attempts it is known, those left out that ran out of it: their need is not known."""
    p50: float
    p95: float
    max: float
    histogram: tuple[int, ...]
    """Attempts in equally wide ranges from 0 to the largest."""

    def facts(self) -> dict[str, object]:
        """Return all of it as plain values."""
        return {**asdict(self), "histogram": list(self.histogram)}


@dataclass(frozen=True, slots=True)
class Waste:
    """Memory that was asked for and not used, while the attempt ran."""

    attempts: int
    """Of how many attempts request, peak and run time are known."""
    byte_seconds: float
    requested_byte_seconds: float
    savings_byte_seconds: float
    """What would have been saved had each asked for the largest peak of its category."""

    @property
    def fraction(self) -> float | None:
        """The part of what was asked for that was not used."""
        return self.byte_seconds / self.requested_byte_seconds if self.requested_byte_seconds else None

    def facts(self) -> dict[str, object]:
        """Return all of it as plain values, in gigabytes times hours."""
        return {
            "jobs": self.attempts,
            "gbh": self.byte_seconds / _GB_HOUR,
            "requested_gbh": self.requested_byte_seconds / _GB_HOUR,
            "savings_gbh": self.savings_byte_seconds / _GB_HOUR,
            "fraction": self.fraction,
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
    """Return the statistics of each category: those that waste most memory first, then the largest."""
    ran_out = case(*((attempts.c.exhausted == name.value, number) for number, name in enumerate(_USED)), else_=-1)
    columns = [*(attempts.c[resource] for resource in _USED), attempts.c.requested_memory, ran_out]
    groups = columns_by_group(archive, columns, search, by=by)
    names = (*_USED, "requested", "ran out")
    found = [_category(name, dict(zip(names, table, strict=True))) for name, table in groups.items()]
    return sorted(found, key=lambda one: (-(one.waste.byte_seconds if one.waste else 0), -one.jobs, one.category))


def _category(name: str, columns: dict[str, FloatArray]) -> CategoryStats:
    exhausted = {}
    for number, resource in enumerate(_USED):
        ran_out = columns["ran out"] == number
        if ran_out.any():
            exhausted[resource] = int(ran_out.sum())
            columns[resource] = np.where(ran_out, np.nan, columns[resource])
    spreads = {resource: _spread(columns[resource]) for resource in _USED}
    waste = _waste(columns["requested"], columns[Resource.MEMORY], columns[Resource.WALL_TIME])
    known = {resource: spread for resource, spread in spreads.items() if spread is not None}
    return CategoryStats(name, len(columns["requested"]), exhausted, known, waste)


def _spread(values: FloatArray) -> ResourceStats | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    p50, p95 = np.percentile(known, (50, 95))
    largest = float(known.max())
    end = largest if largest > _LEAST else 1
    counts: Sequence[int] = np.histogram(known, bins=_BINS, range=(0, end))[0].tolist()
    return ResourceStats(len(known), float(p50), float(p95), largest, tuple(counts))


def _waste(requested: FloatArray, used: FloatArray, seconds: FloatArray) -> Waste | None:
    known = ~(np.isnan(requested) | np.isnan(used) | np.isnan(seconds))
    if not known.any():
        return None
    asked, peaks, times = requested[known], used[known], seconds[known]
    unused = np.maximum(asked - peaks, 0)
    saved = np.maximum(asked - peaks.max(), 0)
    return Waste(int(known.sum()), float(unused @ times), float(asked @ times), float(saved @ times))
