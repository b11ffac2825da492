"""All strategies by their names on the command line."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from tonnage.errors import InputError
from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.size.factory import Settings
    from tonnage.size.models import Model
    from tonnage.size.sizers import Sizer, Strategy

__all__ = ["FROM_PEAKS", "OFFLINE", "STRATEGIES", "WITH_OBJECTIVE", "Objective", "sizer"]

_MARGIN = 0.05
_ATTEMPT = 0.1
"""What an attempt of `auto` costs beside its amount, as a fraction of the largest peak: a retry makes users wait."""
Objective: TypeAlias = Literal["waste", "throughput"]


def _from_histogram(strategy: "Strategy") -> "Callable[[Settings], Sizer]":
    def make(settings: "Settings") -> "Sizer":
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


def _mixture(settings: "Settings", models: "Sequence[Model]") -> "Sizer":
    from tonnage.size.auto import Mixture

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


def _auto(settings: "Settings") -> "Sizer":
    from tonnage.size.models import MODELS

    return _mixture(settings, MODELS)


def _regression(settings: "Settings") -> "Sizer":
    from tonnage.size.models import linear

    return _mixture(settings, (linear,))


def _k_means(settings: "Settings") -> "Sizer":
    from tonnage.size.rules import KMeans

    if settings.half_life is not None:
        raise InputError("k-means does not support a half-life")
    return KMeans(
        settings.capacity,
        buckets=settings.buckets,
        growth=settings.growth,
        steps=settings.steps,
        patience=settings.patience,
        aligned=settings.aligned,
    )


def _same(strategy: str, settings: "Settings", *amounts: float) -> "Sizer":
    """Return a sizer that gives every job the ladder of a strategy without history."""
    from tonnage.size.sizers import Same

    return Same(Deferred(f"tonnage.size.fixed:{strategy}")(*amounts, settings.capacity))


def _declared(settings: "Settings") -> "Sizer":
    if settings.declared is None:
        raise InputError(
            "the strategy declared needs declared amounts", hint="use --declare, for example --declare memory=4GB"
        )
    return _same("declared", settings, settings.declared)


_ladder = Deferred("tonnage.size.optimal:ladder")
_percentile = Deferred("tonnage.size.rules:percentile")
_max_seen = Deferred("tonnage.size.rules:max_seen")
_quantized = Deferred("tonnage.size.rules:quantized")

STRATEGIES: "dict[str, Callable[[Settings], Sizer]]" = {
    "auto": _auto,
    "ladder": lambda settings: _from_histogram(
        partial(_ladder, attempt_cost=settings.attempt_cost or 0.0, objective=settings.objective)
    )(settings),
    "min-waste": _from_histogram(Deferred("tonnage.size.rules:min_waste")),
    "min-waste-independent": _from_histogram(Deferred("tonnage.size.rules:min_waste_independent")),
    "min-waste-slots": _from_histogram(Deferred("tonnage.size.rules:min_waste_slots")),
    "max-throughput": _from_histogram(Deferred("tonnage.size.rules:max_throughput")),
    "max-throughput-slots": _from_histogram(Deferred("tonnage.size.rules:max_throughput_slots")),
    "brute-force-waste": _from_histogram(Deferred("tonnage.size.rules:brute_force_waste")),
    "brute-force-throughput": _from_histogram(Deferred("tonnage.size.rules:brute_force_throughput")),
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
"""Builds the sizer of each strategy."""

WITH_OBJECTIVE = ("auto", "ladder")
"""The strategies that support either objective; all others have their own, or none."""
OFFLINE = ("brute-force-waste", "brute-force-throughput", "density")
"""The strategies that cannot be updated after every job: they are too slow, or need all jobs at once."""
FROM_PEAKS = tuple(name for name in STRATEGIES if name not in ("declared", "density"))
"""The strategies that need only what jobs used: neither declared amounts nor clusters."""


def sizer(strategy: str, settings: "Settings") -> "Sizer":
    """Build the sizer of a strategy, given by its name."""
    try:
        make = STRATEGIES[strategy]
    except KeyError:
        raise InputError(f'"{strategy}" is not a strategy', hint=f"one of {', '.join(STRATEGIES)}") from None
    return make(settings)
