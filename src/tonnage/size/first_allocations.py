"""The first allocations of Tovar et al.: one amount to try first, and the largest for what exceeds it.

Each equation is one vector over the peaks that were seen: what the whole history costs when that peak is tried first.
"min. waste" in the paper's figures is Equation 2; Equation 1 knows how long jobs of each peak run, and is true waste.
"""

from collections.abc import Callable

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
    return _least(histogram, histogram.peaks, _waste)


def min_waste_independent(histogram: Histogram) -> Ladder:
    """Waste as little as possible if peaks and run times have nothing to do with each other (Equation 2)."""
    return _least(histogram, histogram.peaks, _waste_independent)


def min_waste_slots(histogram: Histogram) -> Ladder:
    """Waste as little as possible where only whole jobs fit beside each other: shares of the largest amount."""
    return _least(histogram, _shares(histogram), _waste)


def max_throughput(histogram: Histogram) -> Ladder:
    """Finish as many jobs as possible for the resources that are used (Equation 3)."""
    return _least(histogram, histogram.peaks, _slowness)


def max_throughput_slots(histogram: Histogram) -> Ladder:
    """Finish as many jobs as possible where only whole jobs fit beside each other (section 3.4.4)."""
    return _least(histogram, histogram.peaks, _slowness_in_slots)


def brute_force_waste(histogram: Histogram) -> Ladder:
    """Try every peak as the first allocation, and take what wastes least."""
    tried = [of_rungs(peak, histogram.largest) for peak in histogram.peaks]
    return min(tried, key=lambda ladder: cost(ladder, histogram).paid)


def brute_force_throughput(histogram: Histogram) -> Ladder:
    """Try every peak as the first allocation, and take what finishes most jobs."""
    tried = [of_rungs(peak, histogram.largest) for peak in histogram.peaks]
    return max(tried, key=lambda ladder: throughput(ladder[0], histogram))


def throughput(first: float, histogram: Histogram) -> float:
    """Return the jobs that finish in a second on the largest amount, if all are tried with `first` before it."""
    fits = histogram.peaks <= first
    finished = histogram.largest / first * histogram.jobs[fits].sum() + histogram.jobs[~fits].sum()
    seconds = histogram.seconds[fits].sum() + 2 * histogram.seconds[~fits].sum()
    return float(finished / seconds) if seconds else 0.0


def _least(
    histogram: Histogram, candidates: FloatArray, objective: Callable[[Histogram, FloatArray], FloatArray]
) -> Ladder:
    """Return the first allocation with the least objective, and the largest amount behind it."""
    candidates = candidates[candidates > 0]  # nobody can be given nothing
    if not len(candidates):
        return of_rungs(histogram.largest)
    first = candidates[np.argmin(objective(histogram, candidates))]
    return of_rungs(first, histogram.largest)


def _beyond(histogram: Histogram, amounts: FloatArray, weights: FloatArray) -> FloatArray:
    """Return for each amount how much weight the jobs have that need more."""
    reached = np.concatenate(([0.0], np.cumsum(weights)))
    late: FloatArray = reached[-1] - reached[np.searchsorted(histogram.peaks, amounts, side="right")]
    return np.maximum(late, 0.0)


def _waste(histogram: Histogram, amounts: FloatArray) -> FloatArray:
    waste: FloatArray = amounts * histogram.seconds.sum()
    return waste + histogram.largest * _beyond(histogram, amounts, histogram.seconds)


def _waste_independent(histogram: Histogram, amounts: FloatArray) -> FloatArray:
    waste: FloatArray = amounts * histogram.jobs.sum()
    return waste + histogram.largest * _beyond(histogram, amounts, histogram.jobs)


def _slowness(histogram: Histogram, amounts: FloatArray) -> FloatArray:
    return _seconds_a_job(histogram, amounts, histogram.largest / amounts)


def _slowness_in_slots(histogram: Histogram, amounts: FloatArray) -> FloatArray:
    return _seconds_a_job(histogram, amounts, _slots(histogram.largest, amounts))


def _seconds_a_job(histogram: Histogram, amounts: FloatArray, beside: FloatArray) -> FloatArray:
    """Return the time that a job takes where `beside` jobs run at once, unless they need the largest amount."""
    jobs, seconds = histogram.jobs.sum(), histogram.seconds.sum()
    late = _beyond(histogram, amounts, histogram.jobs)
    busy = seconds + _beyond(histogram, amounts, histogram.seconds)
    spent: FloatArray = busy / (beside * (jobs - late) + late)
    return spent


def _slots(largest: float, amounts: FloatArray) -> FloatArray:
    """Return how many jobs of each amount fit into the largest; 3 times 0.1 fit into 0.3."""
    return np.maximum(np.floor(largest / amounts * (1 + 1e-12)), 1.0)


def _shares(histogram: Histogram) -> FloatArray:
    """Return what each peak really takes where the largest amount is divided into equal parts.

    So nothing between a half and the whole is ever tried, and all that is tried divides the whole.
    """
    peaks = histogram.peaks[histogram.peaks > 0]
    shares: FloatArray = np.unique(histogram.largest / _slots(histogram.largest, peaks))
    return shares
