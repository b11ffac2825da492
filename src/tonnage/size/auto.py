"""`auto`: one ladder on a mixture of models, which learns from the first job on.

Three ideas make headroom and tuning unnecessary. The chance that the next of n + 1 jobs is the largest of all is about
1 in n + 1, so the past gets one more job beyond the largest, a record (`with_record`): how far beyond follows from how
far apart the largest ones are. Models are judged on jobs that they have not seen (models.py). And instead of choosing
one model, the ladder of a job is the best for the predictions of all models, each weighted by how little it would have
cost in the past.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, nan, sqrt

import numpy as np
from numpy.typing import NDArray

from tonnage.size.checks import ABSURD, checked
from tonnage.size.histograms import FloatArray, Histogram, fading
from tonnage.size.ladders import Ladder, escalated, of_rungs, stretched
from tonnage.size.models import MODELS, Fit, Model, constant
from tonnage.size.optimal import best_rungs, ladder
from tonnage.size.rounding import rounded_input
from tonnage.size.tally import HALF_LIVES

__all__ = ["RECORD_SHARES", "Mixture", "guarantee", "with_record"]

_STEPS = np.array([0.25, 0.5, 1, 2, 4, 8, 16, 32, 64])
RECORD_SHARES = -np.diff((1 + np.concatenate(([0.0], _STEPS)) / 2) ** -2.0)
"""The fraction of the one record job that lies at each of these steps beyond the largest."""
_MOST_RECORDS = 0.75
RECORD_SHARES[-1] += 1 - RECORD_SHARES.sum()


def with_record(values: FloatArray, unit: float) -> FloatArray:
    """Append the points beyond the largest value where a record may lie; `RECORD_SHARES` are their fractions of it.

    `unit` sets the scale of the smallest step: however similar the values are, a record exceeds them by a little, and
    by more if there are few values.
    """
    size = len(values)
    count = min(max(2, int(sqrt(size))), size - 1)
    ordered = np.sort(values)
    step = float(ordered[size - count :].mean() - ordered[size - count - 1]) if count > 0 else 0.0
    least = max(1e-4, 0.1 / size**2) * unit
    return np.concatenate((values, ordered[-1] + max(step, least) * _STEPS))


def guarantee(values: FloatArray) -> Ladder:
    """Return a limit that even most records would stay below: for limits that must hold, such as a run time."""
    reached = with_record(values, float(values.max()))[len(values) :]
    return of_rungs(float(reached[np.argmax(np.cumsum(RECORD_SHARES) >= _MOST_RECORDS)]))


_ENOUGH = 4  # jobs with a known input, before inputs are considered
_REFIT = 1.15
_REMEMBERED = 4096  # jobs that the models are fitted to: the newest
_IGNORED = 1e-3  # models with a smaller weight are dropped
# How many points of a distribution are kept: for all its mass, and for each halving of the remaining mass.
_COARSE = (32, 3)
_FINE = (128, 6)
_MANY = 200


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """Jobs to learn from; run times and jobs are weighted if old ones count less."""

    peaks: FloatArray
    seconds: FloatArray
    inputs: FloatArray
    jobs: FloatArray

    def only(self, chosen: NDArray[np.intp]) -> "_Past":
        return _Past(self.peaks[chosen], self.seconds[chosen], self.inputs[chosen], self.jobs[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """The distribution of what past jobs needed, in a model's terms, and of a record beyond them; ascending."""

    values: FloatArray
    seconds: FloatArray
    jobs: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class _WeightedModel:
    """A fitted model with its scores and its weight."""

    name: str
    fit: Fit
    scores: _Scores
    weight: float


class Mixture:
    """Sizes jobs by a weighted mixture of the models that would have wasted least."""

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
        """Start without history: the first job is given everything.

        No amount is below `floor`. Each attempt is taken to cost `attempt_cost` of the largest peak in addition to its
        amount. With a `half_life`, a job counts half as much after that many others. A new largest peak triggers a
        refit only once the number of jobs has grown by the fraction `patience`.
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
        self._weighted_models: list[_WeightedModel] = []
        self._without_input: Ladder = (capacity,)
        self._pooled_for = nan  # cached, because `expected` is often called right after `ladder` for the same input
        self._last_pooled: _Scores
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:
        """Learn from a finished job."""
        peak, seconds = checked(peak, seconds)
        self._peaks.append(peak)
        self._seconds.append(seconds)
        self._inputs.append(input_bytes if _is_size(input_bytes) else nan)
        self.samples += 1
        if peak > self._largest:
            self._largest = peak
            self._refit_at = min(self._refit_at, self._fitted + int(self._fitted * self._patience))

    def ladder(self, input_bytes: float = nan) -> Ladder:
        """Return the amounts to try for a job with this input."""
        if self.samples and self.samples >= self._refit_at:
            self._fit()
        if not self._weighted_models or not _is_size(input_bytes):
            return self._without_input
        return self._climb(self._pooled_scores(rounded_input(input_bytes)))

    def expected(self, input_bytes: float) -> Histogram | None:
        """Return the predicted peaks of a job with this input, including a record; None if inputs are not used."""
        self.ladder()
        if not self._weighted_models or not _is_size(input_bytes):
            return None
        scores = self._pooled_scores(rounded_input(input_bytes))
        peaks = np.minimum(scores.values, self._capacity)
        return Histogram(peaks, scores.jobs, scores.seconds, peaks * scores.seconds, self._largest)

    def weights(self) -> dict[str, float]:
        """Return the weight of each model for a job whose input is known."""
        self.ladder()
        return {model.name: model.weight for model in self._weighted_models}

    def _fit(self) -> None:
        self._fitted, self._pooled_for = self.samples, nan
        self._refit_at = int(self.samples * _REFIT) + 1
        past = self._past()
        self._largest = float(past.peaks.max())
        self._smallest = float(past.peaks[past.peaks > 0].min()) if past.peaks.any() else 1.0
        alone, _ = _scored(constant(past.inputs, past.peaks, past.seconds), past)
        self._without_input = self._climb(alone)
        known = past.only(np.flatnonzero(~np.isnan(past.inputs))[-_REMEMBERED:])
        enough = len(known.peaks) >= _ENOUGH and known.peaks.any() and known.seconds.any()
        self._weighted_models = self._weighed(known) if enough else []

    def _past(self) -> _Past:
        """Return the jobs to learn from: all of them, or with a half-life the recent ones, weighted by age."""
        kept = (
            len(self._peaks) if self._half_life is None else min(len(self._peaks), ceil(HALF_LIVES * self._half_life))
        )
        peaks, seconds, inputs = (
            np.array(memoryview(part)[-kept:]) for part in (self._peaks, self._seconds, self._inputs)
        )
        if not seconds.any():
            seconds = np.ones(kept)  # without run times, all jobs count the same
        weights = fading(kept, self._half_life)
        return _Past(peaks, seconds * weights, inputs, weights)

    def _weighed(self, past: _Past) -> list[_WeightedModel]:
        """Fit all models and keep the useful ones, each weighted by how little it would have wasted."""
        fits = [model(past.inputs, past.peaks, past.seconds) for model in self._models]
        scored = [_scored(fit, past) for fit in fits]
        used = float(past.peaks @ past.seconds)
        wasted = np.array([self._cost(fit, *one) - used for fit, one in zip(fits, scored, strict=True)])
        weights = (wasted / wasted.min()) ** -max(8.0, sqrt(past.jobs.sum()))
        weights /= weights.sum()
        return [
            _WeightedModel(
                model.__name__, fit, scores if len(scores.values) <= _MANY else _thinned(scores, *_FINE), float(weight)
            )
            for model, fit, (scores, _), weight in zip(self._models, fits, scored, weights, strict=True)
            if weight >= _IGNORED
        ]

    def _cost(self, fit: Fit, scores: _Scores, order: NDArray[np.intp]) -> float:
        """Return what the best ladder would have cost with one model alone."""
        # Apart from its score, the record is an average job.
        expected = np.concatenate((fit.expected, np.full(len(RECORD_SHARES), fit.expected.mean())))[order]
        slopes = _from_here_on(scores.seconds * expected)
        offsets = _from_here_on(scores.seconds) * self._attempt_cost * self._largest
        last = _ends(scores.values[1:] != scores.values[:-1])
        starts = np.concatenate(([0], last + 1))
        return best_rungs(scores.values[last], slopes[starts], offsets[starts])[1]

    def _pooled_scores(self, input_bytes: float) -> _Scores:
        """Return the pooled prediction of all models for the peak of a job with this input."""
        if input_bytes != self._pooled_for:
            self._pooled_for, self._last_pooled = input_bytes, self._pooled(input_bytes)
        return self._last_pooled

    def _pooled(self, input_bytes: float) -> _Scores:
        values, seconds, jobs = [], [], []
        for model in self._weighted_models:
            values.append(model.scores.values * model.fit.at(input_bytes))
            seconds.append(model.scores.seconds * model.weight)
            jobs.append(model.scores.jobs * model.weight)
        pooled = np.concatenate(values)
        order = np.argsort(pooled, kind="stable")
        return _Scores(pooled[order], np.concatenate(seconds)[order], np.concatenate(jobs)[order])

    def _climb(self, scores: _Scores) -> Ladder:
        """Return the best ladder for a job, given the distribution of its peak."""
        values = np.maximum(scores.values, max(self._smallest / 2, self._floor))
        few = _thinned(_Scores(values, scores.seconds, scores.jobs), *_COARSE)
        histogram = Histogram(
            few.values, few.jobs, few.seconds, few.values * few.seconds, max(self._largest, self._smallest)
        )
        rungs = ladder(histogram, attempt_cost=self._attempt_cost, objective=self._objective)
        growth = stretched(self._growth, self._largest, self._capacity, self._steps)
        return escalated(rungs, self._capacity, growth)


def _is_size(input_bytes: float) -> bool:
    """Whether this is a plausible size of an input; NaN is not."""
    return 1 / ABSURD < input_bytes < ABSURD


def _scored(fit: Fit, past: _Past) -> tuple[_Scores, NDArray[np.intp]]:
    """Return the sorted scores of past jobs and of a record under a model, and the order that sorts them."""
    unit = float(past.peaks.max() / fit.expected.mean())
    values = with_record(past.peaks / fit.expected, unit)
    seconds = np.concatenate((past.seconds, RECORD_SHARES * (past.seconds.sum() / past.jobs.sum())))
    jobs = np.concatenate((past.jobs, RECORD_SHARES))
    order = np.argsort(values, kind="stable")
    return _Scores(values[order], seconds[order], jobs[order]), order


def _thinned(scores: _Scores, bulk: int, tail: int) -> _Scores:
    """Reduce a distribution to a few dozen points, finer towards its end; each stands for the values just below it."""
    left = np.maximum(_from_here_on(scores.seconds)[:-1] / scores.seconds.sum(), 1e-15)
    group = (bulk * (1 - left)).astype(int) + (-tail * np.log2(left)).astype(int)
    ends = _ends(scores.values[1:] != scores.values[:-1])
    last = ends[_ends(group[ends][1:] != group[ends][:-1])]
    return _Scores(scores.values[last], _between(scores.seconds, last), _between(scores.jobs, last))


def _ends(changes: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the last position of each run of equal values, given where values change."""
    return np.flatnonzero(np.append(changes, True))


def _between(values: FloatArray, last: NDArray[np.intp]) -> FloatArray:
    """Return the sum of the values up to each position, counted from the previous one."""
    return np.diff(np.concatenate(([0.0], np.cumsum(values)[last])))


def _from_here_on(values: FloatArray) -> FloatArray:
    """Return the sum of each value and all later ones, with a final 0."""
    return np.concatenate((np.cumsum(values[::-1])[::-1], [0.0]))
