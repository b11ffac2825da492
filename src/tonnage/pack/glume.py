"""GLUME (Hataishi et al.): group levels so that the estimated makespan is shortest.

`glume` is the paper's Algorithm 1. `best_allocation` is Algorithms 2 and 3: the best batch job for some levels, with
its number of nodes, its time and its leeway. The other packers use it as well.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tonnage.pack.decisions import IntArray, Packed, Settings, Situation, Submission, requested
from tonnage.pack.remaining import NEVER
from tonnage.units import format_seconds

__all__ = [
    "Allocation",
    "best_allocation",
    "best_leeway",
    "best_nodes",
    "glume",
    "on_nodes",
    "submission",
    "too_idle",
    "wait_with",
]

_MOST_LEEWAY = 0.1
"""A split whose leeway is a larger fraction of the run time is not considered: all nodes are idle during a leeway."""


def glume(situation: Situation, settings: Settings) -> Packed:
    """Submit the next levels as one job, so that it and one more job for the rest finish soonest (Algorithm 1)."""
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
    reason = f"estimated to finish in {format_seconds(soonest)}"
    if chosen is not whole:
        reason += f", or {format_seconds(whole.end)} with all levels in one job"
    return Packed((submission(situation, settings, chosen),), reason, estimate=soonest)


class Allocation(NamedTuple):
    """A possible batch job for some levels, with estimated times in seconds."""

    first: int
    last: int
    nodes: int
    run: int
    leeway: int
    wait: int

    @property
    def end(self) -> int:
        """When it is done, in seconds from now."""
        return self.wait + self.leeway + self.run


def best_allocation(situation: Situation, settings: Settings, delay: int, first: int, last: int) -> Allocation:
    """Return the allocation of these levels that finishes first, if their tasks can start after `delay` seconds."""
    return best_leeway(situation, settings, delay, best_nodes(situation, settings, delay, first, last))


def best_nodes(situation: Situation, settings: Settings, delay: int, first: int, last: int) -> Allocation:
    """Return the allocation of these levels on the number of nodes that finishes first, without a leeway."""
    queue = situation.queue
    runs = situation.left.run_times(first, last, queue.nodes)
    nodes = np.arange(1, len(runs) + 1)
    tasks, use = situation.left.load(first, last)
    waits = queue.earliest_many(nodes, requested(runs, settings, tasks, nodes)) - queue.now
    ends = np.maximum(delay, waits) + runs
    ends[too_idle(use, runs, settings)] = NEVER
    best = int(np.argmin(ends))
    return Allocation(first, last, best + 1, int(runs[best]), 0, int(waits[best]))


def on_nodes(situation: Situation, settings: Settings, first: int, last: int) -> Allocation:
    """Return the allocation of these levels on as many nodes as they can keep busy, without a leeway."""
    runs = situation.left.run_times(first, last, situation.queue.nodes)
    _, use = situation.left.load(first, last)
    most = int(np.flatnonzero(~too_idle(use, runs, settings)).max(initial=0))
    widest = Allocation(first, last, most + 1, int(runs[most]), 0, 0)
    return widest._replace(wait=wait_with(situation, settings, widest, 0))


def too_idle(use: int, runs: IntArray, settings: Settings) -> NDArray[np.bool_]:
    """Return for which of 1, 2, ... nodes tasks that use this many node-seconds would leave too much idle.

    Tasks that share nodes can leave too much idle even on one node; it is used nevertheless, as there is no less.
    """
    return use < settings.min_utilisation * np.arange(1, len(runs) + 1) * runs


def best_leeway(situation: Situation, settings: Settings, delay: int, chosen: Allocation) -> Allocation:
    """Add the least extra time with which a job that starts too early still lasts long enough.

    A longer job never starts earlier, so the sum of wait and leeway grows with the leeway, and a binary search finds
    where it reaches the delay.
    """
    low, high = 0, max(0, delay - chosen.wait)
    tolerance = max(1, min(settings.tolerance, chosen.run // 10))
    while high - low > tolerance:
        middle = (low + high) // 2
        if middle + wait_with(situation, settings, chosen, middle) >= delay:
            high = middle
        else:
            low = middle
    return chosen._replace(leeway=high, wait=wait_with(situation, settings, chosen, high)) if high else chosen


def wait_with(situation: Situation, settings: Settings, chosen: Allocation, leeway: int) -> int:
    """Return how long an allocation waits in the queue with this leeway."""
    seconds = _seconds(situation, settings, chosen) + leeway
    return situation.queue.earliest(chosen.nodes, seconds) - situation.queue.now


def _seconds(situation: Situation, settings: Settings, chosen: Allocation) -> int:
    """Return the time that an allocation requests, without its leeway."""
    tasks, _ = situation.left.load(chosen.first, chosen.last)
    return int(requested(chosen.run, settings, tasks, chosen.nodes))


def submission(situation: Situation, settings: Settings, chosen: Allocation) -> Submission:
    """Return the batch job of an allocation."""
    left = situation.left
    levels = (int(left.levels[chosen.first]), int(left.levels[chosen.last]))
    seconds = _seconds(situation, settings, chosen) + chosen.leeway
    tasks = left.tasks(chosen.first, chosen.last)
    return Submission(tasks, levels, chosen.nodes, seconds, chosen.wait, chosen.run, chosen.leeway)
