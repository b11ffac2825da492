"""The record tail: what may come that has not been seen yet.

The chance that the next of n + 1 jobs is the largest of all is about 1 in n + 1. So the past gets one more job, which
is beyond the largest: how far follows from how far the largest ones are apart.
"""

from math import sqrt

import numpy as np

from tonnage.size.histograms import FloatArray
from tonnage.size.ladders import Ladder, of_rungs

__all__ = ["RECORD_SHARES", "guarantee", "with_record"]

_STEPS = np.array([0.25, 0.5, 1, 2, 4, 8, 16, 32, 64])
RECORD_SHARES = -np.diff((1 + np.concatenate(([0.0], _STEPS)) / 2) ** -2.0)
"""The parts of the one record job that are so far beyond the largest."""
_MOST_RECORDS = 0.75
RECORD_SHARES[-1] += 1 - RECORD_SHARES.sum()


def with_record(values: FloatArray, unit: float) -> FloatArray:
    """Return values, and behind them where a record may be that is beyond the largest; `RECORD_SHARES` are its parts.

    `unit` is what a small part is a part of: however alike the values were, a record exceeds them by some, and by more
    the fewer they are.
    """
    size = len(values)
    count = min(max(2, int(sqrt(size))), size - 1)
    ordered = np.sort(values)
    step = float(ordered[size - count :].mean() - ordered[size - count - 1]) if count > 0 else 0.0
    least = max(1e-4, 0.1 / size**2) * unit
    return np.concatenate((values, ordered[-1] + max(step, least) * _STEPS))


def guarantee(values: FloatArray) -> Ladder:
    """Give what even most records would stay below: for what must not be exceeded, such as a run time."""
    reached = with_record(values, float(values.max()))[len(values) :]
    return of_rungs(float(reached[np.argmax(np.cumsum(RECORD_SHARES) >= _MOST_RECORDS)]))
