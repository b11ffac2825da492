"""`auto`: one ladder on a mixture of models, which learns from the first job on.

Three ideas make headroom and tuning unnecessary. The chance that the next of n + 1 jobs is the largest of all is about
1 in n + 1, so the past gets one more job beyond the largest, a record (`with_record`): how far beyond follows from how
far the largest ones are apart. Models are judged on jobs that they have not seen (models.py). And instead of choosing
one model, the ladder of a job is the best for all that they say about it, each weighted by how little it would have
cost in the past.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, nan, sqrt

import numpy as np
from numpy.typing import NDArray

from tonnage.size.histograms import ABSURD, HALF_LIVES, FloatArray, Histogram, checked, fading
from tonnage.size.ladders import Ladder, escalated, of_rungs, stretched
from tonnage.size.models import MODELS, Fit, Model, constant
from tonnage.size.optimal import best_rungs, ladder
from tonnage.size.rounding import rounded_input

__all__ = ["RECORD_SHARES", "Mixture", "guarantee", "with_record"]

_STEPS = np.array([0.25, 0.5, 1, 2, 4, 8, 16, 32, 64])
RECORD_SHARES = -np.diff((1 + np.concatenate(([0.0], _STEPS)) / 2) ** -2.0)
"""Which parts of the one record job lie at each of these steps beyond the largest."""
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


_ENOUGH = 4  # jobs with a known input, before it is looked at
_REFIT = 1.15
_REMEMBERED = 4096  # jobs that the models are fitted to: the newest
_IGNORED = 1e-3  # the weight of a model that is not worth asking
# How many points are kept of a distribution: of all its mass, and of each halving of what is left.
_COARSE = (32, 3)
_FINE = (128, 6)
_MANY = 200


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """Jobs to learn from; run times and jobs are weighted where old ones count less."""

    peaks: FloatArray
    seconds: FloatArray
    inputs: FloatArray
    jobs: FloatArray

    def only(self, chosen: NDArray[np.intp]) -> "_Past":
        return _Past(self.peaks[chosen], self.seconds[chosen], self.inputs[chosen], self.jobs[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """A distribution: of what past jobs needed, in a model's terms, and of a record beyond them; ascending."""

    values: FloatArray
    seconds: FloatArray
    jobs: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class _Voice:
    """What one model says, and how much it counts."""

    name: str
    fit: Fit
    scores: _Scores
    weight: float


class Mixture:
    """Sizes jobs by the models that would have wasted least."""

    def __init__(
        self,
        capacity: float,
        *,
        models: Sequence[Model] = MODELS,
        floor: float = 0.0,
        attempt_cost: float,
        half_life: float | None = None,
        growth: float = 2.0,
        steps: float = inf,
        patience: float = 0.0,
        objective: str = "waste",
    ) -> None:
        """Prepare for the first job, which is given everything.

        Amounts are not below `floor`. An attempt is reckoned to cost `attempt_cost` of the largest peak beside its
        amount. With a `half_life`, a job counts half as much after that many others. A new largest peak is
        looked at when jobs are more by the part `patience`.
        """
        self._capacity = capacity
        self._floor = floor
        self._attempt_cost = attempt_cost
        self._half_life = half_life
        self._growth = growth
        self._steps = steps
        self._patience = patience
        self._models = models
        self._objective = objective
        self._peaks, self._seconds, self._inputs = array("d"), array("d"), array("d")
        self._largest = 0.0
        self._smallest = 1.0
        self._refit_at = 0
        self._fitted = 0
        self._voices: list[_Voice] = []
        self._without_input: Ladder = (capacity,)
        self._said_of = nan  # who asks for a job's ladder may ask next what is expected of it
        self._last_said: _Scores
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:
        """Take in a job that finished."""
        peak, seconds = checked(peak, seconds)
        self._peaks.append(peak)
        self._seconds.append(seconds)
        self._inputs.append(input_bytes if _is_size(input_bytes) else nan)
        self.samples += 1
        if peak > self._largest:
            self._largest = peak
            self._refit_at = min(self._refit_at, self._fitted + int(self._fitted * self._patience))

    def ladder(self, input_bytes: float = nan) -> Ladder:
        """Return what a job with this input is to be tried with."""
        if self.samples and self.samples >= self._refit_at:
            self._fit()
        if not self._voices or not _is_size(input_bytes):
            return self._without_input
        return self._climb(self._said(rounded_input(input_bytes)))

    def expected(self, input_bytes: float) -> Histogram | None:
        """Return what a job with this input is taken to need, a record included; None where the input says nothing."""
        self.ladder()
        if not self._voices or not _is_size(input_bytes):
            return None
        said = self._said(rounded_input(input_bytes))
        peaks = np.minimum(said.values, self._capacity)
        return Histogram(peaks, said.jobs, said.seconds, peaks * said.seconds, self._largest)

    def weights(self) -> dict[str, float]:
        """Return how much each model counts for a job whose input is known."""
        self.ladder()
        return {voice.name: voice.weight for voice in self._voices}

    def _fit(self) -> None:
        self._fitted, self._said_of = self.samples, nan
        self._refit_at = int(self.samples * _REFIT) + 1
        past = self._past()
        self._largest = float(past.peaks.max())
        self._smallest = float(past.peaks[past.peaks > 0].min()) if past.peaks.any() else 1.0
        alone, _ = _scored(constant(past.inputs, past.peaks, past.seconds), past)
        self._without_input = self._climb(alone)
        known = past.only(np.flatnonzero(~np.isnan(past.inputs))[-_REMEMBERED:])
        enough = len(known.peaks) >= _ENOUGH and known.peaks.any() and known.seconds.any()
        self._voices = self._heard(known) if enough else []

    def _past(self) -> _Past:
        """Return the jobs to learn from: all, or those that are not long forgotten, weighted by their age."""
        kept = (
            len(self._peaks) if self._half_life is None else min(len(self._peaks), ceil(HALF_LIVES * self._half_life))
        )
        peaks, seconds, inputs = (
            np.array(memoryview(part)[-kept:]) for part in (self._peaks, self._seconds, self._inputs)
        )
        if not seconds.any():
            seconds = np.ones(kept)  # without run times, all jobs count alike
        weights = fading(kept, self._half_life)
        return _Past(peaks, seconds * weights, inputs, weights)

    def _heard(self, past: _Past) -> list[_Voice]:
        """Return the models that are worth asking, each weighted by how little it would have wasted."""
        fits = [model(past.inputs, past.peaks, past.seconds) for model in self._models]
        scored = [_scored(fit, past) for fit in fits]
        used = float(past.peaks @ past.seconds)
        wasted = np.array([self._cost(fit, *one) - used for fit, one in zip(fits, scored, strict=True)])
        weights = (wasted / wasted.min()) ** -max(8.0, sqrt(past.jobs.sum()))
        weights /= weights.sum()
        return [
            _Voice(model.__name__, fit, said if len(said.values) <= _MANY else _thinned(said, *_FINE), float(weight))
            for model, fit, (said, _), weight in zip(self._models, fits, scored, weights, strict=True)
            if weight >= _IGNORED
        ]

    def _cost(self, fit: Fit, said: _Scores, order: NDArray[np.intp]) -> float:
        """Return what the best ladder would have cost with one model alone."""
        # The record is an average job in all but its score.
        expected = np.concatenate((fit.expected, np.full(len(RECORD_SHARES), fit.expected.mean())))[order]
        slopes = _from_here_on(said.seconds * expected)
        offsets = _from_here_on(said.seconds) * self._attempt_cost * self._largest
        last = _ends(said.values[1:] != said.values[:-1])
        starts = np.concatenate(([0], last + 1))
        return best_rungs(said.values[last], slopes[starts], offsets[starts])[1]

    def _said(self, input_bytes: float) -> _Scores:
        """Return what all models together say about the peak of a job with this input."""
        if input_bytes != self._said_of:
            self._said_of, self._last_said = input_bytes, self._pooled(input_bytes)
        return self._last_said

    def _pooled(self, input_bytes: float) -> _Scores:
        values, seconds, jobs = [], [], []
        for voice in self._voices:
            values.append(voice.scores.values * voice.fit.at(input_bytes))
            seconds.append(voice.scores.seconds * voice.weight)
            jobs.append(voice.scores.jobs * voice.weight)
        pooled = np.concatenate(values)
        order = np.argsort(pooled, kind="stable")
        return _Scores(pooled[order], np.concatenate(seconds)[order], np.concatenate(jobs)[order])

    def _climb(self, said: _Scores) -> Ladder:
        """Return the best ladder for a job, given what is said about its peak."""
        values = np.maximum(said.values, max(self._smallest / 2, self._floor))
        few = _thinned(_Scores(values, said.seconds, said.jobs), *_COARSE)
        histogram = Histogram(
            few.values, few.jobs, few.seconds, few.values * few.seconds, max(self._largest, self._smallest)
        )
        rungs = ladder(histogram, attempt_cost=self._attempt_cost, objective=self._objective)
        growth = stretched(self._growth, self._largest, self._capacity, self._steps)
        return escalated(rungs, self._capacity, growth)


def _is_size(input_bytes: float) -> bool:
    """Whether an input can have this size; NaN has none."""
    return 1 / ABSURD < input_bytes < ABSURD


def _scored(fit: Fit, past: _Past) -> tuple[_Scores, NDArray[np.intp]]:
    """Return what past jobs and a record would have needed of a model, and which of them has which place."""
    unit = float(past.peaks.max() / fit.expected.mean())
    values = with_record(past.peaks / fit.expected, unit)
    seconds = np.concatenate((past.seconds, RECORD_SHARES * (past.seconds.sum() / past.jobs.sum())))
    jobs = np.concatenate((past.jobs, RECORD_SHARES))
    order = np.argsort(values, kind="stable")
    return _Scores(values[order], seconds[order], jobs[order]), order


def _thinned(said: _Scores, bulk: int, tail: int) -> _Scores:
    """Return a distribution in some dozens of points, finer towards its end; each stands for what is just below it."""
    left = np.maximum(_from_here_on(said.seconds)[:-1] / said.seconds.sum(), 1e-15)
    group = (bulk * (1 - left)).astype(int) + (-tail * np.log2(left)).astype(int)
    ends = _ends(said.values[1:] != said.values[:-1])
    last = ends[_ends(group[ends][1:] != group[ends][:-1])]
    return _Scores(said.values[last], _between(said.seconds, last), _between(said.jobs, last))


def _ends(changes: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the last place of each run, given where a place differs from the one before."""
    return np.flatnonzero(np.append(changes, True))


def _between(values: FloatArray, last: NDArray[np.intp]) -> FloatArray:
    """Return the sums of the values up to each place, from the one before it."""
    return np.diff(np.concatenate(([0.0], np.cumsum(values)[last])))


def _from_here_on(values: FloatArray) -> FloatArray:
    """Return the sum of each value and all after it, and 0 at the end."""
    return np.concatenate((np.cumsum(values[::-1])[::-1], [0.0]))
