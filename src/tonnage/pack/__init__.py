"""Which tasks travel together through a batch queue: GLUME and its rivals."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.pack.decisions import Packed, Settings, Situation, Submission
    from tonnage.pack.packers import ORDERS, PACKERS, simulate
    from tonnage.pack.remaining import Remaining, Work
    from tonnage.pack.simulation import Carried, Outcome
else:
    __getattr__ = exports(__name__)

__all__ = [
    "ORDERS",
    "PACKERS",
    "Carried",
    "Outcome",
    "Packed",
    "Remaining",
    "Settings",
    "Situation",
    "Submission",
    "Work",
    "simulate",
]
