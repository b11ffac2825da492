"""Models of how a job's peak depends on the size of its input.

A model expects a peak s(x) of a job with the input x. The job is tried with d * s(x), where the ladder of d comes from
the past: the d that a past job would have needed is its *score*. To keep a model from looking better than it is, each
past job is scored as if it had been left out of the fit.
"""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import median
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.size.histograms import FloatArray

__all__ = ["MODELS", "Fit", "Model", "constant", "linear", "neighbours", "power", "proportional"]

_TINY = 1e-9  # practically 0, but has a logarithm
_NEARLY_ONE = 0.999  # the leverage of a job that determines the fit alone


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A model fitted to past jobs."""

    expected: FloatArray
    """The expected peak of each past job, as if it had been left out; up to a common factor."""
    at: Callable[[float], float]
    """The expected peak of a job with a given input."""


def constant(inputs: FloatArray, peaks: FloatArray, seconds: FloatArray) -> Fit:  # noqa: ARG001 (as all models)
    """Ignore the input."""
    return Fit(np.ones(len(peaks)), lambda _: 1.0)


def linear(inputs: FloatArray, peaks: FloatArray, seconds: FloatArray) -> Fit:
    """Fit a constant amount plus an amount per byte of input: least squares, long jobs weigh more.

    What a job needs beyond the line is taken to grow with the line, as it did for most jobs that we examined.
    """
    least = max(float(peaks.min()) / 2, _TINY)
    intercept, slope, left_out = _line(inputs, peaks, seconds)
    return Fit(np.maximum(left_out, least), lambda x: max(intercept + slope * x, least))


def proportional(inputs: FloatArray, peaks: FloatArray, seconds: FloatArray) -> Fit:  # noqa: ARG001
    """Fit an amount per byte of input."""
    mean = float(inputs.mean())
    return Fit(inputs / mean, lambda x: x / mean)


def power(inputs: FloatArray, peaks: FloatArray, seconds: FloatArray) -> Fit:
    """Fit a power of the input: a line through the logarithms."""
    low, high = log(max(float(peaks.min()), _TINY) / 2), log(4 * float(peaks.max()))
    intercept, slope, left_out = _line(np.log(inputs), np.log(np.maximum(peaks, _TINY)), seconds)
    return Fit(
        np.exp(np.clip(left_out, low, high)),
        lambda x: exp(min(max(intercept + slope * log(x), low), high)),
    )


def neighbours(inputs: FloatArray, peaks: FloatArray, seconds: FloatArray) -> Fit:  # noqa: ARG001
    """Take the median peak of the past jobs with the most similar inputs."""
    order = np.argsort(inputs, kind="stable")
    places, values = np.log(inputs[order]), np.maximum(peaks[order], _TINY)
    count = min(max(3, int(sqrt(len(peaks)))), len(peaks) - 1)
    expected = np.empty(len(peaks))
    expected[order] = np.median(values[_nearest_others(places, count)], axis=1)

    where, what = places.tolist(), values.tolist()  # plain lists are fastest for finding a few of them

    def at(x: float) -> float:
        place = log(x)
        near = bisect(where, place)
        low, high = max(0, near - count), min(near, len(where) - count)
        while low < high:  # the nearest ones are adjacent: find where they begin
            middle = (low + high) // 2
            if place - where[middle] > where[middle + count] - place:
                low = middle + 1
            else:
                high = middle
        return float(median(what[low : low + count]))

    return Fit(expected, at)


Model: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], Fit]
"""Fits a model to the inputs, peaks and run times of past jobs."""

MODELS = (constant, linear, proportional, power, neighbours)
"""The models that `auto` combines."""


def _line(x: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[float, float, FloatArray]:
    """Fit a line; return its intercept, its slope, and its value at each point as if that point had been left out."""
    weights = weights + 1e-9 * weights.mean() if weights.any() else np.ones(len(x))
    total = weights.sum()
    mean_x, mean_y = float(weights @ x / total), float(weights @ y / total)
    apart = x - mean_x
    spread = float(weights @ apart**2)
    if spread <= 1e-12 * total * (abs(mean_x) + 1e-300) ** 2:  # all inputs are the same
        leverage = weights / total
        slope = 0.0
    else:
        slope = float((weights * apart) @ y / spread)
        leverage = weights * (1 / total + apart**2 / spread)
    fitted = mean_y + slope * apart
    residual = (y - fitted) / (1 - np.minimum(leverage, _NEARLY_ONE))
    return mean_y - slope * mean_x, slope, y - residual


def _nearest_others(places: FloatArray, count: int) -> NDArray[np.intp]:
    """Return the `count` nearest others of each of the sorted places.

    They surround it without a gap: they are the window of `count` + 1 places with the smallest reach.
    """
    size = len(places)
    starts = np.arange(size)[:, None] - np.arange(count, -1, -1)[None, :]
    possible = (starts >= 0) & (starts + count < size)
    starts = np.clip(starts, 0, size - 1 - count)
    reach = np.maximum(places[:, None] - places[starts], places[starts + count] - places[:, None])
    best = starts[np.arange(size), np.argmin(np.where(possible, reach, np.inf), axis=1)]
    window = best[:, None] + np.arange(count + 1)[None, :]
    others: NDArray[np.intp] = window[window != np.arange(size)[:, None]].reshape(size, count)
    return others
