"""The plain strategies: the whole machine, doubling, what the user said, the largest peak, a percentile."""

import numpy as np

from tonnage.errors import InputError
from tonnage.size.histograms import Histogram
from tonnage.size.ladders import Ladder, of_rungs

__all__ = ["declared", "doubling", "max_seen", "percentile", "whole_machine"]

_SHARES = (8, 4, 2, 1)


def whole_machine(capacity: float) -> Ladder:
    """Give everything."""
    return (capacity,)


def doubling(capacity: float) -> Ladder:
    """Give an eighth of the machine, then a quarter, a half, and all of it."""
    return of_rungs(*(capacity / share for share in _SHARES))


def declared(amount: float, capacity: float) -> Ladder:
    """Give what the user said, then everything."""
    return of_rungs(min(amount, capacity), capacity)


def max_seen(histogram: Histogram, *, margin: float = 0.0) -> Ladder:
    """Give the largest peak that was seen, and a margin."""
    return of_rungs(histogram.peaks[-1] * (1 + margin), max(histogram.largest, histogram.peaks[-1] * (1 + margin)))


def percentile(histogram: Histogram, *, share: float = 0.95) -> Ladder:
    """Give as much as a share of the jobs needed, then the largest peak that was seen."""
    if not 0 < share <= 1:
        raise InputError(f"a share of the jobs is above 0 and at most 1, not {share:g}")
    reached = np.cumsum(histogram.jobs)
    # A sum of weights may miss the share by a rounding error: then the next bucket would be one too many.
    place = int(np.searchsorted(reached, share * reached[-1] * (1 - 1e-12)))
    return of_rungs(histogram.peaks[place], histogram.largest)
