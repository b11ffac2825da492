"""Ladders: the amounts to try for a job, one after the other."""

from collections.abc import Sequence
from typing import TypeAlias

from tonnage.errors import DoesNotFitError

__all__ = [
    "Ladder",
    "escalated",
    "grown",
    "of_rungs",
    "positive",
    "stretched",
]

Ladder: TypeAlias = tuple[float, ...]
"""Strictly increasing amounts; the last is the most that a job can get."""

_LEAST = 1.0  # byte, core or second: a job cannot be given 0
_TINY = 1e-9
_SAME = 1e-9  # a smaller relative difference between amounts is only rounding


def grown(
    rungs: Sequence[int], ladders: Sequence[Ladder], exhausted: Sequence[bool], *, grow_all: bool = False
) -> list[int]:
    """Return the next rung of each resource: only exhausted resources grow, or with `grow_all` all of them.

    Raises DoesNotFitError if an exhausted resource is at its last rung.
    """
    grown_rungs = []
    for rung, ladder, ran_out in zip(rungs, ladders, exhausted, strict=True):
        last = rung + 1 == len(ladder)
        if last and ran_out:
            raise DoesNotFitError(ladder[rung])
        grown_rungs.append(rung + 1 if not last and (grow_all or ran_out) else rung)
    return grown_rungs


def positive(amount: float) -> float:
    """Return an amount, with 1 byte, core or second in place of 0 or less."""
    return amount if amount > 0 else _LEAST


def of_rungs(*rungs: float) -> Ladder:
    """Build a ladder of amounts in any order; duplicates and amounts that are not positive are dropped."""
    positive = sorted({float(rung) for rung in rungs if rung > 0})
    return tuple(positive) or (_LEAST,)


def escalated(rungs: Ladder, capacity: float, growth: float) -> Ladder:
    """Extend a ladder to `capacity`, each step beyond its last rung `growth` times the previous one."""
    kept = [rung for rung in rungs if rung < capacity]
    step = rungs[-1] * growth
    while step < capacity * (1 - _SAME) and rungs[-1] < capacity:
        kept.append(step)
        step *= growth
    return (*kept, capacity)


def stretched(growth: float, largest: float, capacity: float, steps: float) -> float:
    """Return a growth factor that leads from the largest peak to `capacity` in at most `steps` steps."""
    return max(growth, float((capacity / max(largest, _TINY)) ** (1 / steps)))
