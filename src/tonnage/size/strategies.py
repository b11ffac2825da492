"""Every strategy by the name that it has on the command line."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from tonnage.errors import InputError
from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.size.models import Model
    from tonnage.size.sizers import Sizer, Strategy

__all__ = ["FROM_PEAKS", "OFFLINE", "STRATEGIES", "WITH_OBJECTIVE", "Objective", "Settings", "sizer"]

_MARGIN = 0.05
_ATTEMPT = 0.1
"""What an attempt of `auto` costs beside its amount, as a part of the largest peak: nobody likes to wait twice."""
Objective: TypeAlias = Literal["waste", "throughput"]


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
        from tonnage.size.histograms import ABSURD, check_half_life

        if not 0 < self.capacity < ABSURD:
            raise InputError(f"a machine cannot have {self.capacity:g} of a resource")
        check_half_life(self.half_life)
        if not self.growth > 1:
            raise InputError(f"a retry must get more: the growth cannot be {self.growth:g}")
        if not 0 <= self.width < ABSURD:
            raise InputError(f"a bucket cannot be {self.width:g} wide")


def _from_histogram(strategy: "Strategy") -> "Callable[[Settings], Sizer]":
    def make(settings: Settings) -> "Sizer":
        from tonnage.size.sizers import FromHistogram

        return FromHistogram(
            strategy,
            settings.capacity,
            width=settings.width,
            half_life=settings.half_life,
            growth=settings.growth,
            steps=settings.steps,
            refit=settings.refit,
            patience=settings.patience,
            largest=settings.largest,
        )

    return make


def _mixture(settings: Settings, models: "Sequence[Model]") -> "Sizer":
    from tonnage.size.mixture import Mixture

    return Mixture(
        settings.capacity,
        models=models,
        floor=settings.least,
        attempt_cost=_ATTEMPT if settings.attempt_cost is None else settings.attempt_cost,
        half_life=settings.half_life,
        growth=settings.growth,
        steps=settings.steps,
        patience=settings.patience,
        objective=settings.objective,
    )


def _auto(settings: Settings) -> "Sizer":
    from tonnage.size.models import MODELS

    return _mixture(settings, MODELS)


def _regression(settings: Settings) -> "Sizer":
    from tonnage.size.models import linear

    return _mixture(settings, (linear,))


def _k_means(settings: Settings) -> "Sizer":
    from tonnage.size.buckets import KMeans

    if settings.half_life is not None:
        raise InputError("k-means cannot forget: a half-life has no meaning with it")
    return KMeans(
        settings.capacity,
        buckets=settings.buckets,
        growth=settings.growth,
        steps=settings.steps,
        patience=settings.patience,
        aligned=settings.aligned,
    )


def _same(strategy: str, settings: Settings, *amounts: float) -> "Sizer":
    """Return a sizer that gives every job the ladder of a strategy that looks at no job."""
    from tonnage.size.sizers import Same

    return Same(Deferred(f"tonnage.size.fixed:{strategy}")(*amounts, settings.capacity))


def _declared(settings: Settings) -> "Sizer":
    if settings.declared is None:
        raise InputError(
            "what jobs need is not declared", hint="the strategy declared needs amounts: --declare memory=4GB"
        )
    return _same("declared", settings, settings.declared)


_ladder = Deferred("tonnage.size.optimal:ladder")
_percentile = Deferred("tonnage.size.fixed:percentile")
_max_seen = Deferred("tonnage.size.fixed:max_seen")
_quantized = Deferred("tonnage.size.buckets:quantized")

STRATEGIES: "dict[str, Callable[[Settings], Sizer]]" = {
    "auto": _auto,
    "ladder": lambda settings: _from_histogram(
        partial(_ladder, attempt_cost=settings.attempt_cost or 0.0, objective=settings.objective)
    )(settings),
    "min-waste": _from_histogram(Deferred("tonnage.size.first_allocations:min_waste")),
    "min-waste-independent": _from_histogram(Deferred("tonnage.size.first_allocations:min_waste_independent")),
    "min-waste-slots": _from_histogram(Deferred("tonnage.size.first_allocations:min_waste_slots")),
    "max-throughput": _from_histogram(Deferred("tonnage.size.first_allocations:max_throughput")),
    "max-throughput-slots": _from_histogram(Deferred("tonnage.size.first_allocations:max_throughput_slots")),
    "brute-force-waste": _from_histogram(Deferred("tonnage.size.first_allocations:brute_force_waste")),
    "brute-force-throughput": _from_histogram(Deferred("tonnage.size.first_allocations:brute_force_throughput")),
    "regression": _regression,
    "max-seen": _from_histogram(_max_seen),
    "percentile": lambda settings: _from_histogram(partial(_percentile, share=settings.share))(settings),
    "quantized": lambda settings: _from_histogram(
        partial(_quantized, buckets=settings.buckets, aligned=settings.aligned)
    )(settings),
    "k-means": _k_means,
    "density": _from_histogram(partial(_max_seen, margin=_MARGIN)),  # of jobs that `discover.by_density` has grouped
    "declared": _declared,
    "doubling": lambda settings: _same("doubling", settings),
    "whole-machine": lambda settings: _same("whole_machine", settings),
}
"""How to make a sizer of each strategy."""

WITH_OBJECTIVE = ("auto", "ladder")
"""The strategies that can serve either objective; all others have their own, or none."""
OFFLINE = ("brute-force-waste", "brute-force-throughput", "density")
"""Those that cannot be asked anew after every job: too slow, or they must know all jobs."""
FROM_PEAKS = tuple(name for name in STRATEGIES if name not in ("declared", "density"))
"""Those that need only what jobs used: not what they declare, nor which of them are alike."""


def sizer(strategy: str, settings: Settings) -> "Sizer":
    """Return a new sizer of a strategy that is known by its name."""
    try:
        make = STRATEGIES[strategy]
    except KeyError:
        raise InputError(f'"{strategy}" is not a strategy', hint=f"one of {', '.join(STRATEGIES)}") from None
    return make(settings)
