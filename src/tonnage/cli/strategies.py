"""The names of strategies, for every verb that takes one: known here without loading what they need."""

from typing import TYPE_CHECKING

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.size import Objective

__all__ = ["STRATEGY_NAMES", "check_objective", "check_share"]

STRATEGY_NAMES = (
    "auto",
    "ladder",
    "min-waste",
    "min-waste-independent",
    "min-waste-slots",
    "max-throughput",
    "max-throughput-slots",
    "brute-force-waste",
    "brute-force-throughput",
    "regression",
    "max-seen",
    "percentile",
    "quantized",
    "k-means",
    "density",
    "declared",
    "doubling",
    "whole-machine",
)


def check_share(share: float) -> float:
    """Return a part of the jobs that a percentile can cover; raises InputError."""
    if not 0 < share <= 1:
        raise InputError(f"--percentile: a share of the jobs is above 0 and at most 1, not {share:g}")
    return share


def check_objective(objective: str | None, strategy: str) -> "Objective":
    """Return the objective that a strategy is to serve; raises InputError where it has its own."""
    from tonnage.size import WITH_OBJECTIVE

    if objective is not None and strategy not in WITH_OBJECTIVE:
        raise InputError(
            f"--objective has no meaning with the strategy {strategy}",
            hint=f"it is for {' and '.join(WITH_OBJECTIVE)}; other strategies have their own, or none",
        )
    return "throughput" if objective == "throughput" else "waste"
