"""What to ask for: a decision for each category and each resource, with its reason and what it saves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf
from typing import Literal

import numpy as np

from tonnage.errors import InputError
from tonnage.jobs import Decision, History, Resource
from tonnage.size.histograms import FloatArray, Histogram
from tonnage.size.ladders import Cost, Ladder, climbing, cost, escalated, of_rungs
from tonnage.size.mixture import Mixture
from tonnage.size.strategies import Objective, Settings, sizer
from tonnage.size.tail import guarantee
from tonnage.size.tracking import follows_request

__all__ = ["SIZED", "Plan", "Sized", "size"]

SIZED = (Resource.CORES, Resource.MEMORY, Resource.DISK, Resource.WALL_TIME)
"""The resources that a job can be given."""
_OPTIMISED = ("auto", "ladder", "min-waste", "max-throughput", "brute-force", "regression")
_NEEDS_MACHINE = ("whole-machine", "doubling")
_FEW = 10
_LEAST_BYTES = 2.0**26
"""64 MiB: nobody saves anything worth a retry below that."""
_HARDLY = 1.02
_STEPS_BEYOND = 3
"""In so many steps a job that exceeds all that was seen gets the whole machine."""
_BEYOND = 2.0
"""Where nobody says how large machines are, the last attempt gets so many times the largest peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How jobs are to be sized."""

    strategy: str = "auto"
    objective: Objective = "waste"
    resources: tuple[Resource, ...] = SIZED
    machine: Mapping[Resource, float] = field(default_factory=dict)
    """How much the largest machine has, where that is known."""
    declared: Mapping[Resource, float] = field(default_factory=dict)
    """What the user says a job needs."""
    share: float = 0.95
    buckets: int = 2
    width: float = 0.0
    half_life: float | None = None
    fair_share: bool = True
    """Whether a job gets more where less would not let one more job, of whatever category, fit on the machine."""


@dataclass(frozen=True, slots=True)
class Sized:
    """What the jobs of a category should be given of one resource, and what that would have cost."""

    category: str
    decision: Decision
    left_out: int
    """Jobs that say nothing: they did not finish, or nobody measured them."""
    cost: Cost
    saved: float
    """How much less would have been paid for, in amounts times seconds."""
    compared_with: Literal["requested", "max-seen"]
    """Less than what: than was requested, or than if all jobs had been given the largest peak."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Usage:
    """The jobs of a category that finished, and whose use of one resource is known."""

    peaks: FloatArray
    seconds: FloatArray
    inputs: FloatArray
    requested: FloatArray
    left_out: int

    @classmethod
    def of(cls, history: History, resource: Resource) -> "_Usage":
        peaks, seconds = history.used[resource], history.used[Resource.WALL_TIME]
        chosen = history.finished & (peaks >= 0) & (peaks < inf)
        peaks, seconds = peaks[chosen], seconds[chosen]
        if resource is Resource.CORES:
            peaks = np.ceil(peaks - 1e-9)  # nobody is given half a core
        timed = (seconds >= 0) & (seconds < inf)
        # Those of which nobody knows how long they ran count like the others.
        seconds = np.where(timed, seconds, seconds[timed].mean() if timed.any() else 1.0)
        if not seconds.any():
            seconds = np.ones(len(seconds))
        unknown = np.full(len(history), np.nan)
        requested = history.requested.get(resource, unknown)[chosen]
        return cls(peaks, seconds, history.input_bytes[chosen], requested, len(history) - len(peaks))


def size(histories: Mapping[str, History], plan: Plan) -> list[Sized]:
    """Return a decision for each category and each resource that is known of it, the largest savings first."""
    drafts = [
        draft
        for category, history in histories.items()
        for resource in _resources(plan)
        if (draft := _draft(category, resource, history, plan)) is not None
    ]
    if plan.fair_share:
        drafts = [_with_fair_share(draft, drafts, plan) for draft in drafts]
    found = [_sized(draft) for draft in drafts]
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
    usage: _Usage
    strategy: str
    ladder: Ladder
    notes: tuple[str, ...]


def _draft(category: str, resource: Resource, history: History, plan: Plan) -> _Draft | None:
    usage = _Usage.of(history, resource)
    if not len(usage.peaks):
        return None
    strategy, ladder, notes = _ladder(resource, usage, _capacity(category, resource, usage, plan), plan)
    if resource is Resource.CORES:
        ladder = of_rungs(*(ceil(rung - 1e-9) for rung in ladder))
    return _Draft(category, resource, usage, strategy, ladder, (*notes, *_doubts(resource, usage, history)))


def _with_fair_share(draft: _Draft, drafts: Sequence[_Draft], plan: Plan) -> _Draft:
    """Return a draft whose first rung is raised where the rest of the machine would be too small for any job."""
    capacity = plan.machine.get(draft.resource)
    if capacity is None or draft.resource is Resource.WALL_TIME:
        return draft
    first = draft.ladder[0]
    smallest = min(one.ladder[0] for one in drafts if one.resource is draft.resource)
    beside = floor(capacity / first * (1 + 1e-12))
    share = capacity / beside
    if draft.resource is Resource.CORES:
        share = floor(share)
    if capacity - beside * first >= smallest * (1 - 1e-12) or share <= first:
        return draft
    note = f"raised from {draft.resource.shown(first)}: {beside} jobs fit on the machine either way, and nothing else"
    return replace(
        draft, ladder=of_rungs(share, *(rung for rung in draft.ladder if rung > share)), notes=(note, *draft.notes)
    )


def _sized(draft: _Draft) -> Sized:
    usage, ladder = draft.usage, draft.ladder
    histogram = Histogram.of(usage.peaks, usage.seconds)
    expected = cost(ladder, histogram)
    decision = Decision(
        resource=draft.resource,
        ladder=ladder,
        strategy=draft.strategy,
        samples=len(usage.peaks),
        reason=_reason(draft.strategy, expected, cost(of_rungs(histogram.largest), histogram)),
        expected_waste=expected.waste_fraction,
        expected_retries=expected.retried_fraction,
    )
    saved, compared_with = _saved(ladder, expected, usage)
    return Sized(draft.category, decision, usage.left_out, expected, saved, compared_with, draft.notes)


def _capacity(category: str, resource: Resource, usage: _Usage, plan: Plan) -> float:
    """Return how much a job can get at most; raises InputError where a job has needed more."""
    largest = float(usage.peaks.max())
    capacity = plan.machine.get(resource)
    if capacity is None:
        if plan.strategy in _NEEDS_MACHINE:
            raise InputError(
                f"{plan.strategy} must know how much {resource} a machine has", hint=f"--machine {resource}=..."
            )
        return max(_BEYOND * largest, plan.declared.get(resource, 0.0), _least(resource), 1.0)
    if resource is Resource.CORES:
        capacity = max(1.0, float(floor(capacity)))
    if largest > capacity:
        raise InputError(
            f'a job of the category "{category}" used {resource.shown(largest)} of {resource}, '
            f"and the largest machine has {resource.shown(capacity)}: it fits nowhere",
            hint="name a larger --machine, or leave such jobs out with --where",
        )
    return capacity


def _ladder(resource: Resource, usage: _Usage, capacity: float, plan: Plan) -> tuple[str, Ladder, list[str]]:
    """Return what jobs are tried with, by which strategy, and what is to be said about it."""
    if resource is Resource.WALL_TIME and plan.strategy.startswith(_OPTIMISED):
        return "guarantee", escalated(guarantee(usage.peaks), capacity, _BEYOND), []
    requests = follows_request(usage.peaks, usage.requested)
    if requests is not None and plan.strategy != "declared":
        note = "use follows the request: these jobs take what they are given, so nothing tells what they need"
        most = plan.machine.get(resource, max(capacity, requests[-1]))
        return "requested", escalated(of_rungs(*(min(one, most) for one in requests)), most, _BEYOND), [note]
    unit = 1.0 if resource is Resource.CORES else plan.width if resource.unit == "bytes" else 0.0
    made = sizer(
        plan.strategy,
        Settings(
            capacity=capacity,
            objective=plan.objective,
            declared=plan.declared.get(resource),
            share=plan.share,
            buckets=plan.buckets,
            width=unit,
            unit=unit,
            least=min(_least(resource), capacity),
            half_life=plan.half_life,
            growth=max(_BEYOND, (capacity / max(float(usage.peaks.max()), 1e-9)) ** (1 / _STEPS_BEYOND)),
        ),
    )
    for peak, seconds, inputs in zip(usage.peaks.tolist(), usage.seconds.tolist(), usage.inputs.tolist(), strict=True):
        made.observe(peak, seconds, inputs)
    if isinstance(made, Mixture):
        return plan.strategy, _apart(made.ladder()), _what_inputs_tell(made)
    return plan.strategy, made.ladder(), []


def _least(resource: Resource) -> float:
    return _LEAST_BYTES if resource.unit == "bytes" else 0.0


def _apart(ladder: Ladder) -> Ladder:
    """Return a ladder without rungs that are hardly below the next: nobody would write them down."""
    kept = [ladder[-1]]
    for rung in reversed(ladder[:-1]):
        if rung * _HARDLY < kept[-1]:
            kept.append(rung)
    return tuple(reversed(kept))


def _what_inputs_tell(made: Mixture) -> list[str]:
    """Return that a job's input tells more about it than its category, where it does."""
    weights = made.weights()
    if not weights or max(weights, key=lambda name: weights[name]) == "constant":
        return []
    models = ", ".join(f"{name} {weight:.0%}" for name, weight in sorted(weights.items(), key=lambda one: -one[1]))
    return [f"input sizes tell more than this one number, where they are known before the run: {models}"]


def _reason(strategy: str, expected: Cost, before: Cost) -> str:
    return (
        f"{strategy} of {expected.jobs:,.0f} jobs: {_percent(expected.retried_fraction)} retried, "
        f"{_percent(expected.waste_fraction)} wasted (max-seen: {_percent(before.waste_fraction)})"
    )


def _percent(fraction: float) -> str:
    """Print a part; what is not nothing is not printed as nothing."""
    return f"{fraction:.0%}" if fraction == 0 or fraction >= 0.005 else f"{fraction:.1%}"


def _saved(ladder: Ladder, expected: Cost, usage: _Usage) -> tuple[float, Literal["requested", "max-seen"]]:
    """Return what jobs would have saved, against what they requested where that is known."""
    known = usage.requested >= 0
    if not known.any():
        return float(usage.peaks.max() * usage.seconds.sum()) - expected.paid, "max-seen"
    failed = climbing(ladder, usage.peaks[known])
    paid = np.cumsum(ladder)[failed] * usage.seconds[known]
    return float(usage.requested[known] @ usage.seconds[known] - paid.sum()), "requested"


def _doubts(resource: Resource, usage: _Usage, history: History) -> list[str]:
    doubts = []
    if resource is Resource.MEMORY and len(history.memory_methods) > 1:
        ways = ", ".join(f"{name} ({count:,})" for name, count in sorted(history.memory_methods.items()))
        doubts.append(f"memory was measured in different ways: {ways}")
    if len(usage.peaks) < _FEW:
        doubts.append(f"few jobs to learn from: {len(usage.peaks)}")
    if usage.left_out:
        doubts.append(f"left out, not finished or not measured: {usage.left_out:,}")
    return doubts
