"""The plain ways: each task on its own, all tasks in one batch job, or one batch job after the other for each level."""

import numpy as np

from tonnage.pack.allocations import best_allocation, submission
from tonnage.pack.decisions import Packed, Settings, Situation, Submission, requested
from tonnage.units import format_seconds

__all__ = ["level_by_level", "one_job", "per_task"]


def per_task(situation: Situation, settings: Settings) -> Packed:
    """Each task as a batch job of its own, as soon as what it waits for is done."""
    left, queue = situation.left, situation.queue
    ready = left.tasks(0, 0) if situation.ready is None else situation.ready
    if not len(ready):
        return Packed(singly=True)
    chosen = ready[: situation.room]
    seconds = requested(left.work.seconds[chosen], settings)
    waits = queue.earliest_many(np.ones(len(chosen), np.int64), seconds) - queue.now
    level, run = left.work.graph.level, left.work.seconds
    jobs = tuple(
        Submission(
            chosen[place : place + 1],
            (int(level[task]),) * 2,
            1,
            int(seconds[place]),
            int(waits[place]),
            int(run[task]),
        )
        for place, task in enumerate(chosen.tolist())
    )
    return Packed(jobs, f"{len(jobs)} of {len(ready)} tasks that are ready", singly=True)


def one_job(situation: Situation, settings: Settings) -> Packed:
    """All tasks in one batch job, on the number of nodes with which it is done first."""
    if situation.pending or situation.running:
        return Packed()
    chosen = best_allocation(situation, settings, 0, 0, situation.left.last)
    reason = f"done in {format_seconds(chosen.end)} by estimate"
    return Packed((submission(situation, settings, chosen),), reason, estimate=chosen.end)


def level_by_level(situation: Situation, settings: Settings) -> Packed:
    """A batch job for each level, submitted when the level before it is done."""
    if situation.pending or situation.running:
        return Packed()
    chosen = best_allocation(situation, settings, 0, 0, 0)
    reason = f"level done in {format_seconds(chosen.end)} by estimate"
    return Packed(
        (submission(situation, settings, chosen),), reason, estimate=None if situation.left.last else chosen.end
    )
