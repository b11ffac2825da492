"""Which task goes first: PRIO and its rivals."""

from tonnage.rank.eligible import Order, curve, is_possible, mean_eligible
from tonnage.rank.methods import METHODS, rank

__all__ = ["METHODS", "Order", "curve", "is_possible", "mean_eligible", "rank"]
