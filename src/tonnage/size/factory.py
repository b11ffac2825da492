"""Plans: how jobs are to be sized, and the settings of a sizer that follow from that for one resource.

Code that sizes jobs, once for a whole history or task by task, gets the sizer of a resource here, makes its ladders
practical, and has decisions explained.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor

from tonnage.errors import InputError
from tonnage.jobs import GIVEN, Decision, Resource
from tonnage.size.histograms import ABSURD, Histogram, check_half_life
from tonnage.size.ladders import Ladder, cost, of_rungs
from tonnage.size.rounding import LEAST_BYTES, coarse, few, rounded_up
from tonnage.size.strategies import Objective

__all__ = [
    "Plan",
    "Settings",
    "counted",
    "explained",
    "learns_rungs",
    "least",
    "percent",
    "possible",
    "practical",
    "settings_for",
    "strategy_for",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a sizer is to keep to, in the resource's own unit."""

    capacity: float
    """All there is of the resource on the largest machine."""
    objective: Objective = "waste"
    largest: float | None = None
    """What a job gets that exceeds its first allocation; by default the largest peak so far."""
    declared: float | None = None
    """What the user says a job needs."""
    share: float = 0.95
    """The part of the jobs that `percentile` covers."""
    buckets: int = 2
    aligned: bool = False
    """Whether each bucket is a rung, even one that ends like the next: where all resources climb together."""
    width: float = 0.0
    """How wide a bucket of the histogram is; with 0 it holds one peak."""
    least: float = 0.0
    """What `auto` and `regression` give at least: below it nothing is saved that is worth a retry."""
    half_life: float | None = None
    """After how many jobs a job counts half as much."""
    growth: float = 2.0
    """How many times more each attempt gets beyond the largest peak."""
    steps: float = 3
    """In how many such steps at most a job gets everything: where they are too many, each is larger."""
    attempt_cost: float | None = None
    """What an attempt is reckoned to cost beside its amount, as a part of the largest peak; None: as is usual."""
    refit: float = 0.05
    """By which part the jobs must have become more before a strategy looks at its histogram again."""
    patience: float = 1 / 64
    """By which part they must be more before even a new largest peak is looked at: where peaks rise and rise."""
    unit: float = 0.0
    """What amounts are a multiple of; with 0 they are any."""
    parts: int | None = None
    """To one of how many sizes between powers of two amounts are rounded up; None: to none."""
    few: bool = False
    """Whether there are only a few rungs, well apart."""

    def __post_init__(self) -> None:
        if not 0 < self.capacity < ABSURD:
            raise InputError(f"a machine cannot have {self.capacity:g} of a resource")
        check_half_life(self.half_life)
        if not self.growth > 1:
            raise InputError(f"a retry must get more: the growth cannot be {self.growth:g}")
        if not 0 <= self.width < ABSURD:
            raise InputError(f"a bucket cannot be {self.width:g} wide")


_BY_ITSELF = ("auto", "regression")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How jobs are to be sized."""

    strategy: str = "auto"
    objective: Objective = "waste"
    resources: tuple[Resource, ...] = GIVEN
    machine: Mapping[Resource, float] = field(default_factory=dict)
    """How much the largest machine has, where that is known."""
    declared: Mapping[Resource, float] = field(default_factory=dict)
    """What the user says a job needs."""
    share: float = 0.95
    buckets: int = 2
    unit: float = 0.0
    """What memory and disk are a multiple of; with 0 they are any amount."""
    parts: int | None = None
    """To one of how many sizes between powers of two memory and disk are rounded up: who asks alike goes together."""
    half_life: float | None = None
    attempt_cost: float | None = None
    """What an attempt is reckoned to cost beside its amount, as a part of the largest peak."""
    fair_share: bool = True
    """Whether a job gets more where less would not let one more job, of whatever category, fit on the machine."""


def possible(resource: Resource, capacity: float) -> float:
    """Return how much of what a machine has a job can get: of cores only whole ones."""
    return max(1.0, float(floor(capacity))) if resource is Resource.CORES else capacity


def least(resource: Resource) -> float:
    """Return the amount of a resource below which nothing is saved."""
    return LEAST_BYTES if resource.unit == "bytes" else 0.0


def strategy_for(resource: Resource, plan: Plan) -> str:
    """Return by which strategy a resource is sized."""
    # A job with too few cores is slow; it does not fail, so there is nothing to learn from retries.
    return "percentile" if plan.strategy in _BY_ITSELF and resource is Resource.CORES else plan.strategy


def settings_for(resource: Resource, capacity: float, plan: Plan) -> Settings:
    """Return what the sizers of a resource keep to: the same wherever jobs are sized."""
    of_bytes = resource.unit == "bytes"
    return Settings(
        capacity=capacity,
        objective=plan.objective,
        declared=plan.declared.get(resource),
        share=plan.share,
        buckets=plan.buckets,
        half_life=plan.half_life,
        least=min(least(resource), capacity),
        attempt_cost=plan.attempt_cost,
        unit=1.0 if resource is Resource.CORES else plan.unit if of_bytes else 0.0,
        parts=plan.parts if of_bytes else None,
        few=learns_rungs(plan.strategy),
    )


def learns_rungs(strategy: str) -> bool:
    """Whether a strategy finds its own rungs, rather than being a rule that was published."""
    return strategy in _BY_ITSELF


def practical(ladder: Ladder, settings: Settings) -> Ladder:
    """Return a sizer's ladder as a person would write it down."""
    if settings.unit:
        ladder = rounded_up(ladder, settings.unit, settings.capacity)
    if settings.parts is not None:
        ladder = of_rungs(*(min(coarse(rung, settings.parts), settings.capacity) for rung in ladder))
    return few(ladder) if settings.few else ladder


def explained(
    resource: Resource, ladder: Ladder, strategy: str, samples: int, histogram: Histogram, about: str = ""
) -> Decision:
    """Return a decision with its reason: how many jobs the first rung is enough for, and what that wastes.

    The histogram is of what jobs need as far as is known, none of it above the last rung; its largest amount is what
    all would have been given else. `about` says which jobs these are, where that is not all.
    """
    shown = resource.shown
    expected, before = (cost(one, histogram) for one in (ladder, of_rungs(histogram.largest, ladder[-1])))
    reason = (
        f"{strategy} of {counted(samples)}{about}: {percent(1 - expected.retried_fraction)} stay within "
        f"{shown(ladder[0])}, the largest needed {shown(histogram.largest)}; "
        f"{percent(expected.waste_fraction)} wasted (max-seen: {percent(before.waste_fraction)})"
    )
    return Decision(
        resource=resource,
        ladder=ladder,
        strategy=strategy,
        samples=samples,
        reason=reason,
        expected_waste=expected.waste_fraction,
        expected_retries=expected.retried_fraction,
    )


def counted(jobs: int) -> str:
    """Print a number of jobs."""
    return "1 job" if jobs == 1 else f"{jobs:,} jobs"


def percent(fraction: float) -> str:
    """Print a part; what is not nothing is not printed as nothing, nor what is not all as all."""
    if 0 < fraction < 0.005 or 0.995 <= fraction < 1:
        return f"{min(max(fraction, 0.001), 0.999):.1%}"
    return f"{fraction:.0%}"
