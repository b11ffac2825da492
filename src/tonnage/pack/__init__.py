"""Which tasks travel together through a batch queue: GLUME and its rivals."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.pack.decisions import Packed, Settings, Situation, Submission
    from tonnage.pack.packers import ORDERS, PACKERS, cross
    from tonnage.pack.remaining import Left, Work
    from tonnage.pack.simulation import Carried, Outcome
else:
    __getattr__ = exports(__name__)

__all__ = [
    "ORDERS",
    "PACKERS",
    "Carried",
    "Left",
    "Outcome",
    "Packed",
    "Settings",
    "Situation",
    "Submission",
    "Work",
    "cross",
]
