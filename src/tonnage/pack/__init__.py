"""Which tasks travel together through a batch queue: GLUME and its rivals."""

from tonnage.pack.crossing import Carried, Outcome
from tonnage.pack.decisions import Packed, Settings, Situation, Submission
from tonnage.pack.packers import PACKERS, cross
from tonnage.pack.work import ORDERS, Left, Work

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
