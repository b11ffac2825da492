"""Strategies that consist of a single rule; strategies.py lists them by name.

- The simple ones: the largest peak, a percentile.
- The first allocations of Tovar et al.: one amount to try first, and the largest for jobs that exceed it. Each equation
  is one vector over the observed peaks: what the whole history costs if that peak is tried first. "min. waste" in the
  paper's figures is Equation 2; Equation 1 takes into account how long jobs of each peak run, and is true waste.
- The bucketing strategies of Phung et al.: one rung for each of n buckets of past jobs.
"""

from array import array
from dataclasses import dataclass
from math import inf, nan

import numpy as np

from tonnage.errors import InputError
from tonnage.size.checks import checked
from tonnage.size.costs import cost
from tonnage.size.histograms import FloatArray, Histogram
from tonnage.size.ladders import Ladder, escalated, of_rungs, positive, stretched

__all__ = [
    "KMeans",
    "brute_force_throughput",
    "brute_force_waste",
    "max_seen",
    "max_throughput",
    "max_throughput_slots",
    "min_waste",
    "min_waste_independent",
    "min_waste_slots",
    "percentile",
    "quantized",
    "throughput",
]


def max_seen(histogram: Histogram, *, margin: float = 0.0) -> Ladder:
    """Give the largest observed peak plus a margin."""
    return of_rungs(histogram.peaks[-1] * (1 + margin), max(histogram.largest, histogram.peaks[-1] * (1 + margin)))


def percentile(histogram: Histogram, *, share: float = 0.95) -> Ladder:
    """Give what is enough for a share of the jobs, then the largest observed peak."""
    if not 0 < share <= 1:
        raise InputError(f"a share of the jobs must be above 0 and at most 1, not {share:g}")
    reached = np.cumsum(histogram.jobs)
    # A sum of weights can miss the share by a rounding error: the next bucket would then be one too many.
    place = int(np.searchsorted(reached, share * reached[-1] * (1 - 1e-12)))
    return of_rungs(histogram.peaks[place], histogram.largest)


def min_waste(histogram: Histogram) -> Ladder:
    """Waste as little as possible with one retry (Equation 1)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _waste(tries))


def min_waste_independent(histogram: Histogram) -> Ladder:
    """Waste as little as possible if peaks and run times are independent (Equation 2)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _waste_independent(tries))


def min_waste_slots(histogram: Histogram) -> Ladder:
    """Waste as little as possible if the largest amount is divided into equal slots, one per job."""
    tries = _Tries.of_shares(histogram)
    return _least(tries, _waste(tries))


def max_throughput(histogram: Histogram) -> Ladder:
    """Finish as many jobs as possible with the given resources (Equation 3)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _seconds_a_job(tries, histogram.largest / tries.amounts))


def max_throughput_slots(histogram: Histogram) -> Ladder:
    """Finish as many jobs as possible if only a whole number of jobs runs at once (section 3.4.4)."""
    tries = _Tries.of_peaks(histogram)
    return _least(tries, _seconds_a_job(tries, _slots(histogram.largest, tries.amounts)))


def brute_force_waste(histogram: Histogram) -> Ladder:
    """Try every peak as the first allocation, and choose the one that wastes least."""
    histogram = histogram.timed()
    tried = [of_rungs(peak, histogram.largest) for peak in histogram.peaks]
    return min(tried, key=lambda ladder: cost(ladder, histogram).paid)


def brute_force_throughput(histogram: Histogram) -> Ladder:
    """Try every peak as the first allocation, and choose the one that finishes most jobs."""
    histogram = histogram.timed()
    tried = [of_rungs(peak, histogram.largest) for peak in histogram.peaks]
    return max(tried, key=lambda ladder: throughput(ladder[0], histogram))


def throughput(first: float, histogram: Histogram) -> float:
    """Return the jobs that finish per second on the largest amount, if all are tried with `first` before it."""
    fits = histogram.peaks <= first
    finished = histogram.largest / first * histogram.jobs[fits].sum() + histogram.jobs[~fits].sum()
    seconds = histogram.seconds[fits].sum() + 2 * histogram.seconds[~fits].sum()
    return float(finished / seconds) if seconds else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Tries:
    """First allocations to choose from, and the jobs that exceed each of them."""

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
        positive = histogram.peaks > 0  # a job cannot be given 0
        if positive.all():
            return cls(histogram, histogram.peaks, jobs, seconds)
        return cls(histogram, histogram.peaks[positive], jobs[positive], seconds[positive])

    @classmethod
    def of_shares(cls, histogram: Histogram) -> "_Tries":
        """Try the share that each peak occupies if the largest amount is divided into equal parts.

        Nothing between a half and the whole is ever tried, and every amount tried divides the whole.
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
    """Return the first allocation with the lowest objective, followed by the largest amount."""
    largest = tries.histogram.largest
    if not len(tries.amounts):
        return of_rungs(largest)
    # Among equally good ones take the largest: fewer jobs are retried.
    best = np.flatnonzero(objective <= objective.min() * (1 + 1e-12))[-1]
    return of_rungs(tries.amounts[best], largest)


def _waste(tries: _Tries) -> FloatArray:
    paid: FloatArray = tries.amounts * tries.histogram.seconds.sum() + tries.histogram.largest * tries.late_seconds
    return paid


def _waste_independent(tries: _Tries) -> FloatArray:
    paid: FloatArray = tries.amounts * tries.histogram.jobs.sum() + tries.histogram.largest * tries.late_jobs
    return paid


def _seconds_a_job(tries: _Tries, beside: FloatArray) -> FloatArray:
    """Return the time per job if `beside` jobs run at once, except those that need the largest amount."""
    busy = tries.histogram.seconds.sum() + tries.late_seconds
    spent: FloatArray = busy / (beside * (tries.histogram.jobs.sum() - tries.late_jobs) + tries.late_jobs)
    return spent


def _slots(largest: float, amounts: FloatArray) -> FloatArray:
    """Return how many jobs of each amount fit into the largest, tolerating rounding: 0.1 fits into 0.3 three times."""
    return np.maximum(np.floor(largest / amounts * (1 + 1e-12)), 1.0)


_MOST_BUCKETS = 1000


def quantized(histogram: Histogram, *, buckets: int, aligned: bool = False) -> Ladder:
    """Divide the past jobs evenly into buckets; a rung is the largest peak of a bucket.

    With `aligned`, buckets that end at the same peak are still one rung each, as needed if all resources climb
    together.
    """
    counts = np.cumsum(histogram.jobs)
    last = counts[-1] - 1
    ends = np.floor((np.arange(buckets) + 1) * last / _possible(buckets))
    rungs = histogram.peaks[np.searchsorted(counts, ends, side="right").clip(max=len(histogram) - 1)]
    return tuple(map(positive, rungs.tolist())) if aligned else of_rungs(*rungs)


class KMeans:
    """Divides the past jobs into buckets around their means; a rung is the largest peak of a bucket.

    The buckets start out even. With each new job, every past job is moved from the first bucket onwards for as long as
    the mean of the next one is nearer; with `patience`, only once the number of jobs has grown by that fraction. An
    empty bucket counts as if its only job had the largest peak of the previous one.
    """

    def __init__(
        self,
        capacity: float,
        *,
        buckets: int,
        growth: float = 2.0,
        steps: float = inf,
        patience: float = 0.0,
        aligned: bool = False,
    ) -> None:
        self._aligned = aligned
        self._capacity = capacity
        self._number = _possible(buckets)
        self._growth = growth
        self._steps = steps
        self._patience = patience
        self._peaks = array("d")
        self._largest = 0.0
        self._buckets: list[FloatArray] = []
        self._answer: Ladder = (capacity,)
        self._swept = 0
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:  # noqa: ARG002
        """Learn from a finished job."""
        self._peaks.append(checked(peak, seconds)[0])
        self._largest = max(self._largest, peak)
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:  # noqa: ARG002
        """Return the amounts to try for the next job."""
        if self.samples > self._swept * (1 + self._patience):
            self._sweep()
            rungs = tuple(positive(float(bucket.max())) for bucket in self._buckets)
            growth = stretched(self._growth, self._largest, self._capacity, self._steps)
            self._answer = escalated(rungs if self._aligned else of_rungs(*rungs), self._capacity, growth)
        return self._answer

    def _sweep(self) -> None:
        self._swept = self.samples
        peaks = np.sort(self._peaks)
        if not self._buckets:
            ends = ((np.arange(self._number) + 1) * (len(peaks) - 1)) // self._number + 1
            self._buckets = _filled(np.split(peaks, ends[:-1]), float(peaks[0]))
        means = np.array([bucket.mean() for bucket in self._buckets])
        distance = np.abs(peaks[:, None] - means[None, :])
        goes_on = distance[:, :-1] > distance[:, 1:]
        goes_on[peaks <= means[0], :1] = False
        places = np.cumprod(goes_on, axis=1).sum(axis=1)
        self._buckets = _filled([peaks[places == place] for place in range(self._number)], float(peaks[0]))


def _filled(buckets: list[FloatArray], smallest: float) -> list[FloatArray]:
    """Fill empty buckets with the largest peak of the previous one."""
    filled: list[FloatArray] = []
    for bucket in buckets:
        below = filled[-1].max() if filled else smallest
        filled.append(bucket if len(bucket) else np.array([below]))
    return filled


def _possible(buckets: int) -> int:
    """Return a number of buckets, or raise InputError if it is out of range."""
    if not 1 <= buckets <= _MOST_BUCKETS:
        raise InputError(f"{buckets} is not a possible number of buckets", hint=f"use 1 to {_MOST_BUCKETS:,}")
    return buckets
