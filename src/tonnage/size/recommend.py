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
from tonnage.size.factory import (
    Plan,
    explained,
    learns_rungs,
    least,
    possible,
    practical,
    settings_for,
    strategy_for,
)
from tonnage.size.histograms import FloatArray, Histogram, fading
from tonnage.size.ladders import Ladder, escalated, of_rungs
from tonnage.size.records import Usage
from tonnage.size.rounding import apart, fair_share, few, rounded_up
from tonnage.size.sizers import Sizer
from tonnage.size.strategies import sizer
from tonnage.size.time_limits import time_ladder
from tonnage.size.tools import OWN, Tool
from tonnage.wording import counted

__all__ = ["Sized", "follows_request", "size"]

_OPTIMISED = ("auto", "ladder", "min-waste", "max-throughput", "brute-force", "regression")
_NEEDS_MACHINE = ("whole-machine", "doubling")
_REQUESTED = "requested"
_SAME = 1 + 1e-9  # a larger factor between amounts is more than rounding
_FEW = 10
_CLEARLY = 1.25
"""A request that is this many times the largest peak is enough for the last attempt, and known to fit somewhere."""
_BEYOND = 2.0
"""If the size of machines is unknown, the last attempt gets this many times the largest peak."""
_HALF = 0.5
_SMALL_SHARES = 10
"""The number of jobs on a machine from which on people do not ask for exact shares of it."""


@dataclass(frozen=True, slots=True)
class Sized:
    """How much of one resource the jobs of a category should be given, and what that would have saved."""

    category: str
    decision: Decision
    largest: float
    """The most that any job is known to need."""
    used: float | None
    """The most that any job was seen to use."""
    requested: float | None
    """The median request of jobs."""
    left_out: int
    """How many jobs cannot be used: they did not finish, or were not measured."""
    ran_out: int
    """How many of the jobs ran out of it."""
    saved: float
    """How much less would have been paid for, in amounts times seconds; 0 for run times, which cost nothing."""
    added: float
    """How much more would have been paid for."""
    compared_with: Literal["requested", "max-seen"]
    """What costs are compared with: the requests, or giving all jobs the largest peak."""
    tool: Tool
    """Whose units the amounts are rounded in."""
    warnings: tuple[str, ...]
    """What every user should know before following the decision."""
    notes: tuple[str, ...]
    """Further information about the decision."""

    @property
    def costs(self) -> bool:
        """Whether the resource is paid for, in amounts times run times."""
        return self.decision.resource.unit in HOURS

    def format_amount(self, amount: float) -> str:
        """Format an amount for people, in the units of the tool."""
        return self.tool.format_amount(self.decision.resource, amount)

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
            "used": self.used,
            "requested": self.requested,
            "left_out": self.left_out,
            "ran_out": self.ran_out,
            "saved": self.saved / unit[0] if unit else None,
            "added": self.added / unit[0] if unit else None,
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
    return sorted(
        found, key=lambda one: (plan.resources.index(one.decision.resource), one.added - one.saved, one.category)
    )


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
    needs: FloatArray
    """What each job needs there: its peak, and what the tool takes beside it."""
    strategy: str
    ladder: Ladder
    enough: float
    """The first rung before it was rounded."""
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def _draft(category: str, resource: Resource, history: History, plan: Plan) -> _Draft | None:
    usage = Usage.of(history, resource)
    if not len(usage):
        return None
    needs = usage.peaks + (plan.tool.beside_of(resource) if plan.tool else 0.0)
    capacity = _capacity(category, resource, usage, needs, plan)
    strategy, exact, input_notes = _ladder(resource, usage, np.minimum(needs, capacity), capacity, plan)
    ladder = exact if plan.tool is None else _rounded(exact, resource, strategy, plan.tool, plan)
    return _Draft(
        category,
        resource,
        usage,
        needs,
        strategy,
        ladder,
        exact[0],
        warnings=tuple(_warnings(resource, usage, strategy, history)),
        notes=(*input_notes, *_doubts(usage)),
    )


def _capacity(category: str, resource: Resource, usage: Usage, needs: FloatArray, plan: Plan) -> float:
    """Return the most that a job can get; raises InputError if a job has needed more."""
    largest = float(usage.peaks.max())
    capacity = plan.machine.get(resource)
    if capacity is None:
        if plan.strategy in _NEEDS_MACHINE:
            raise InputError(
                f"{plan.strategy} needs to know how much {resource} a machine has", hint=f"use --machine {resource}=..."
            )
        declared = plan.declared.get(resource, 0.0) if plan.strategy == "declared" else 0.0
        largest = max(float(needs.max()), _least(resource, plan))
        return max(min(_BEYOND * largest, _proven(largest, usage, plan)), declared, 1.0)
    capacity = possible(resource, capacity)
    if usage.ran_out:  # what those need is a guess
        return capacity
    if largest > capacity:
        shown = (plan.tool or OWN).format_amount
        raise InputError(
            f'a job of the category "{category}" used {shown(resource, largest)} of {resource}, '
            f"but the largest machine has only {shown(resource, capacity)}: it fits nowhere",
            hint="use a larger --machine, or leave such jobs out with --where",
        )
    return capacity


def _proven(largest: float, usage: Usage, plan: Plan) -> float:
    """Return what some job requested if that is clearly enough: a retry that asks for more may fit on no machine."""
    requested = usage.requested[usage.requested >= 0]
    asked = float(requested.max()) if len(requested) and plan.tool is not None else 0.0
    return asked if asked >= _CLEARLY * largest else inf


def _least(resource: Resource, plan: Plan) -> float:
    """Return the least that a job gets."""
    return plan.minimum.get(resource, plan.tool.least_of(resource) if plan.tool else least(resource))


def _ladder(
    resource: Resource, usage: Usage, needs: FloatArray, capacity: float, plan: Plan
) -> tuple[str, Ladder, list[str]]:
    """Return the strategy used, its ladder, and notes about the jobs' inputs."""
    optimised = plan.strategy.startswith(_OPTIMISED)
    if resource is Resource.WALL_TIME and optimised:
        return "guarantee", time_ladder(needs, max(capacity, _BEYOND * float(needs.max()))), []
    requests = follows_request(np.minimum(usage.peaks, capacity), usage.requested)
    if requests is not None and plan.strategy != "declared":
        most = plan.machine.get(resource, max(capacity, requests[-1]))
        return _REQUESTED, escalated(of_rungs(*(min(one, most) for one in requests)), most, _BEYOND), []
    strategy, settings = strategy_for(resource, plan), settings_for(resource, capacity, plan)
    settings = replace(settings, least=min(_least(resource, plan) / _growth(resource, strategy, plan), capacity))
    made = sizer(strategy, settings)
    for need, seconds, inputs in zip(needs.tolist(), usage.seconds.tolist(), usage.inputs.tolist(), strict=True):
        made.observe(need, seconds, inputs)
    ladder = practical(made.ladder(), settings)
    return strategy, ladder, _notes_on_inputs(made) if strategy == "auto" else []


def _rounded(ladder: Ladder, resource: Resource, strategy: str, tool: Tool, plan: Plan) -> Ladder:
    """Return a ladder as people would write it for a tool: with headroom, not below the minimum, and rounded."""
    most = plan.machine.get(resource, inf)
    most = possible(resource, most) if most < inf else most
    if resource is Resource.CORES:  # with too few of them a job is slow; it does not fail
        return (tool.rounded(resource, max(ladder[0], _least(resource, plan)), most),)
    if strategy == _REQUESTED:  # what the user wrote
        return of_rungs(*(tool.limited(resource, rung, most) for rung in ladder))
    at_least, growth = _least(resource, plan), _growth(resource, strategy, plan)
    rungs = of_rungs(*(rung * growth for rung in ladder))
    if plan.unit and resource.unit == "bytes":
        rungs = rounded_up(of_rungs(*(max(rung, at_least) for rung in rungs)), plan.unit, most)
        return of_rungs(*(tool.limited(resource, rung, most) for rung in rungs))
    above = (tool.rounded(resource, rung) for rung in rungs if rung > at_least * _SAME)
    kept = [max(rung, at_least) for rung in above] if rungs[0] > at_least * _SAME else [at_least, *above]
    rungs = of_rungs(*(tool.limited(resource, rung, most) for rung in kept))
    return _thinned(rungs, plan)


def _thinned(ladder: Ladder, plan: Plan) -> Ladder:
    """Keep rungs that are still well apart after they were changed; those of a published rule stay as they are."""
    return apart(few(ladder)) if plan.tool is not None and learns_rungs(plan.strategy) else ladder


def _growth(resource: Resource, strategy: str, plan: Plan) -> float:
    """Return the factor of the headroom: cores and shares of a machine get none."""
    return 1.0 if resource is Resource.CORES or strategy in _NEEDS_MACHINE else 1.0 + plan.headroom


def _with_fair_shares(drafts: Sequence[_Draft], plan: Plan) -> list[_Draft]:
    """Adjust the first rungs of drafts if the rest of the machine would be too small for any job."""
    smallest: dict[Resource, float] = {}
    for draft in drafts:
        smallest[draft.resource] = min(draft.ladder[0], smallest.get(draft.resource, inf))
    return [_with_fair_share(draft, smallest[draft.resource], plan) for draft in drafts]


def _with_fair_share(draft: _Draft, smallest: float, plan: Plan) -> _Draft:
    resource = draft.resource
    capacity = plan.machine.get(resource)
    if capacity is None or resource is Resource.WALL_TIME:
        return draft
    first, enough = draft.ladder[0], inf
    if plan.tool is not None:
        if first * _SMALL_SHARES < capacity:  # with so many jobs, one more is not worth an odd amount
            return draft
        enough = max(draft.enough * _growth(resource, draft.strategy, plan), _least(resource, plan))
    share = fair_share(first, capacity, smallest, whole=resource is Resource.CORES, enough=enough)
    if plan.tool is not None and resource is not Resource.CORES:
        share = _written_share(share, first, plan.tool)
    if share == first or share < plan.minimum.get(resource, 0.0):
        return draft
    shown = (plan.tool or OWN).format_amount
    fit = f"{capacity / share:.0f} jobs fit on the machine, with no room for any other"
    note = f"changed from {shown(resource, first)} to a fair share: {fit}"
    ladder = _thinned(of_rungs(share, *(rung for rung in draft.ladder[1:] if rung > share)), plan)
    return replace(draft, ladder=ladder, notes=(note, *draft.notes))


def _written_share(share: float, first: float, tool: Tool) -> float:
    """Round a share of a machine down, if it is larger than the first rung as people write it, else to whole MB."""
    if share > first:
        return max(first, tool.rounded_down(share))
    return share if share == first else share // tool.megabyte * tool.megabyte


def _sized(draft: _Draft, plan: Plan) -> Sized:
    usage, ladder, tool, resource = draft.usage, draft.ladder, plan.tool or OWN, draft.resource
    weights = fading(len(usage), plan.half_life)
    histogram = Histogram.of(np.minimum(draft.needs, ladder[-1]), usage.seconds, weights=weights)
    saved, compared_with = _saved(draft, plan) if resource.unit in HOURS else (0.0, "requested")
    requested = usage.requested[usage.requested >= 0]
    return Sized(
        category=draft.category,
        decision=explained(
            resource,
            ladder,
            draft.strategy,
            len(usage),
            histogram,
            shown=lambda amount: tool.format_amount(resource, amount),
        ),
        largest=float(usage.peaks.max()),
        used=usage.seen,
        requested=float(np.median(requested)) if len(requested) else None,
        left_out=usage.left_out,
        ran_out=usage.ran_out,
        saved=max(0.0, saved),
        added=max(0.0, -saved),
        compared_with=compared_with,
        tool=tool,
        warnings=draft.warnings,
        notes=draft.notes,
    )


def _saved(draft: _Draft, plan: Plan) -> tuple[float, Literal["requested", "max-seen"]]:
    """Return what all jobs would have saved, compared with their requests if most of those are known."""
    usage, ladder = draft.usage, draft.ladder
    known = usage.requested >= 0
    against: Literal["requested", "max-seen"] = "requested" if known.mean() >= _HALF else "max-seen"
    if against == "max-seen":
        known = np.ones(len(usage), np.bool_)
    needs, seconds = np.minimum(draft.needs[known], ladder[-1]), usage.seconds[known]
    largest = float(draft.needs.max())
    if plan.tool is not None:  # which would be rounded too
        largest = _rounded(of_rungs(largest), draft.resource, "max-seen", plan.tool, replace(plan, headroom=0.0))[0]
    before = usage.requested[known] if against == "requested" else np.full(len(needs), largest)
    return float(before @ seconds) - cost(ladder, Histogram.of(needs, seconds)).paid, against


def _warnings(resource: Resource, usage: Usage, strategy: str, history: History) -> Iterator[str]:
    if strategy == _REQUESTED:
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
