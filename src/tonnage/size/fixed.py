"""Strategies that learn nothing: the whole machine, doubling, what the user declared."""

from tonnage.size.ladders import Ladder, of_rungs

__all__ = ["declared", "doubling", "whole_machine"]

_SHARES = (8, 4, 2, 1)


def whole_machine(capacity: float) -> Ladder:
    """Give every job the whole machine."""
    return (capacity,)


def doubling(capacity: float) -> Ladder:
    """Give an eighth of the machine, then a quarter, a half, and all of it."""
    return of_rungs(*(capacity / share for share in _SHARES))


def declared(amount: float, capacity: float) -> Ladder:
    """Give what the user declared, then everything."""
    return of_rungs(min(amount, capacity), capacity)
