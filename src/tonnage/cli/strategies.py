"""What options of strategies mean, for every verb that takes them."""

from typing import TYPE_CHECKING

from tonnage.errors import InputError
from tonnage.size.strategies import WITH_OBJECTIVE

if TYPE_CHECKING:
    from tonnage.size import Objective

__all__ = ["check_objective", "check_share"]


def check_share(share: float) -> float:
    """Return a part of the jobs that a percentile can cover; raises InputError."""
    if not 0 < share <= 1:
        raise InputError(f"--percentile: a share of the jobs is above 0 and at most 1, not {share:g}")
    return share


def check_objective(objective: str | None, strategy: str) -> "Objective":
    """Return the objective that a strategy is to serve; raises InputError where it has its own."""
    if objective is not None and strategy not in WITH_OBJECTIVE:
        raise InputError(
            f"--objective has no meaning with the strategy {strategy}",
            hint=f"it is for {' and '.join(WITH_OBJECTIVE)}; other strategies have their own, or none",
        )
    return "throughput" if objective == "throughput" else "waste"
