"""The optimal ladder: as many rungs as pay off, found exactly.

With rungs a_1 < a_2 < ..., every job whose peak is above a rung pays for the next one too. A history therefore costs
the sum of a_j * W(a_(j-1)), where W(x) is the run time of all jobs with a peak above x. The best ladder that ends at
peak j extends the best one that ends at some earlier peak i: f(j) = min over i of f(i) + a_j * W(i). For each i this
is a line in a_j; W falls with i and a_j rises with j, so the lower hull of the lines can be walked once from left to
right.
"""

from typing import Any, TypeAlias

import numpy as np

from tonnage.jit import compiled
from tonnage.size.histograms import FloatArray, Histogram
from tonnage.size.ladders import Ladder, of_rungs
from tonnage.size.rules import max_throughput

__all__ = ["best_rungs", "ladder"]

_Numbers: TypeAlias = Any  # a list if small, an array if compiled
_Places: TypeAlias = Any


def ladder(histogram: Histogram, *, attempt_cost: float = 0.0, objective: str = "waste") -> Ladder:
    """Waste as little as possible with any number of retries.

    `attempt_cost` is what an attempt costs in addition to its amount, as a fraction of the largest amount. With the
    objective "throughput", the first rung finishes as many jobs as possible (Equation 3), and only the others minimise
    waste.
    """
    if objective == "throughput":
        first = max_throughput(histogram)[0]
        late = histogram.beyond(first)
        return of_rungs(first, *(ladder(late, attempt_cost=attempt_cost) if len(late) else ()), histogram.largest)
    seconds = histogram.timed().seconds
    positive = histogram.peaks > 0  # a job cannot be given 0
    amounts = histogram.peaks[positive]
    if not len(amounts):
        return of_rungs(histogram.largest)
    left = np.concatenate(([seconds.sum()], np.cumsum(seconds[positive][:0:-1])[::-1], [0.0]))
    if histogram.largest > amounts[-1]:
        amounts, left = np.append(amounts, histogram.largest), np.append(left, 0.0)
    chosen, _ = best_rungs(amounts + attempt_cost * histogram.largest, left, np.zeros(len(left)))
    return of_rungs(*amounts[chosen])


def best_rungs(amounts: FloatArray, slopes: FloatArray, offsets: FloatArray) -> tuple[list[int], float]:
    """Return the indices of the amounts in the best ladder that ends at the last of them, and its cost.

    An attempt with the amount `a`, after rung i failed (0: no earlier attempt), costs ``offsets[i] + a * slopes[i]``.
    Amounts are strictly increasing, slopes never increase.
    """
    size = len(amounts)
    walk = compiled(_walk, size)
    if walk is _walk:  # plain Python is fastest on lists
        before = [0] * size
        numbers = (amounts.tolist(), slopes.tolist(), offsets.tolist())
        total = walk(*numbers, before, [0.0] * size, [0.0] * size, [0] * size)
    else:
        places = np.empty(size, np.int64)
        total = walk(amounts, slopes, offsets, places, np.empty(size), np.empty(size), np.empty(size, np.int64))
        before = places.tolist()
    chosen = []
    place = size
    while place:
        chosen.append(place - 1)
        place = before[place - 1]
    return chosen[::-1], total


def _walk(
    amounts: _Numbers,
    slopes: _Numbers,
    offsets: _Numbers,
    before: _Places,
    hull_slopes: _Numbers,
    hull_heights: _Numbers,
    hull_places: _Places,
) -> float:
    """Fill in the rung before each (numbered from 1; 0 is none), and return the cost of the best ladder.

    The lines of the hull are stored in the arrays that the caller passes.
    """
    first, last = 0, 0
    hull_slopes[0], hull_heights[0], hull_places[0] = slopes[0], offsets[0], 0
    best = 0.0
    for place in range(len(amounts)):
        amount = amounts[place]
        best = hull_heights[first] + hull_slopes[first] * amount
        while first < last:
            next_best = hull_heights[first + 1] + hull_slopes[first + 1] * amount
            if next_best > best:
                break
            best = next_best
            first += 1
        before[place] = hull_places[first]
        slope, height = slopes[place + 1], best + offsets[place + 1]
        if slope == hull_slopes[last] or place + 1 == len(amounts):
            continue  # no job lies between an earlier rung and this one: nothing starts from here
        # A line that is nowhere the lowest between its neighbours leaves the hull.
        while last > first and (
            (height - hull_heights[last - 1]) * (hull_slopes[last - 1] - hull_slopes[last])
            <= (hull_heights[last] - hull_heights[last - 1]) * (hull_slopes[last - 1] - slope)
        ):
            last -= 1
        last += 1
        hull_slopes[last], hull_heights[last], hull_places[last] = slope, height, place + 1
    return best
