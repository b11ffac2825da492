"""What attempts were given and used, by category and in all: what `tonnage run` prints at its end, for any source."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tonnage.jobs import Outcome, Resource
from tonnage.report.figures.basics import FloatArray
from tonnage.report.material import Material
from tonnage.run.machines import SHARED
from tonnage.run.summary import Account

__all__ = ["Sums", "accounts_of", "covered"]

_FAILED = tuple(number for number, outcome in enumerate(Outcome) if outcome is not Outcome.DONE)


@dataclass(frozen=True, slots=True)
class Sums:
    """What the attempts of a category, or all of them, add up to."""

    attempts: int
    """Those that have ended."""
    done: int
    failed: int
    """Attempts that did not succeed, for whatever reason."""
    again: int
    """Attempts that were not the first of their task."""
    seconds: float
    accounts: Mapping[Resource, Account]
    """In amounts times seconds; what was given is 0 where nobody knows it."""


def accounts_of(material: Material, machine: Mapping[Resource, float]) -> tuple[Sums, dict[str, Sums]]:
    """Return what all attempts that have ended add up to, and those of each category."""
    ended = ~material.running
    chosen, many = material.category[ended], len(material.categories)
    done, outcome = material.done[ended], material.outcome[ended]
    seconds = np.nan_to_num(material.seconds[ended])

    def by_category(weights: FloatArray | None = None) -> FloatArray:
        return np.bincount(chosen, weights, minlength=many).astype(np.float64)

    attempts = by_category()
    succeeded, failed = by_category(done.astype(np.float64)), by_category(np.isin(outcome, _FAILED).astype(np.float64))
    again = by_category((material.number[ended] > 1).astype(np.float64))
    times, done_times = by_category(seconds), by_category(done * seconds)
    tables = {}
    for resource in SHARED:
        given, used = material.given[resource][ended], material.used[resource][ended]
        known, measured = np.isfinite(given), np.isfinite(used) & done
        counted = measured & known if known.any() else measured
        peaks = np.zeros(many)
        np.maximum.at(peaks, chosen[counted], used[counted])
        tables[resource] = (
            by_category(np.where(known, given, 0.0) * seconds),
            by_category(np.where(counted, used, 0.0) * seconds),
            machine.get(resource, 0.0) * done_times,
            peaks * done_times,
            by_category(np.where(known & done & ~measured, given, 0.0) * seconds),
        )
    found = [
        Sums(
            int(attempts[place]),
            int(succeeded[place]),
            int(failed[place]),
            int(again[place]),
            float(times[place]),
            {one: Account(*(float(column[place]) for column in table)) for one, table in tables.items()},
        )
        for place in range(many)
    ]
    total = Sums(
        int(attempts.sum()),
        int(succeeded.sum()),
        int(failed.sum()),
        int(again.sum()),
        float(times.sum()),
        {one: Account(*(float(column.sum()) for column in table)) for one, table in tables.items()},
    )
    return total, dict(zip(material.categories, found, strict=True))


def covered(material: Material) -> float | None:
    """Return for how long something ran, or waited in a queue; None where nobody knows when anything ran."""
    begin = np.where(np.isfinite(material.submitted), material.submitted, material.started)
    chosen = np.isfinite(begin) & np.isfinite(material.ended) & ~material.running
    if not chosen.any():
        return None
    order = np.argsort(begin[chosen])
    begins, ends = begin[chosen][order], material.ended[chosen][order]
    until = np.maximum.accumulate(ends)
    before = np.concatenate([[-np.inf], until[:-1]])
    return float(np.maximum(0.0, ends - np.maximum(begins, before)).sum())
