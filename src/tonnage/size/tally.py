"""A tally: the histogram of a category's jobs while it grows; plain Python, so that the first jobs load nothing."""

from math import ceil, inf, log2
from typing import TYPE_CHECKING

from tonnage.size.checks import check_half_life, checked

if TYPE_CHECKING:
    from tonnage.size.histograms import Histogram

__all__ = ["HALF_LIVES", "Tally"]

_MOST_BUCKETS = 4096
HALF_LIVES = 8
"""After this many half-lives, a job is forgotten."""
_HEAVY = 2.0**100


class Tally:
    """A histogram that grows job by job in bounded memory."""

    def __init__(self, *, width: float = 0.0, half_life: float | None = None) -> None:
        """Start with no jobs.

        Peaks are rounded up to a multiple of `width`; with 0 they are kept exactly until there are too many. With a
        `half_life`, a job counts half as much after that many others: for workloads that change over time.
        """
        check_half_life(half_life)
        self._width = width
        self._growth = 2.0 ** (1 / half_life) if half_life else 1.0
        self._forgotten_after = half_life * HALF_LIVES if half_life else inf
        self._weight = 1.0  # of the next job: earlier ones count less and less
        self._buckets: dict[float, list[float]] = {}
        self.jobs = 0
        self.largest = 0.0

    def observe(self, peak: float, seconds: float) -> None:
        """Add a job."""
        peak, seconds = checked(peak, seconds)
        key = ceil(peak / self._width) if self._width else peak
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = [0.0, 0.0, 0.0, 0.0, 0.0]
        weight = self._weight
        bucket[0] += weight
        bucket[1] += weight * seconds
        bucket[2] += weight * seconds * peak
        if peak > bucket[3]:  # noqa: PLR1730 (runs for every job, and a call takes longer)
            bucket[3] = peak
        self.jobs += 1
        bucket[4] = self.jobs  # the newest in it
        if peak > self.largest:  # noqa: PLR1730
            self.largest = peak
        if self._growth != 1.0:
            self._age()
        if len(self._buckets) > _MOST_BUCKETS:
            self._widen()

    def histogram(self) -> "Histogram":
        """Return the histogram of all jobs so far."""
        import numpy as np

        from tonnage.size.histograms import Histogram

        if self._growth != 1.0:
            self._forget()
        kept = sorted(self._buckets.items())
        table = np.array([bucket for _, bucket in kept]).reshape(-1, 5).T
        peaks = np.array([key for key, _ in kept])
        if self._width:
            peaks = np.minimum(peaks * self._width, self.largest)
        weight = self._weight / self._growth  # scales the weight of the newest job to 1
        return Histogram(peaks, table[0] / weight, table[1] / weight, table[2] / weight, self.largest)

    def _age(self) -> None:
        self._weight *= self._growth
        if self._weight < _HEAVY:
            return
        for bucket in self._buckets.values():
            for place in range(3):
                bucket[place] /= self._weight
        self._weight = 1.0

    def _forget(self) -> None:
        """Drop buckets in which all jobs are old, possibly including the one with the largest peak."""
        since = self.jobs - self._forgotten_after
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket[4] > since}
        self.largest = max((bucket[3] for bucket in self._buckets.values()), default=0.0)

    def _widen(self) -> None:
        """Merge neighbouring buckets until at most half as many remain."""
        buckets, old = self._buckets, self._width
        width = 2 * old or 2.0 ** ceil(log2(self.largest / _MOST_BUCKETS)) * 2
        self._width, self._buckets = width, {}
        for key, bucket in buckets.items():
            peak = key * old if old else key
            merged = self._buckets.setdefault(ceil(peak / width), [0.0, 0.0, 0.0, 0.0, 0.0])
            for place in range(3):
                merged[place] += bucket[place]
            for place in (3, 4):
                merged[place] = max(merged[place], bucket[place])
