"""What to ask for: a decision for each category and each resource, with its reason and what it saves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from tonnage.errors import InputError
from tonnage.jobs import HOURS, Decision, History, Resource
from tonnage.size.auto import Mixture
from tonnage.size.factory import Plan, counted, explained, least, possible, practical, settings_for, strategy_for
from tonnage.size.histograms import FloatArray, Histogram, fading
from tonnage.size.ladders import Ladder, cost, escalated, of_rungs
from tonnage.size.records import Usage
from tonnage.size.rounding import fair_share
from tonnage.size.sizers import Sizer
from tonnage.size.strategies import sizer
from tonnage.size.time_limits import time_ladder

__all__ = ["Sized", "follows_request", "size"]

_OPTIMISED = ("auto", "ladder", "min-waste", "max-throughput", "brute-force", "regression")
_NEEDS_MACHINE = ("whole-machine", "doubling")
_FEW = 10
_BEYOND = 2.0
"""Where the size of machines is unknown, the last attempt gets this many times the largest peak."""
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Sized:
    """What the jobs of a category should be given of one resource, and what that would have cost."""

    category: str
    decision: Decision
    largest: float
    """The most that a job is known to need."""
    requested: float | None
    """What jobs usually requested."""
    left_out: int
    """Jobs that say nothing: they did not finish, or were not measured."""
    saved: float
    """How much less would have been paid for, in amounts times seconds."""
    compared_with: Literal["requested", "max-seen"]
    """Less than what: than was requested, or than if all jobs had been given the largest peak."""
    warnings: tuple[str, ...]
    """What everybody should know before they follow the decision."""
    notes: tuple[str, ...]
    """What else is known about it."""

    def facts(self) -> dict[str, object]:
        """Return all of it as plain values."""
        decision = self.decision
        unit = HOURS.get(decision.resource.unit)
        return {
            "category": self.category,
            "resource": str(decision.resource),
            "strategy": decision.strategy,
            "samples": decision.samples,
            "ladder": list(decision.ladder),
            "expected_waste": decision.expected_waste,
            "expected_retries": decision.expected_retries,
            "reason": decision.reason,
            "largest": self.largest,
            "requested": self.requested,
            "left_out": self.left_out,
            "saved": self.saved / unit[0] if unit else None,
            "saved_unit": unit[1] if unit else None,
            "saved_against": self.compared_with if unit else None,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def size(histories: Mapping[str, History], plan: Plan) -> list[Sized]:
    """Return a decision for each category and each resource that is known of it, the largest savings first."""
    drafts = [
        draft
        for category, history in histories.items()
        for resource in _resources(plan)
        if (draft := _draft(category, resource, history, plan)) is not None
    ]
    if plan.fair_share:
        drafts = _with_fair_shares(drafts, plan)
    found = [_sized(draft, plan) for draft in drafts]
    return sorted(found, key=lambda one: (plan.resources.index(one.decision.resource), -one.saved, one.category))


def _resources(plan: Plan) -> tuple[Resource, ...]:
    """Return what can be sized: where a strategy gives what the user says, only what was said."""
    known = {"declared": plan.declared, "whole-machine": plan.machine, "doubling": plan.machine}.get(plan.strategy)
    return tuple(resource for resource in plan.resources if resource in known) if known else plan.resources


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """What a category is to be tried with, before it is known what others are."""

    category: str
    resource: Resource
    usage: Usage
    strategy: str
    ladder: Ladder
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def _draft(category: str, resource: Resource, history: History, plan: Plan) -> _Draft | None:
    usage = Usage.of(history, resource)
    if not len(usage):
        return None
    capacity = _capacity(category, resource, usage, plan)
    strategy, ladder, told = _ladder(resource, usage, capacity, plan)
    notes = (*told, *_doubts(usage))
    warnings = tuple(_warnings(resource, usage, strategy, history))
    return _Draft(category, resource, usage, strategy, ladder, warnings, notes)


def _capacity(category: str, resource: Resource, usage: Usage, plan: Plan) -> float:
    """Return how much a job can get at most; raises InputError where a job has needed more."""
    largest = float(usage.peaks.max())
    capacity = plan.machine.get(resource)
    if capacity is None:
        if plan.strategy in _NEEDS_MACHINE:
            raise InputError(
                f"{plan.strategy} must know how much {resource} a machine has", hint=f"--machine {resource}=..."
            )
        declared = plan.declared.get(resource, 0.0) if plan.strategy == "declared" else 0.0
        return max(_BEYOND * max(largest, least(resource)), declared, 1.0)
    capacity = possible(resource, capacity)
    if usage.ran_out:  # what those need is a guess
        return capacity
    if largest > capacity:
        raise InputError(
            f'a job of the category "{category}" used {resource.shown(largest)} of {resource}, '
            f"and the largest machine has {resource.shown(capacity)}: it fits nowhere",
            hint="name a larger --machine, or leave such jobs out with --where",
        )
    return capacity


def _ladder(resource: Resource, usage: Usage, capacity: float, plan: Plan) -> tuple[str, Ladder, list[str]]:
    """Return by which strategy jobs are sized, what they are tried with, and what their inputs tell."""
    peaks = np.minimum(usage.peaks, capacity)
    optimised = plan.strategy.startswith(_OPTIMISED)
    if resource is Resource.WALL_TIME and optimised:
        return "guarantee", time_ladder(peaks, max(capacity, _BEYOND * float(peaks.max()))), []
    requests = follows_request(peaks, usage.requested)
    if requests is not None and plan.strategy != "declared":
        most = plan.machine.get(resource, max(capacity, requests[-1]))
        return "requested", escalated(of_rungs(*(min(one, most) for one in requests)), most, _BEYOND), []
    strategy, settings = strategy_for(resource, plan), settings_for(resource, capacity, plan)
    made = sizer(strategy, settings)
    for peak, seconds, inputs in zip(peaks.tolist(), usage.seconds.tolist(), usage.inputs.tolist(), strict=True):
        made.observe(peak, seconds, inputs)
    ladder = practical(made.ladder(), settings)
    return strategy, ladder, _what_inputs_tell(made) if strategy == "auto" else []


def _with_fair_shares(drafts: Sequence[_Draft], plan: Plan) -> list[_Draft]:
    """Return drafts whose first rungs are raised where the rest of the machine would be too small for any job."""
    smallest: dict[Resource, float] = {}
    for draft in drafts:
        smallest[draft.resource] = min(draft.ladder[0], smallest.get(draft.resource, inf))
    return [_with_fair_share(draft, smallest[draft.resource], plan) for draft in drafts]


def _with_fair_share(draft: _Draft, smallest: float, plan: Plan) -> _Draft:
    capacity = plan.machine.get(draft.resource)
    if capacity is None or draft.resource is Resource.WALL_TIME:
        return draft
    first = draft.ladder[0]
    share = fair_share(first, capacity, smallest, whole=draft.resource is Resource.CORES)
    if share == first:
        return draft
    beside = f"{capacity / share:.0f} jobs fit on the machine, and nothing else would"
    note = f"changed from {draft.resource.shown(first)} to a fair share: {beside}"
    ladder = of_rungs(share, *(rung for rung in draft.ladder[1:] if rung > share), draft.ladder[-1])
    return replace(draft, ladder=ladder, notes=(note, *draft.notes))


def _sized(draft: _Draft, plan: Plan) -> Sized:
    usage, ladder = draft.usage, draft.ladder
    weights = fading(len(usage), plan.half_life)
    histogram = Histogram.of(np.minimum(usage.peaks, ladder[-1]), usage.seconds, weights=weights)
    saved, compared_with = _saved(ladder, usage)
    requested = usage.requested[usage.requested >= 0]
    return Sized(
        category=draft.category,
        decision=explained(draft.resource, ladder, draft.strategy, len(usage), histogram),
        largest=float(usage.peaks.max()),
        requested=float(np.median(requested)) if len(requested) else None,
        left_out=usage.left_out,
        saved=saved,
        compared_with=compared_with,
        warnings=draft.warnings,
        notes=draft.notes,
    )


def _saved(ladder: Ladder, usage: Usage) -> tuple[float, Literal["requested", "max-seen"]]:
    """Return what all jobs would have saved, against what they requested where that is known of most."""
    known = usage.requested >= 0
    against: Literal["requested", "max-seen"] = "requested" if known.mean() >= _HALF else "max-seen"
    if against == "max-seen":
        known = np.ones(len(usage), np.bool_)
    peaks, seconds = np.minimum(usage.peaks[known], ladder[-1]), usage.seconds[known]
    before = usage.requested[known] if against == "requested" else np.full(len(peaks), usage.peaks.max())
    return float(before @ seconds) - cost(ladder, Histogram.of(peaks, seconds)).paid, against


def _warnings(resource: Resource, usage: Usage, strategy: str, history: History) -> Iterator[str]:
    if strategy == "requested":
        yield "use follows the request: these jobs take what they are given, so nothing tells what they need"
    if usage.ran_out:
        yield f"{counted(usage.ran_out)} ran out of {resource}: taken to need twice what they had"
    if usage.left_out > len(usage):
        yield f"only {counted(len(usage))} of {len(usage) + usage.left_out:,} finished and were measured"
    if resource is Resource.MEMORY and len(history.memory_methods) > 1:
        ways = ", ".join(f"{name} ({count:,})" for name, count in sorted(history.memory_methods.items()))
        yield f"memory was measured in different ways: {ways}"


def _doubts(usage: Usage) -> Iterator[str]:
    if usage.averaged:
        yield "cores are CPU time by run time: an average, because nobody measured the peak"
    if len(usage) < _FEW:
        yield f"few jobs to learn from: {len(usage)}"
    if usage.left_out:
        yield f"left out, not finished or not measured: {usage.left_out:,}"


def _what_inputs_tell(made: Sizer) -> list[str]:
    """Return that a job's input tells more about it than its category, where it does."""
    weights = made.weights() if isinstance(made, Mixture) else {}
    if not weights or max(weights, key=lambda name: weights[name]) == "constant":
        return []
    models = ", ".join(f"{name} {weight:.0%}" for name, weight in sorted(weights.items(), key=lambda one: -one[1]))
    return [f"input sizes tell more than this one number, where they are known before the run: {models}"]


_ENOUGH_REQUESTS = 6
_SAME_REQUEST = 0.05
"""A part: requests that differ by less are the same."""
_APART = 1.2
"""Requests must differ by this factor, so that it shows whether use differs with them."""
_STEADY = 0.1
"""The part by which use as a part of the request may vary around its median."""
_MOST_STEADY = 0.9


def follows_request(peaks: FloatArray, requested: FloatArray) -> tuple[float, ...] | None:
    """Return the requests to go on with, where jobs use the same part of whatever they request; else None.

    That is so where jobs with clearly different requests used, nearly all of them, the same part of it. The usual
    request and the largest are returned. Where all requests are alike, this cannot be told.
    """
    known = (requested > 0) & (peaks > 0)
    if known.sum() < _ENOUGH_REQUESTS:
        return None
    peaks, requested = peaks[known], requested[known]
    usual = float(np.median(requested))
    other = np.abs(requested - usual) > _SAME_REQUEST * usual
    low, high = np.quantile(requested, [0.1, 0.9])
    if high < _APART * low or other.sum() < _ENOUGH_REQUESTS // 2:
        return None
    share = peaks / requested
    steady = np.abs(share - np.median(share)) <= _STEADY * np.median(share)
    if steady.mean() < _MOST_STEADY:
        return None
    return usual, max(usual, float(requested.max()))
