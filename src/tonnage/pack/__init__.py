"""Decide which tasks share a batch job: GLUME and other packing strategies."""

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
