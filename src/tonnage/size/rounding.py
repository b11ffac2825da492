"""Practical ladders, as a person would write them: whole cores, round amounts, few retries, shares of a machine."""

from math import ceil, floor, frexp, inf, ldexp

from tonnage.size.ladders import Ladder, of_rungs

__all__ = [
    "LEAST_BYTES",
    "apart",
    "coarse",
    "fair_share",
    "few",
    "rounded_bytes",
    "rounded_down",
    "rounded_input",
    "rounded_time",
    "rounded_up",
]

LEAST_BYTES = 2.0**24
"""16 MiB, the least memory or disk that `auto` gives: below it, the savings are not worth a retry."""
_LEAST_SECONDS = 600.0
_ROUND_SECONDS = ((4 * 3600.0, 300.0), (86400.0, 900.0), (float("inf"), 3600.0))
"""Run times up to the first number are rounded up to a multiple of the second."""
_INPUT_SIZES = 128
"""Inputs are rounded up to this many sizes between powers of two, so that similar tasks share one decision."""
_NO_INPUT = 0.0
_MOST_MEGABYTES = 10_000
"""From this many megabytes on, people write gigabytes."""
_MOST_RUNGS = 4
_WORTH_IT = 1.01
_LITTLE_LESS = 0.98
_APART = 1.25
"""A retry should get at least this many times as much, or it may fail for the same reason."""


def rounded_up(ladder: Ladder, unit: float, capacity: float) -> Ladder:
    """Round rungs up to multiples of a unit, but not beyond the capacity."""
    return of_rungs(*(min(ceil(rung / unit - 1e-9) * unit, capacity) for rung in ladder))


def rounded_bytes(amount: float, base: int) -> float:
    """Round bytes up to an amount that people write: two significant digits of MB or, if whole, of GB.

    A MB is `base` to the power of 2. The amounts of 10 GB and more are whole GB.
    """
    whole = round(amount)  # less than a byte is only an error of floating point
    gigabytes, megabytes = _two_digits_up(whole, base**3), _two_digits_up(whole, base**2)
    return float(min(gigabytes, megabytes) if megabytes < _MOST_MEGABYTES * base**2 else gigabytes)


def _two_digits_up(whole: int, unit: int) -> int:
    """Return the least amount not below this one that has two significant digits in a unit, and is not 0."""
    unit *= _digit(-(-whole // unit))
    return max(1, -(-whole // unit)) * unit


def rounded_down(amount: float, base: int) -> float:
    """Return the largest amount that people write, as in `rounded_bytes`, and that is not more than this one."""
    whole = round(amount)
    gigabytes, megabytes = whole // base**3, whole // base**2
    below = min(megabytes // _digit(megabytes) * _digit(megabytes), _MOST_MEGABYTES // 100 * 99)
    return float(max(gigabytes // _digit(gigabytes) * _digit(gigabytes) * base**3, below * base**2))


def _digit(count: int) -> int:
    """Return the value of the second digit of a number."""
    return int(10 ** max(0, len(str(count)) - 2))


def rounded_time(seconds: float) -> float:
    """Round a run time up as a person would request it: at least ten minutes, in steps of 5, 15 or 60 minutes."""
    unit = next(unit for longest, unit in _ROUND_SECONDS if seconds <= longest)
    return max(_LEAST_SECONDS, ceil(seconds / unit - 1e-9) * unit)


def coarse(amount: float, parts: int) -> float:
    """Round an amount up to one of `parts` sizes between powers of two, so that similar amounts become equal."""
    part, power = frexp(amount)
    return ldexp(ceil(part * 2 * parts), power - 1) / parts


def rounded_input(input_bytes: float) -> float:
    """Round the size of an input up by at most 1 %; an unknown size becomes 0."""
    return coarse(input_bytes, _INPUT_SIZES) if 0 < input_bytes < inf else _NO_INPUT


def few(ladder: Ladder) -> Ladder:
    """Keep a few rungs that are well apart: the first, the last, and at most two in between."""
    kept = [ladder[0]]
    for rung in ladder[1:-1]:
        if rung >= kept[-1] * _APART and len(kept) + 1 < _MOST_RUNGS:
            kept.append(rung)
    return of_rungs(*kept, ladder[-1])


def apart(ladder: Ladder) -> Ladder:
    """Leave out the last rung but one if the last is hardly more."""
    return (*ladder[:-2], ladder[-1]) if len(ladder) > 2 and ladder[-1] < _APART * ladder[-2] else ladder


def fair_share(first: float, capacity: float, smallest: float, *, whole: bool, enough: float = inf) -> float:
    """Adjust a first rung if the rest of a machine would be too small for a job of any category.

    If a little less lets one more job fit, or any less that is `enough`, return that; otherwise the most that lets the
    same number of jobs fit.
    """
    beside = floor(capacity / first * (1 + 1e-12))
    if capacity - beside * first >= smallest * (1 - 1e-12):
        return first
    less, more = capacity / (beside + 1), capacity / beside
    if whole:
        more = floor(more)
    elif less >= min(first * _LITTLE_LESS, enough):
        return less
    return max(first, more) if more >= first * _WORTH_IT else first
