"""What to request: a decision for each category and each resource, with its reason and its savings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from tonnage.errors import InputError
from tonnage.jobs import HOURS, Decision, History, Resource
from tonnage.size.auto import Mixture
from tonnage.size.costs import cost
from tonnage.size.factory import Plan, explained, least, possible, practical, settings_for, strategy_for
from tonnage.size.histograms import FloatArray, Histogram, fading
from tonnage.size.ladders import Ladder, escalated, of_rungs
from tonnage.size.records import Usage
from tonnage.size.rounding import fair_share
from tonnage.size.sizers import Sizer
from tonnage.size.strategies import sizer
from tonnage.size.time_limits import time_ladder
from tonnage.wording import counted

__all__ = ["Sized", "follows_request", "size"]

_OPTIMISED = ("auto", "ladder", "min-waste", "max-throughput", "brute-force", "regression")
_NEEDS_MACHINE = ("whole-machine", "doubling")
_FEW = 10
_BEYOND = 2.0
"""If the size of machines is unknown, the last attempt gets this many times the largest peak."""
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Sized:
    """How much of one resource the jobs of a category should be given, and what that would have saved."""

    category: str
    decision: Decision
    largest: float
    """The most that any job is known to need."""
    requested: float | None
    """The median request of jobs."""
    left_out: int
    """How many jobs cannot be used: they did not finish, or were not measured."""
    saved: float
    """How much less would have been paid for, in amounts times seconds."""
    compared_with: Literal["requested", "max-seen"]
    """What savings are compared with: the requests, or giving all jobs the largest peak."""
    warnings: tuple[str, ...]
    """What every user should know before following the decision."""
    notes: tuple[str, ...]
    """Further information about the decision."""

    def facts(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
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
    """Return a decision for each category and each of its measured resources, the largest savings first."""
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
    """Return the resources that can be sized: some strategies need a declared amount or the machine's."""
    known = {"declared": plan.declared, "whole-machine": plan.machine, "doubling": plan.machine}.get(plan.strategy)
    return tuple(resource for resource in plan.resources if resource in known) if known else plan.resources


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """The ladder of a category, before it is compared with those of other categories."""

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
    strategy, ladder, input_notes = _ladder(resource, usage, capacity, plan)
    notes = (*input_notes, *_doubts(usage))
    warnings = tuple(_warnings(resource, usage, strategy, history))
    return _Draft(category, resource, usage, strategy, ladder, warnings, notes)


def _capacity(category: str, resource: Resource, usage: Usage, plan: Plan) -> float:
    """Return the most that a job can get; raises InputError if a job has needed more."""
    largest = float(usage.peaks.max())
    capacity = plan.machine.get(resource)
    if capacity is None:
        if plan.strategy in _NEEDS_MACHINE:
            raise InputError(
                f"{plan.strategy} needs to know how much {resource} a machine has", hint=f"use --machine {resource}=..."
            )
        declared = plan.declared.get(resource, 0.0) if plan.strategy == "declared" else 0.0
        return max(_BEYOND * max(largest, least(resource)), declared, 1.0)
    capacity = possible(resource, capacity)
    if usage.ran_out:  # what those need is a guess
        return capacity
    if largest > capacity:
        raise InputError(
            f'a job of the category "{category}" used {resource.format_amount(largest)} of {resource}, '
            f"but the largest machine has only {resource.format_amount(capacity)}: it fits nowhere",
            hint="use a larger --machine, or leave such jobs out with --where",
        )
    return capacity


def _ladder(resource: Resource, usage: Usage, capacity: float, plan: Plan) -> tuple[str, Ladder, list[str]]:
    """Return the strategy used, its ladder, and notes about the jobs' inputs."""
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
    return strategy, ladder, _notes_on_inputs(made) if strategy == "auto" else []


def _with_fair_shares(drafts: Sequence[_Draft], plan: Plan) -> list[_Draft]:
    """Adjust the first rungs of drafts if the rest of the machine would be too small for any job."""
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
    fit = f"{capacity / share:.0f} jobs fit on the machine, with no room for any other"
    note = f"changed from {draft.resource.format_amount(first)} to a fair share: {fit}"
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
    """Return what all jobs would have saved, compared with their requests if most of those are known."""
    known = usage.requested >= 0
    against: Literal["requested", "max-seen"] = "requested" if known.mean() >= _HALF else "max-seen"
    if against == "max-seen":
        known = np.ones(len(usage), np.bool_)
    peaks, seconds = np.minimum(usage.peaks[known], ladder[-1]), usage.seconds[known]
    before = usage.requested[known] if against == "requested" else np.full(len(peaks), usage.peaks.max())
    return float(before @ seconds) - cost(ladder, Histogram.of(peaks, seconds)).paid, against


def _warnings(resource: Resource, usage: Usage, strategy: str, history: History) -> Iterator[str]:
    if strategy == "requested":
        yield "use follows the request: these jobs take whatever they are given, so their real need is unknown"
    if usage.ran_out:
        yield f"{counted(usage.ran_out, 'job')} ran out of {resource}: assumed to need twice what they had"
    if usage.left_out > len(usage):
        yield f"only {counted(len(usage), 'job')} of {len(usage) + usage.left_out:,} finished and were measured"
    if resource is Resource.MEMORY and len(history.memory_methods) > 1:
        ways = ", ".join(f"{name} ({count:,})" for name, count in sorted(history.memory_methods.items()))
        yield f"memory was measured in different ways: {ways}"


def _doubts(usage: Usage) -> Iterator[str]:
    if usage.averaged:
        yield "cores are CPU time divided by run time: an average, because the peak was not measured"
    if len(usage) < _FEW:
        yield f"few jobs to learn from: {len(usage)}"
    if usage.left_out:
        yield f"left out, not finished or not measured: {usage.left_out:,}"


def _notes_on_inputs(made: Sizer) -> list[str]:
    """Return a note if a job's input predicts its peak better than its category does."""
    weights = made.weights() if isinstance(made, Mixture) else {}
    if not weights or max(weights, key=lambda name: weights[name]) == "constant":
        return []
    models = ", ".join(f"{name} {weight:.0%}" for name, weight in sorted(weights.items(), key=lambda one: -one[1]))
    return [f"if input sizes are known before the run, they predict more than this one number: {models}"]


_ENOUGH_REQUESTS = 6
_SAME_REQUEST = 0.05
"""Requests that differ by less than this fraction are the same."""
_APART = 1.2
"""Requests must differ by this factor to show whether use changes with them."""
_STEADY = 0.1
"""The fraction by which use relative to the request may vary around its median."""
_MOST_STEADY = 0.9


def follows_request(peaks: FloatArray, requested: FloatArray) -> tuple[float, ...] | None:
    """Return the median and the largest request if jobs use a constant fraction of whatever they request, else None.

    They do if nearly all jobs, with clearly different requests, used the same fraction of them. If all requests are
    similar, this cannot be known.
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
