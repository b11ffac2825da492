"""The first allocations of Tovar et al.: one amount to try first, and the largest for what exceeds it.

Each equation is one vector over the peaks that were seen: what the whole history costs when that peak is tried first.
"min. waste" in the paper's figures is Equation 2; Equation 1 knows how long jobs of each peak run, and is true waste.
"""

from dataclasses import dataclass

import numpy as np

from tonnage.size.histograms import FloatArray, Histogram
from tonnage.size.ladders import Ladder, cost, of_rungs

__all__ = [
    "brute_force_throughput",
    "brute_force_waste",
    "max_throughput",
    "max_throughput_slots",
    "min_waste",
    "min_waste_independent",
    "min_waste_slots",
    "throughput",
]


def min_waste(histogram: Histogram) -> Ladder:
    """Waste as little as possible with one retry (Equation 1)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _waste(tries))


def min_waste_independent(histogram: Histogram) -> Ladder:
    """Waste as little as possible if peaks and run times have nothing to do with each other (Equation 2)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _waste_independent(tries))


def min_waste_slots(histogram: Histogram) -> Ladder:
    """Waste as little as possible where only whole jobs fit beside each other: shares of the largest amount."""
    tries = _Tries.of_shares(histogram)
    return _least(tries, _waste(tries))


def max_throughput(histogram: Histogram) -> Ladder:
    """Finish as many jobs as possible for the resources that are used (Equation 3)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _seconds_a_job(tries, histogram.largest / tries.amounts))


def max_throughput_slots(histogram: Histogram) -> Ladder:
    """Finish as many jobs as possible where only whole jobs fit beside each other (section 3.4.4)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _seconds_a_job(tries, _slots(histogram.largest, tries.amounts)))


def brute_force_waste(histogram: Histogram) -> Ladder:
    """Try every peak as the first allocation, and take what wastes least."""
    histogram = histogram.timed()
    tried = [of_rungs(peak, histogram.largest) for peak in histogram.peaks]
    return min(tried, key=lambda ladder: cost(ladder, histogram).paid)


def brute_force_throughput(histogram: Histogram) -> Ladder:
    """Try every peak as the first allocation, and take what finishes most jobs."""
    histogram = histogram.timed()
    tried = [of_rungs(peak, histogram.largest) for peak in histogram.peaks]
    return max(tried, key=lambda ladder: throughput(ladder[0], histogram))


def throughput(first: float, histogram: Histogram) -> float:
    """Return the jobs that finish in a second on the largest amount, if all are tried with `first` before it."""
    fits = histogram.peaks <= first
    finished = histogram.largest / first * histogram.jobs[fits].sum() + histogram.jobs[~fits].sum()
    seconds = histogram.seconds[fits].sum() + 2 * histogram.seconds[~fits].sum()
    return float(finished / seconds) if seconds else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Tries:
    """First allocations to choose from, and what is beyond each of them."""

    histogram: Histogram
    amounts: FloatArray
    late_jobs: FloatArray
    """How many jobs need more."""
    late_seconds: FloatArray
    """How long those run."""

    @classmethod
    def of_peaks(cls, histogram: Histogram) -> "_Tries":
        histogram = histogram.timed()
        jobs, seconds = (total - np.cumsum(part) for part, total in _totals(histogram))
        positive = histogram.peaks > 0  # nobody can be given nothing
        if positive.all():
            return cls(histogram, histogram.peaks, jobs, seconds)
        return cls(histogram, histogram.peaks[positive], jobs[positive], seconds[positive])

    @classmethod
    def of_shares(cls, histogram: Histogram) -> "_Tries":
        """Try what each peak really takes where the largest amount is divided into equal parts.

        So nothing between a half and the whole is ever tried, and all that is tried divides the whole.
        """
        histogram = histogram.timed()
        peaks = histogram.peaks[histogram.peaks > 0]
        shares = np.unique(histogram.largest / _slots(histogram.largest, peaks))
        fits = np.searchsorted(histogram.peaks, shares * (1 + 1e-12), side="right")
        jobs, seconds = (total - np.append(0.0, np.cumsum(part))[fits] for part, total in _totals(histogram))
        return cls(histogram, shares, jobs, seconds)


def _totals(histogram: Histogram) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
    jobs, seconds = histogram.jobs, histogram.seconds
    return (jobs, float(jobs.sum())), (seconds, float(seconds.sum()))


def _least(tries: _Tries, objective: FloatArray) -> Ladder:
    """Return the first allocation with the least objective, and the largest amount behind it."""
    largest = tries.histogram.largest
    if not len(tries.amounts):
        return of_rungs(largest)
    # Of equally good ones the largest: fewer jobs are retried.
    best = np.flatnonzero(objective <= objective.min() * (1 + 1e-12))[-1]
    return of_rungs(tries.amounts[best], largest)


def _waste(tries: _Tries) -> FloatArray:
    paid: FloatArray = tries.amounts * tries.histogram.seconds.sum() + tries.histogram.largest * tries.late_seconds
    return paid


def _waste_independent(tries: _Tries) -> FloatArray:
    paid: FloatArray = tries.amounts * tries.histogram.jobs.sum() + tries.histogram.largest * tries.late_jobs
    return paid


def _seconds_a_job(tries: _Tries, beside: FloatArray) -> FloatArray:
    """Return the time that a job takes where `beside` jobs run at once, unless they need the largest amount."""
    busy = tries.histogram.seconds.sum() + tries.late_seconds
    spent: FloatArray = busy / (beside * (tries.histogram.jobs.sum() - tries.late_jobs) + tries.late_jobs)
    return spent


def _slots(largest: float, amounts: FloatArray) -> FloatArray:
    """Return how many jobs of each amount fit into the largest; 3 times 0.1 fit into 0.3."""
    return np.maximum(np.floor(largest / amounts * (1 + 1e-12)), 1.0)
