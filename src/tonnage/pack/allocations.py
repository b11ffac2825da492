"""The best allocation of some levels: how many nodes, how long, how much leeway (GLUME's Algorithms 2 and 3)."""

from typing import NamedTuple

import numpy as np

from tonnage.pack.decisions import Settings, Situation, Submission, requested
from tonnage.pack.work import NEVER

__all__ = ["Allocation", "best_allocation", "best_leeway", "on_nodes", "submission"]


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
    return best_leeway(situation, settings, delay, first, last, best + 1, int(runs[best]), int(waits[best]))


def on_nodes(situation: Situation, settings: Settings, first: int, last: int) -> Allocation:
    """Return the allocation of some levels on as many nodes as they are wide, without a leeway."""
    queue = situation.queue
    runs = situation.left.run_times(first, last, queue.nodes)
    run = int(runs[-1])
    return Allocation(first, last, len(runs), run, 0, _wait(situation, settings, first, last, len(runs), run, 0))


def best_leeway(
    situation: Situation, settings: Settings, delay: int, first: int, last: int, nodes: int, run: int, wait: int
) -> Allocation:
    """Add the least extra time with which a job that starts too early lasts long enough all the same.

    A longer job never starts earlier, so the sum of wait and leeway grows with the leeway: a binary search finds where
    it reaches the delay.
    """
    low, high = 0, max(0, delay - wait)
    tolerance = max(1, min(settings.tolerance, run // 10))
    while high - low > tolerance:
        middle = (low + high) // 2
        if middle + _wait(situation, settings, first, last, nodes, run, middle) >= delay:
            high = middle
        else:
            low = middle
    if high:
        wait = _wait(situation, settings, first, last, nodes, run, high)
    return Allocation(first, last, nodes, run, high, wait)


def _wait(situation: Situation, settings: Settings, first: int, last: int, nodes: int, run: int, leeway: int) -> int:
    seconds = _seconds(situation, settings, first, last, nodes, run, leeway)
    return situation.queue.earliest(nodes, seconds) - situation.queue.now


def _seconds(situation: Situation, settings: Settings, first: int, last: int, nodes: int, run: int, leeway: int) -> int:
    """Return what a batch job asks for."""
    return int(requested(run, settings, situation.left.load(first, last)[0], nodes)) + leeway


def submission(situation: Situation, settings: Settings, chosen: Allocation) -> Submission:
    """Return the batch job of an allocation."""
    left = situation.left
    levels = (int(left.levels[chosen.first]), int(left.levels[chosen.last]))
    seconds = _seconds(situation, settings, *chosen[:5])
    tasks = left.tasks(chosen.first, chosen.last)
    return Submission(tasks, levels, chosen.nodes, seconds, chosen.wait, chosen.run, chosen.leeway)
