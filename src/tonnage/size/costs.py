"""What climbing a ladder costs, computed from known peaks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import DoesNotFitError
from tonnage.size.histograms import FloatArray, Histogram
from tonnage.size.ladders import Ladder

__all__ = ["Cost", "climbing", "cost"]


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
