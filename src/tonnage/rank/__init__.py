"""Decide which task goes first: PRIO and other ranking methods."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.rank.eligible import Order, curve, is_possible, mean_eligible
    from tonnage.rank.methods import METHODS, rank
else:
    __getattr__ = exports(__name__)

__all__ = ["METHODS", "Order", "curve", "is_possible", "mean_eligible", "rank"]
