"""Random jobs for the tests of sizing: peaks, run times, and what strategies are told of them."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from tonnage.size import Histogram, Ladder, Settings, Sizer, sizer

__all__ = ["Job", "fed", "histogram", "jobs", "paid"]

Job = tuple[float, float]
"""The peak and the run time of a job."""


def jobs(
    *, min_size: int = 1, max_size: int = 12, most: int = 40, least_seconds: int = 0
) -> st.SearchStrategy[list[Job]]:
    """Some jobs with whole amounts, so that oracles need no tolerance; among them equal peaks and peaks of 0."""
    job = st.tuples(st.integers(0, most).map(float), st.integers(least_seconds, 20).map(float))
    return st.lists(job, min_size=min_size, max_size=max_size)


def histogram(past: Sequence[Job], *, largest: float | None = None, width: float = 0.0) -> Histogram:
    """The histogram of some jobs, with a largest amount that may be above the largest peak."""
    peaks, seconds = (np.array([job[place] for job in past], np.float64) for place in range(2))
    made = Histogram.of(peaks, seconds, width=width)
    return made if largest is None else made.with_largest(largest)


def paid(ladder: Ladder, past: Iterable[Job], per_attempt: float = 0.0) -> float:
    """What jobs cost that climb a ladder, attempt by attempt."""
    total = 0.0
    for peak, seconds in past:
        for rung in ladder:
            total += (rung + per_attempt) * seconds
            if rung >= peak:
                break
        else:
            raise AssertionError(f"{ladder} is too low for {peak}")
    return total


def fed(name: str, past: Iterable[Job], settings: Settings, inputs: Sequence[float] = ()) -> Sizer:
    """A sizer that has seen some jobs."""
    made = sizer(name, settings)
    for number, (peak, seconds) in enumerate(past):
        made.observe(peak, seconds, inputs[number] if inputs else math.nan)
    return made
