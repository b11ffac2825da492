"""Ladders as a person would write them: whole cores, round amounts, few retries, shares of a machine."""

from math import ceil, floor, frexp, inf, ldexp

from tonnage.size.ladders import Ladder, of_rungs

__all__ = ["LEAST_BYTES", "coarse", "fair_share", "few", "rounded_input", "rounded_time", "rounded_up"]

LEAST_BYTES = 2.0**24
"""16 MiB, the least memory or disk that `auto` gives: below it nothing is saved that is worth a retry."""
_LEAST_SECONDS = 600.0
_ROUND_SECONDS = ((4 * 3600.0, 300.0), (86400.0, 900.0), (float("inf"), 3600.0))
"""Run times up to a length are rounded up to a multiple."""
_INPUT_SIZES = 128
"""Inputs are rounded up to this many sizes between powers of two: alike tasks share a decision, made once."""
_NO_INPUT = 0.0
_MOST_RUNGS = 4
_WORTH_IT = 1.01
_LITTLE_LESS = 0.98
_APART = 1.25
"""A retry should get at least this many times more, else it may fail for the same reason."""


def rounded_up(ladder: Ladder, unit: float, capacity: float) -> Ladder:
    """Return a ladder whose rungs are multiples of a unit, but for the last where the capacity is none."""
    return of_rungs(*(min(ceil(rung / unit - 1e-9) * unit, capacity) for rung in ladder))


def rounded_time(seconds: float) -> float:
    """Return a run time as a person would ask for it: at least ten minutes, rounded up to 5, 15 or 60 minutes."""
    unit = next(unit for longest, unit in _ROUND_SECONDS if seconds <= longest)
    return max(_LEAST_SECONDS, ceil(seconds / unit - 1e-9) * unit)


def coarse(amount: float, parts: int) -> float:
    """Return an amount rounded up to one of `parts` sizes between powers of two, so that alike ones are the same."""
    part, power = frexp(amount)
    return ldexp(ceil(part * 2 * parts), power - 1) / parts


def rounded_input(input_bytes: float) -> float:
    """Return the size of an input, rounded up by a hundredth at most; of an unknown one, nothing."""
    return coarse(input_bytes, _INPUT_SIZES) if 0 < input_bytes < inf else _NO_INPUT


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
