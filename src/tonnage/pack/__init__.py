"""Which tasks travel together through a batch queue: GLUME and its rivals."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.pack.crossing import Carried, Outcome
    from tonnage.pack.decisions import Packed, Settings, Situation, Submission
    from tonnage.pack.packers import ORDERS, PACKERS, cross
    from tonnage.pack.work import Left, Work
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
