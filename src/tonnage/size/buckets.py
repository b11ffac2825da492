"""The bucketing strategies of Phung et al.: one rung for each of n buckets of past jobs."""

from array import array
from math import inf, nan

import numpy as np

from tonnage.errors import InputError
from tonnage.size.histograms import FloatArray, Histogram, checked
from tonnage.size.ladders import Ladder, escalated, of_rungs, positive, stretched

__all__ = ["KMeans", "quantized"]

_MOST = 1000


def quantized(histogram: Histogram, *, buckets: int, aligned: bool = False) -> Ladder:
    """Divide the past jobs evenly into buckets; a rung is the largest peak of a bucket.

    With `aligned`, buckets that end alike are still a rung each, as is right where all resources climb together.
    """
    counts = np.cumsum(histogram.jobs)
    last = counts[-1] - 1
    ends = np.floor((np.arange(buckets) + 1) * last / possible(buckets))
    rungs = histogram.peaks[np.searchsorted(counts, ends, side="right").clip(max=len(histogram) - 1)]
    return tuple(map(positive, rungs.tolist())) if aligned else of_rungs(*rungs)


class KMeans:
    """Divides the past jobs into buckets around their means; a rung is the largest peak of a bucket.

    The buckets start out even. With each job, every past one goes through the buckets from the first on, as long as the
    next one's mean is nearer; with `patience` only when the jobs are more by that part. A bucket that nobody is left in
    counts as if its only job had the largest peak of the one before.
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
        self._number = possible(buckets)
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
        """Take in a job that finished."""
        self._peaks.append(checked(peak, seconds)[0])
        self._largest = max(self._largest, peak)
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:  # noqa: ARG002
        """Return what the next job is to be tried with."""
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
    """Return buckets of which none is empty."""
    filled: list[FloatArray] = []
    for bucket in buckets:
        below = filled[-1].max() if filled else smallest
        filled.append(bucket if len(bucket) else np.array([below]))
    return filled


def possible(buckets: int) -> int:
    """Return a number of buckets that is possible; raises InputError."""
    if not 1 <= buckets <= _MOST:
        raise InputError(f"there cannot be {buckets} buckets", hint=f"1 to {_MOST:,}")
    return buckets
