"""Histograms of peaks: all that most strategies need to know about past jobs, however many there were."""

from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError

__all__ = ["ABSURD", "HALF_LIVES", "FloatArray", "Histogram", "Tally", "check_half_life", "checked", "fading"]

FloatArray: TypeAlias = NDArray[np.float64]

_MOST_BUCKETS = 4096
HALF_LIVES = 8
"""After this many half-lives, a job is forgotten."""
_HEAVY = 2.0**100
ABSURD = 1e30
"""No real amount, time or size is this large; values smaller than its inverse count as 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How many jobs had which peak of a resource, and how long they ran.

    All arrays have one number per bucket, ordered by peak. A bucket stands for the highest peak in it.
    """

    peaks: FloatArray
    jobs: FloatArray
    seconds: FloatArray
    """The total run time of a bucket's jobs."""
    used: FloatArray
    """The sum of peak times run time over a bucket's jobs: exact, whatever the bucket's width."""
    largest: float
    """What a job is given after exceeding everything else: the largest peak, or more."""

    @classmethod
    def of(
        cls, peaks: FloatArray, seconds: FloatArray, *, width: float = 0.0, weights: FloatArray | None = None
    ) -> "Histogram":
        """Build the histogram of jobs; a bucket is `width` wide, or with 0 holds a single peak.

        `weights` are the weights of the jobs, if they differ.
        """
        for values in (peaks, seconds):
            wrong = ~((values >= 0) & (values < ABSURD))
            if wrong.any():
                raise _not_an_amount(float(values[wrong][0]))
        if not len(peaks):
            empty = np.empty(0)
            return cls(empty, empty, empty, empty, 0.0)
        largest = float(peaks.max())
        rounded = np.minimum(np.ceil(peaks / width) * width, largest) if width else peaks
        values, places = np.unique(rounded, return_inverse=True)
        counts = np.ones(len(peaks)) if weights is None else weights
        columns = (counts, counts * seconds, counts * seconds * peaks)
        jobs, times, used = (np.bincount(places, column).astype(float) for column in columns)
        return cls(values, jobs, times, used, largest)

    def __len__(self) -> int:
        return len(self.peaks)

    def with_largest(self, largest: float) -> "Histogram":
        """Return these jobs with another largest amount."""
        return replace(self, largest=largest)

    def timed(self) -> "Histogram":
        """Return these jobs with run times: if all run times are 0, every job counts the same."""
        return self if self.seconds.any() else replace(self, seconds=self.jobs, used=self.jobs * self.peaks)

    def beyond(self, amount: float) -> "Histogram":
        """Return the jobs that need more than an amount."""
        above = self.peaks > amount
        return Histogram(self.peaks[above], self.jobs[above], self.seconds[above], self.used[above], self.largest)


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

    def histogram(self) -> Histogram:
        """Return the histogram of all jobs so far."""
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
        width = 2 * old or 2.0 ** ceil(np.log2(self.largest / _MOST_BUCKETS)) * 2
        self._width, self._buckets = width, {}
        for key, bucket in buckets.items():
            peak = key * old if old else key
            merged = self._buckets.setdefault(ceil(peak / width), [0.0, 0.0, 0.0, 0.0, 0.0])
            for place in range(3):
                merged[place] += bucket[place]
            for place in (3, 4):
                merged[place] = max(merged[place], bucket[place])


def checked(peak: float, seconds: float) -> tuple[float, float]:
    """Return a job's peak and run time with tiny values set to 0; raise InputError if either is impossible."""
    if not (0 <= peak < ABSURD and 0 <= seconds < ABSURD):
        raise _not_an_amount(seconds if 0 <= peak < ABSURD else peak)
    return (peak if peak > 1 / ABSURD else 0.0), (seconds if seconds > 1 / ABSURD else 0.0)


def check_half_life(jobs: float | None) -> None:
    """Raise InputError unless a half-life is None or a finite number of at least 1 job."""
    if jobs is not None and not 1 <= jobs < ABSURD:
        raise InputError(f"a half-life must be at least 1 job, not {jobs:g}")


def fading(jobs: int, half_life: float | None) -> FloatArray:
    """Return the weight of each job, the newest last."""
    return np.ones(jobs) if half_life is None else 0.5 ** (np.arange(jobs)[::-1] / half_life)


def _not_an_amount(value: float) -> InputError:
    return InputError(f"a peak or run time cannot be {value:g}")
