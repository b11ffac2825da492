"""Ladders that somebody would write down: whole cores, round amounts, few retries, shares of a machine."""

from math import ceil, floor, frexp, ldexp

from tonnage.jobs import Resource
from tonnage.size.ladders import Ladder, of_rungs

__all__ = ["LEAST_BYTES", "coarse", "fair_share", "few", "rounded_time", "rounded_up"]

LEAST_BYTES = 2.0**24
"""16 MiB: nobody saves anything worth a retry below that."""
_LEAST_SECONDS = 600.0
_ROUND_SECONDS = ((4 * 3600.0, 300.0), (86400.0, 900.0), (float("inf"), 3600.0))
"""Run times up to a length are rounded up to a multiple."""
_MOST_RUNGS = 4
_WORTH_IT = 1.01
_LITTLE_LESS = 0.98
_APART = 1.25
"""A retry should get so many times more at least, else it may fail for the same reason."""


def rounded_up(ladder: Ladder, resource: Resource, unit: float, capacity: float) -> Ladder:
    """Return a ladder in whole cores, or in multiples of a unit of bytes."""
    if resource is Resource.CORES:
        unit = 1.0
    return of_rungs(*(min(ceil(rung / unit - 1e-9) * unit, capacity) for rung in ladder)) if unit else ladder


def rounded_time(seconds: float) -> float:
    """Return a run time that somebody would ask for: some minutes at least, and in multiples of some."""
    unit = next(unit for longest, unit in _ROUND_SECONDS if seconds <= longest)
    return max(_LEAST_SECONDS, ceil(seconds / unit - 1e-9) * unit)


def coarse(amount: float, parts: int) -> float:
    """Return an amount rounded up to one of so many sizes between powers of two, so that alike ones are the same."""
    part, power = frexp(amount)
    return ldexp(ceil(part * 2 * parts), power - 1) / parts


def few(ladder: Ladder) -> Ladder:
    """Return a ladder of a few rungs that are well apart: the first, the last, and what is needed in between."""
    kept = [ladder[0]]
    for rung in ladder[1:-1]:
        if rung >= kept[-1] * _APART and len(kept) + 1 < _MOST_RUNGS:
            kept.append(rung)
    return of_rungs(*kept, ladder[-1])


def fair_share(first: float, capacity: float, smallest: float, *, whole: bool) -> float:
    """Return a first rung, changed where the rest of a machine would be too small for a job of any category.

    Where a little less lets one more job fit, it is that; else it is as much as no fewer jobs allow.
    """
    beside = floor(capacity / first * (1 + 1e-12))
    if capacity - beside * first >= smallest * (1 - 1e-12):
        return first
    less, more = capacity / (beside + 1), capacity / beside
    if whole:
        more = floor(more)
    elif less >= first * _LITTLE_LESS:
        return less
    return max(first, more) if more >= first * _WORTH_IT else first
