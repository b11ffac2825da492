"""The best allocation of some levels: how many nodes, how long, how much leeway (GLUME's Algorithms 2 and 3)."""

from typing import NamedTuple

import numpy as np

from tonnage.pack.decisions import Settings, Situation, Submission, requested
from tonnage.pack.work import NEVER

__all__ = ["Allocation", "best_allocation", "best_leeway", "best_nodes", "on_nodes", "submission", "wait_with"]


class Allocation(NamedTuple):
    """A batch job for some levels as it is estimated: times in seconds."""

    first: int
    last: int
    nodes: int
    run: int
    leeway: int
    wait: int

    @property
    def end(self) -> int:
        """When it is done, from now on."""
        return self.wait + self.leeway + self.run


def best_allocation(situation: Situation, settings: Settings, delay: int, first: int, last: int) -> Allocation:
    """Return the allocation of some levels that is done first, if it may start after `delay` seconds."""
    return best_leeway(situation, settings, delay, best_nodes(situation, settings, delay, first, last))


def best_nodes(situation: Situation, settings: Settings, delay: int, first: int, last: int) -> Allocation:
    """Return the allocation of some levels on the number of nodes that is done first, without a leeway."""
    queue = situation.queue
    runs = situation.left.run_times(first, last, queue.nodes)
    nodes = np.arange(1, len(runs) + 1)
    tasks, total = situation.left.load(first, last)
    waits = queue.earliest_many(nodes, requested(runs, settings, tasks, nodes)) - queue.now
    ends = np.maximum(delay, waits) + runs
    if settings.min_utilisation:
        # One node is always in use, so there is one that will do.
        ends[total < settings.min_utilisation * nodes * runs] = NEVER
    best = int(np.argmin(ends))
    return Allocation(first, last, best + 1, int(runs[best]), 0, int(waits[best]))


def on_nodes(situation: Situation, settings: Settings, first: int, last: int) -> Allocation:
    """Return the allocation of some levels on as many nodes as they are wide, without a leeway."""
    queue = situation.queue
    runs = situation.left.run_times(first, last, queue.nodes)
    widest = Allocation(first, last, len(runs), int(runs[-1]), 0, 0)
    return widest._replace(wait=wait_with(situation, settings, widest, 0))


def best_leeway(situation: Situation, settings: Settings, delay: int, chosen: Allocation) -> Allocation:
    """Add the least extra time with which a job that starts too early lasts long enough all the same.

    A longer job never starts earlier, so the sum of wait and leeway grows with the leeway: a binary search finds where
    it reaches the delay.
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
    """Return how long an allocation waits with such a leeway."""
    seconds = _seconds(situation, settings, chosen) + leeway
    return situation.queue.earliest(chosen.nodes, seconds) - situation.queue.now


def _seconds(situation: Situation, settings: Settings, chosen: Allocation) -> int:
    """Return what an allocation asks for, without its leeway."""
    tasks, _ = situation.left.load(chosen.first, chosen.last)
    return int(requested(chosen.run, settings, tasks, chosen.nodes))


def submission(situation: Situation, settings: Settings, chosen: Allocation) -> Submission:
    """Return the batch job of an allocation."""
    left = situation.left
    levels = (int(left.levels[chosen.first]), int(left.levels[chosen.last]))
    seconds = _seconds(situation, settings, chosen) + chosen.leeway
    tasks = left.tasks(chosen.first, chosen.last)
    return Submission(tasks, levels, chosen.nodes, seconds, chosen.wait, chosen.run, chosen.leeway)
