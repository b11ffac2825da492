"""Totals of what attempts were allocated and used, by category and overall, as `tonnage run` prints them at its end."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.report.attempt_table import OUTCOMES, Columns
from tonnage.report.figures.basics import FloatArray
from tonnage.waste import NOTHING_HELD, Account, shares

__all__ = ["Sums", "accounts_of", "covered"]

_FAILED = tuple(number for number, outcome in enumerate(Outcome) if outcome is not Outcome.DONE)


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals over the attempts of a category, or over all of them."""

    attempts: int
    """Attempts that have ended."""
    done: int
    failed: int
    """Attempts that did not succeed, for whatever reason."""
    retries: int
    """Attempts that were not the first of their task."""
    seconds: float
    accounts: Mapping[Resource, Account]
    """In amounts times seconds; an unknown allocation is 0."""
    sized: Mapping[Resource, float]
    """Allocations of attempts that succeeded or ran out, whose need is known: other sizes would change these."""


def accounts_of(columns: Columns, machine: Mapping[Resource, float]) -> tuple[Sums, dict[str, Sums]]:
    """Return the totals over all attempts that have ended, and over those of each category."""
    ended = ~columns.running
    chosen, many = columns.category[ended], len(columns.categories)
    done, outcome = columns.done[ended], columns.outcome[ended]
    seconds = np.nan_to_num(columns.seconds[ended])

    def by_category(weights: FloatArray | None = None) -> FloatArray:
        return np.bincount(chosen, weights, minlength=many).astype(np.float64)

    attempts = by_category()
    succeeded, failed = by_category(done.astype(np.float64)), by_category(np.isin(outcome, _FAILED).astype(np.float64))
    retries = by_category((columns.number[ended] > 1).astype(np.float64))
    times, done_times = by_category(seconds), by_category(done * seconds)
    accounts: dict[Resource, list[Account]] = {}
    sized: dict[Resource, FloatArray] = {}
    for resource in SHARED:
        held, used = columns.given[resource][ended], columns.used[resource][ended]
        known, measured = np.isfinite(held), np.isfinite(used) & done
        given, needed, unmeasured = (by_category(one) for one in shares(held, used, seconds, done))
        counted = measured & known
        if not known.any():  # then report at least what was used
            counted, needed = measured, by_category(np.where(measured, used, 0.0) * seconds)
        peaks = np.zeros(many)
        np.maximum.at(peaks, chosen[counted], used[counted])
        accounts[resource] = [
            Account(*own).compared(machine=machine.get(resource, 0.0), peak=peak, seconds=time)
            for *own, peak, time in np.column_stack((given, needed, unmeasured, peaks, done_times)).tolist()
        ]
        tried = known & (measured | (outcome == OUTCOMES[Outcome.EXHAUSTED]))
        sized[resource] = by_category(np.where(tried, held, 0.0) * seconds)
    found = [
        Sums(
            int(attempts[place]),
            int(succeeded[place]),
            int(failed[place]),
            int(retries[place]),
            float(times[place]),
            {one: own[place] for one, own in accounts.items()},
            {one: float(column[place]) for one, column in sized.items()},
        )
        for place in range(many)
    ]
    total = Sums(
        int(attempts.sum()),
        int(succeeded.sum()),
        int(failed.sum()),
        int(retries.sum()),
        float(times.sum()),
        {one: sum(own, NOTHING_HELD) for one, own in accounts.items()},
        {one: float(column.sum()) for one, column in sized.items()},
    )
    return total, dict(zip(columns.categories, found, strict=True))


def covered(columns: Columns) -> float | None:
    """Return for how long anything ran or waited in a queue; None if no times are known."""
    begin = np.where(np.isfinite(columns.submitted), columns.submitted, columns.started)
    chosen = np.isfinite(begin) & np.isfinite(columns.ended) & ~columns.running
    if not chosen.any():
        return None
    order = np.argsort(begin[chosen])
    begins, ends = begin[chosen][order], columns.ended[chosen][order]
    until = np.maximum.accumulate(ends)
    before = np.concatenate([[-np.inf], until[:-1]])
    return float(np.maximum(0.0, ends - np.maximum(begins, before)).sum())
