"""What may become of a queue: its jobs end as early as such jobs did, and others arrive as in the last weeks.

Only what is known at the moment goes into it: who runs and waits, and what became of those who were here before.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.batch import Cluster, Present, Workload

__all__ = ["futures"]

IntArray: TypeAlias = NDArray[np.int64]

_WEEK = 7 * 86_400
_WEEKS = 3
"""One future for each of the last weeks: fewer leave the choice to chance, and each costs a forecast of everything."""
_ALIKE = 30
"""So many jobs that asked for about as long say how early one ends."""


def futures(cluster: Cluster) -> tuple[Workload, ...]:
    """Return the jobs of some futures: those in the system are submitted at once, those that run first of all.

    All futures know the same history, but each draws anew when jobs end, and lets another week happen again.
    """
    present, seen = cluster.present(), cluster.expected(_WEEKS * _WEEK, _WEEK)
    return tuple(_future(cluster, present, seen, weeks) for weeks in range(1, _WEEKS + 1))


def _future(cluster: Cluster, present: Present, seen: Workload, weeks: int) -> Workload:
    # Of our own jobs no early end is expected: their tasks take what they take.
    run = np.where(present.own, present.request, _drawn(present, seen, np.random.default_rng(weeks)))
    left = [np.maximum(1, time - present.elapsed) for time in (present.request, run)]
    here = np.stack([np.full(len(run), cluster.now), present.nodes, *left])
    return Workload.of(cluster.nodes, np.concatenate([here, _arriving(cluster.now, seen, weeks)], axis=1))


def _drawn(present: Present, seen: Workload, draw: np.random.Generator) -> IntArray:
    """Return how long jobs may run in all: the same part of the request as one of those that asked for about as long.

    A job that has run longer than all of them takes all of its request.
    """
    if not len(seen):
        return present.request
    order = np.argsort(seen.request, kind="stable")
    asked = seen.request[order]
    middle = (np.searchsorted(asked, present.request) + np.searchsorted(asked, present.request, side="right")) // 2
    near = np.clip(middle[:, np.newaxis] + np.arange(-_ALIKE // 2, _ALIKE // 2), 0, len(order) - 1)
    part = (seen.run / seen.request)[order][near]
    times = np.ceil(part * present.request[:, np.newaxis]).astype(np.int64)
    lots = np.where(times > present.elapsed[:, np.newaxis], draw.random(times.shape), -1.0)
    chosen = lots.argmax(axis=1)
    rows = np.arange(len(chosen))
    return np.where(lots[rows, chosen] >= 0, times[rows, chosen], present.request)


def _arriving(now: int, seen: Workload, weeks: int) -> IntArray:
    """Return what arrives within a week if what came from so many weeks ago on happens again."""
    rows = np.stack([seen.submit, seen.nodes, seen.request, seen.run])
    if not len(seen):
        return rows
    # All that was seen happens again from now on, in its order: turned, it begins with a later week.
    span = int(seen.submit[-1]) - now
    rows[0] = now + 1 + (seen.submit - now - 1 - (_WEEKS - weeks) * _WEEK) % span
    rows = rows[:, rows[0] <= now + _WEEK]
    return rows[:, np.argsort(rows[0], kind="stable")]
