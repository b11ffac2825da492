"""GLUME (Hataishi et al.): group levels so that the estimated makespan is least."""

from tonnage.pack.allocations import best_allocation, submission
from tonnage.pack.decisions import Packed, Settings, Situation
from tonnage.units import format_seconds

__all__ = ["glume"]

_MOST_LEEWAY = 0.1
"""A split whose leeway is a larger part of the run time is not considered: all nodes are idle meanwhile."""


def glume(situation: Situation, settings: Settings) -> Packed:
    """The next levels as one job, so that this job and one for all the rest are done first (Algorithm 1)."""
    if situation.pending:
        return Packed()
    last = situation.left.last
    whole = best_allocation(situation, settings, situation.delay, 0, last)
    chosen, soonest = whole, whole.end
    for level in range(last):
        first = best_allocation(situation, settings, situation.delay, 0, level)
        if first.leeway > _MOST_LEEWAY * first.run:
            continue
        second = best_allocation(situation, settings, first.leeway + first.run, level + 1, last)
        if second.leeway > _MOST_LEEWAY * second.run:
            continue
        end = first.wait + second.wait + second.leeway + second.run
        if end < soonest:
            chosen, soonest = first, end
    reason = f"done in {format_seconds(soonest)} by estimate"
    if chosen is not whole:
        reason += f", with all levels in one job in {format_seconds(whole.end)}"
    return Packed((submission(situation, settings, chosen),), reason, estimate=soonest)
