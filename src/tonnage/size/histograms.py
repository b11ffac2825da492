"""Histograms of peaks: all that most strategies need to know about past jobs, however many there were."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.size.checks import ABSURD, not_an_amount

__all__ = ["FloatArray", "Histogram", "fading"]

FloatArray: TypeAlias = NDArray[np.float64]


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
                raise not_an_amount(float(values[wrong][0]))
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

    def with_more(self, peaks: Sequence[float]) -> "Histogram":
        """Return these jobs and some with other peaks, each of which runs as long as the average."""
        seconds = float(self.seconds.sum() / self.jobs.sum()) if len(self) else 1.0
        added = np.asarray(peaks, np.float64)
        ones = np.ones(len(added))
        order = np.argsort(np.concatenate((self.peaks, added)), kind="stable")
        return Histogram(
            peaks=np.concatenate((self.peaks, added))[order],
            jobs=np.concatenate((self.jobs, ones))[order],
            seconds=np.concatenate((self.seconds, seconds * ones))[order],
            used=np.concatenate((self.used, seconds * added))[order],
            largest=max(self.largest, *peaks, 0.0),
        )

    def timed(self) -> "Histogram":
        """Return these jobs with run times: if all run times are 0, every job counts the same."""
        return self if self.seconds.any() else replace(self, seconds=self.jobs, used=self.jobs * self.peaks)

    def beyond(self, amount: float) -> "Histogram":
        """Return the jobs that need more than an amount."""
        above = self.peaks > amount
        return Histogram(self.peaks[above], self.jobs[above], self.seconds[above], self.used[above], self.largest)


def fading(jobs: int, half_life: float | None) -> FloatArray:
    """Return the weight of each job, the newest last."""
    return np.ones(jobs) if half_life is None else 0.5 ** (np.arange(jobs)[::-1] / half_life)
