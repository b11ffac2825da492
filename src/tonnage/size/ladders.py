"""Ladders: the amounts that a job is tried with, one after the other, and what it costs to climb them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.size.histograms import FloatArray, Histogram

__all__ = [
    "Cost",
    "DoesNotFitError",
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
"""Strictly increasing amounts; the last is the most that a job may get."""

_LEAST = 1.0  # byte, core or second: no job can be given nothing
_TINY = 1e-9
_SAME = 1e-9  # amounts that differ by such a part only differ by rounding


class DoesNotFitError(InputError):
    """A job needs more than there is anywhere."""

    def __init__(self, most: float) -> None:
        super().__init__(f"a job needs more than the {most:g} that it can get at most")
        self.most = most


@dataclass(frozen=True, slots=True)
class Cost:
    """What some jobs would pay for on a ladder, in amounts times seconds.

    It counts jobs of known peaks before they run, not attempts that ended as `tonnage.waste` does.
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
        """What was paid for and not used."""
        return self.paid - self.used

    @property
    def waste_fraction(self) -> float:
        """The part of what was paid for that was not used."""
        return max(0.0, self.waste / self.paid) if self.paid else 0.0  # sums of floats may miss 0 by a little

    @property
    def retried_fraction(self) -> float:
        """The part of the jobs that needed more than one attempt."""
        return self.retried / self.jobs if self.jobs else 0.0


def climbing(ladder: Ladder, peaks: FloatArray) -> NDArray[np.intp]:
    """Return how many attempts of each job fail on a ladder."""
    failed = np.searchsorted(np.asarray(ladder), peaks)
    if failed.max(initial=0) == len(ladder):
        raise DoesNotFitError(ladder[-1])
    return failed


def cost(ladder: Ladder, histogram: Histogram) -> Cost:
    """Return what it would have cost to run these jobs on a ladder.

    Peaks are slow: an attempt that fails lasts as long as the job, and is paid for in full.
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
    """Return which rung of each resource comes next, when some were exhausted: only those grow, or with `grow_all` all.

    Raises DoesNotFitError where no more of the exhausted resource can be given.
    """
    grown_rungs = []
    for rung, ladder, ran_out in zip(rungs, ladders, exhausted, strict=True):
        last = rung + 1 == len(ladder)
        if last and ran_out:
            raise DoesNotFitError(ladder[rung])
        grown_rungs.append(rung + 1 if not last and (grow_all or ran_out) else rung)
    return grown_rungs


def positive(amount: float) -> float:
    """Return an amount that can be given: at least 1 byte, core or second."""
    return amount if amount > 0 else _LEAST


def of_rungs(*rungs: float) -> Ladder:
    """Return a ladder of some amounts in any order, the same only once, and none of nothing."""
    positive = sorted({float(rung) for rung in rungs if rung > 0})
    return tuple(positive) or (_LEAST,)


def escalated(rungs: Ladder, capacity: float, growth: float) -> Ladder:
    """Return a ladder that goes on to `capacity`, each step beyond its last rung `growth` times the one before."""
    kept = [rung for rung in rungs if rung < capacity]
    step = rungs[-1] * growth
    while step < capacity * (1 - _SAME) and rungs[-1] < capacity:
        kept.append(step)
        step *= growth
    return (*kept, capacity)


def stretched(growth: float, largest: float, capacity: float, steps: float) -> float:
    """Return a growth that leads from the largest peak to `capacity` in at most `steps` steps."""
    return max(growth, float((capacity / max(largest, _TINY)) ** (1 / steps)))
