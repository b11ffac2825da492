"""Ladders: the amounts to try for a job, one after the other, and what climbing them costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import DoesNotFitError
from tonnage.size.histograms import FloatArray, Histogram

__all__ = [
    "Cost",
    "Ladder",
    "climbing",
    "cost",
    "escalated",
    "grown",
    "of_rungs",
    "positive",
    "stretched",
]

Ladder: TypeAlias = tuple[float, ...]
"""Strictly increasing amounts; the last is the most that a job can get."""

_LEAST = 1.0  # byte, core or second: a job cannot be given 0
_TINY = 1e-9
_SAME = 1e-9  # a smaller relative difference between amounts is only rounding


@dataclass(frozen=True, slots=True)
class Cost:
    """What jobs would pay for on a ladder, in amounts times seconds.

    It is computed from known peaks before jobs run, whereas `tonnage.waste` accounts for attempts that have run.
    """

    paid: float
    used: float
    jobs: float
    retried: float
    """How many jobs needed more than one attempt."""
    failures: float
    """How many attempts failed."""

    @property
    def waste(self) -> float:
        """What was paid for but not used."""
        return self.paid - self.used

    @property
    def waste_fraction(self) -> float:
        """The fraction of what was paid for that was not used."""
        return max(0.0, self.waste / self.paid) if self.paid else 0.0  # rounding can make sums slightly negative

    @property
    def retried_fraction(self) -> float:
        """The fraction of the jobs that needed more than one attempt."""
        return self.retried / self.jobs if self.jobs else 0.0


def climbing(ladder: Ladder, peaks: FloatArray) -> NDArray[np.intp]:
    """Return how many attempts of each job fail on a ladder."""
    failed = np.searchsorted(np.asarray(ladder), peaks)
    if failed.max(initial=0) == len(ladder):
        raise DoesNotFitError(ladder[-1])
    return failed


def cost(ladder: Ladder, histogram: Histogram) -> Cost:
    """Return what it would have cost to run these jobs on a ladder.

    Peaks are assumed to come late: a failed attempt lasts as long as the job, and is paid for in full.
    """
    failed = climbing(ladder, histogram.peaks)
    paid = np.cumsum(ladder)[failed] * histogram.seconds
    return Cost(
        paid=float(paid.sum()),
        used=float(histogram.used.sum()),
        jobs=float(histogram.jobs.sum()),
        retried=float(histogram.jobs[failed > 0].sum()),
        failures=float((histogram.jobs * failed).sum()),
    )


def grown(
    rungs: Sequence[int], ladders: Sequence[Ladder], exhausted: Sequence[bool], *, grow_all: bool = False
) -> list[int]:
    """Return the next rung of each resource: only exhausted resources grow, or with `grow_all` all of them.

    Raises DoesNotFitError if an exhausted resource is at its last rung.
    """
    grown_rungs = []
    for rung, ladder, ran_out in zip(rungs, ladders, exhausted, strict=True):
        last = rung + 1 == len(ladder)
        if last and ran_out:
            raise DoesNotFitError(ladder[rung])
        grown_rungs.append(rung + 1 if not last and (grow_all or ran_out) else rung)
    return grown_rungs


def positive(amount: float) -> float:
    """Return an amount, with 1 byte, core or second in place of 0 or less."""
    return amount if amount > 0 else _LEAST


def of_rungs(*rungs: float) -> Ladder:
    """Build a ladder of amounts in any order; duplicates and amounts that are not positive are dropped."""
    positive = sorted({float(rung) for rung in rungs if rung > 0})
    return tuple(positive) or (_LEAST,)


def escalated(rungs: Ladder, capacity: float, growth: float) -> Ladder:
    """Extend a ladder to `capacity`, each step beyond its last rung `growth` times the previous one."""
    kept = [rung for rung in rungs if rung < capacity]
    step = rungs[-1] * growth
    while step < capacity * (1 - _SAME) and rungs[-1] < capacity:
        kept.append(step)
        step *= growth
    return (*kept, capacity)


def stretched(growth: float, largest: float, capacity: float, steps: float) -> float:
    """Return a growth factor that leads from the largest peak to `capacity` in at most `steps` steps."""
    return max(growth, float((capacity / max(largest, _TINY)) ** (1 / steps)))
