"""Plans: how jobs are sized, and the resulting settings of the sizer for each resource.

Code that sizes jobs, once for a whole history or task by task, uses this module to configure the sizer of a resource,
to make its ladders practical, and to explain decisions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor
from typing import TYPE_CHECKING

from tonnage.errors import InputError
from tonnage.jobs import GIVEN, Decision, Resource
from tonnage.size.checks import ABSURD, check_half_life
from tonnage.size.ladders import Ladder, of_rungs
from tonnage.size.rounding import LEAST_BYTES, coarse, few, rounded_up
from tonnage.size.strategies import Objective
from tonnage.size.tools import Tool
from tonnage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonnage.size.histograms import Histogram

__all__ = [
    "Plan",
    "Settings",
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
    """The settings of a sizer, in the resource's own unit."""

    capacity: float
    """How much of the resource the largest machine has."""
    objective: Objective = "waste"
    largest: float | None = None
    """What a job gets after exceeding its first allocation; by default the largest peak so far."""
    declared: float | None = None
    """What the user says a job needs."""
    share: float = 0.95
    """The fraction of the jobs that `percentile` covers."""
    buckets: int = 2
    aligned: bool = False
    """Whether each bucket is its own rung, even if it ends at the same peak as the next: resources climb together."""
    width: float = 0.0
    """The width of a histogram bucket; with 0, each bucket holds one peak."""
    least: float = 0.0
    """The least that `auto` and `regression` give: below it, the savings are not worth a retry."""
    half_life: float | None = None
    """After how many jobs a job counts half as much."""
    growth: float = 2.0
    """The factor between attempts beyond the largest peak."""
    steps: float = 3
    """The most such steps until a job gets everything; if more would be needed, each step is larger."""
    attempt_cost: float | None = None
    """The assumed cost of an attempt beside its amount, as a fraction of the largest peak; None for the default."""
    refit: float = 0.05
    """The fraction by which the number of jobs must grow before a strategy is applied to its histogram again."""
    patience: float = 1 / 64
    """The fraction by which it must grow before even a new largest peak counts (peaks may keep rising)."""
    unit: float = 0.0
    """Amounts are multiples of this; 0 allows any amount."""
    parts: int | None = None
    """Amounts are rounded up to one of this many sizes between powers of two; None: they are not rounded."""
    few: bool = False
    """Whether to keep only a few rungs that are well apart."""

    def __post_init__(self) -> None:
        if not 0 < self.capacity < ABSURD:
            raise InputError(f"the capacity of a machine cannot be {self.capacity:g}")
        check_half_life(self.half_life)
        if not self.growth > 1:
            raise InputError(f"the growth of retries must be greater than 1, not {self.growth:g}")
        if not 0 <= self.width < ABSURD:
            raise InputError(f"the width of a bucket cannot be {self.width:g}")


_BY_ITSELF = ("auto", "regression")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How jobs are sized: the strategy, its options, and the largest machine."""

    strategy: str = "auto"
    objective: Objective = "waste"
    resources: tuple[Resource, ...] = GIVEN
    machine: Mapping[Resource, float] = field(default_factory=dict)
    """How much the largest machine has, as far as known."""
    declared: Mapping[Resource, float] = field(default_factory=dict)
    """What the user says a job needs."""
    share: float = 0.95
    buckets: int = 2
    unit: float = 0.0
    """Memory and disk are multiples of this; 0 allows any amount."""
    parts: int | None = None
    """Memory and disk are rounded up to one of this many sizes between powers of two, so that similar jobs match."""
    half_life: float | None = None
    attempt_cost: float | None = None
    """The assumed cost of an attempt in addition to its amount, as a fraction of the largest peak."""
    fair_share: bool = True
    """Whether a job gets more if the rest of the machine would be too small for another job of any category."""
    tool: Tool | None = None
    """Whose units and least amounts `size` uses, rounded for people; None for exact amounts."""
    minimum: Mapping[Resource, float] = field(default_factory=dict)
    """The least that a job gets, in place of the tool's own."""
    headroom: float = 0.0
    """How much more than recommended a job gets, as a fraction; cores excepted."""
    overridden: frozenset[str] | None = None
    """The categories in which a `Learner` may give tasks less than they request; None for all."""
    can_grow: bool = False
    """Whether tasks can outgrow their allocations; tasks about which nothing is known then start with less memory."""

    def __post_init__(self) -> None:
        if not 0 <= self.headroom <= 1:
            raise InputError(f"a headroom must be from 0% to 100%, not {100 * self.headroom:g}%")

    def respects(self, category: str) -> bool:
        """Whether the tasks of a category are never given less than they request."""
        return self.overridden is not None and category not in self.overridden


def possible(resource: Resource, capacity: float) -> float:
    """Return how much of a machine's capacity a job can get: cores only come whole."""
    return max(1.0, float(floor(capacity))) if resource is Resource.CORES else capacity


def least(resource: Resource) -> float:
    """Return the amount of a resource below which nothing is saved."""
    return LEAST_BYTES if resource.unit == "bytes" else 0.0


def strategy_for(resource: Resource, plan: Plan) -> str:
    """Return the name of the strategy that sizes a resource."""
    # A job with too few cores is slow; it does not fail, so there is nothing to learn from retries.
    return "percentile" if plan.strategy in _BY_ITSELF and resource is Resource.CORES else plan.strategy


def settings_for(resource: Resource, capacity: float, plan: Plan) -> Settings:
    """Return the settings of a resource's sizers: the same wherever jobs are sized."""
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
    """Whether a strategy finds its own rungs instead of following a published rule."""
    return strategy in _BY_ITSELF


def practical(ladder: Ladder, settings: Settings) -> Ladder:
    """Round and thin out a sizer's ladder to what a person would write."""
    if settings.unit:
        ladder = rounded_up(ladder, settings.unit, settings.capacity)
    if settings.parts is not None:
        ladder = of_rungs(*(min(coarse(rung, settings.parts), settings.capacity) for rung in ladder))
    return few(ladder) if settings.few else ladder


def explained(
    resource: Resource,
    ladder: Ladder,
    strategy: str,
    samples: int,
    histogram: "Histogram",
    about: str = "",
    shown: "Callable[[float], str] | None" = None,
) -> Decision:
    """Return a decision with its reason: how many jobs fit within the first rung, and how much is wasted.

    The histogram holds the known needs of jobs, none of them above the last rung; its largest amount is what all jobs
    would be given otherwise. `about` describes the jobs if they are not all jobs of the category; `shown` formats
    amounts in other units than usual.
    """
    from tonnage.size.costs import cost

    shown = shown or resource.format_amount
    expected, before = (cost(one, histogram) for one in (ladder, of_rungs(histogram.largest, ladder[-1])))
    reason = (
        f"{strategy} of {counted(samples, 'job')}{about}: {percent(1 - expected.retried_fraction)} stay within "
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


def percent(fraction: float) -> str:
    """Format a fraction as a percentage; only exact zeros and ones become 0% and 100%."""
    if 0 < fraction < 0.005 or 0.995 <= fraction < 1:
        return f"{min(max(fraction, 0.001), 0.999):.1%}"
    return f"{fraction:.0%}"
