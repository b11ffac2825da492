"""The simple strategies: one batch job per task, one for all tasks, or one after the other for each level."""

import numpy as np

from tonnage.pack.decisions import Packed, Settings, Situation, Submission, requested
from tonnage.pack.glume import best_allocation, submission, too_idle
from tonnage.pack.remaining import NEVER
from tonnage.units import format_seconds

__all__ = ["level_by_level", "one_job", "per_task", "split_level"]

_PARTS = (1, 2, 4, 8)
"""The numbers of batch jobs into which a level can be split."""


def per_task(situation: Situation, settings: Settings) -> Packed:
    """Submit each task as a batch job of its own, as soon as everything it waits for is done."""
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
    return Packed(jobs, f"{len(jobs)} of {len(ready)} ready tasks", singly=True)


def one_job(situation: Situation, settings: Settings) -> Packed:
    """Submit all tasks as one batch job, on the number of nodes with which it finishes first."""
    if situation.pending or situation.running:
        return Packed()
    chosen = best_allocation(situation, settings, 0, 0, situation.left.last)
    reason = f"estimated to finish in {format_seconds(chosen.end)}"
    return Packed((submission(situation, settings, chosen),), reason, estimate=chosen.end)


def level_by_level(situation: Situation, settings: Settings) -> Packed:
    """Submit a batch job for each level, when the level before it is done."""
    if situation.pending or situation.running:
        return Packed()
    chosen = best_allocation(situation, settings, 0, 0, 0)
    reason = f"level estimated to finish in {format_seconds(chosen.end)}"
    estimate = None if situation.left.last else chosen.end
    return Packed((submission(situation, settings, chosen),), reason, estimate=estimate)


def split_level(situation: Situation, settings: Settings) -> Packed:
    """Submit level by level, each split into the number of jobs that finishes first: small jobs fit into gaps."""
    if situation.pending or situation.running:
        return Packed()
    most = len(situation.left.tasks(0, 0)) if situation.room is None else situation.room
    tried = [_dealt(situation, settings, parts) for parts in _PARTS if parts <= max(1, most)]
    ends = [max((job.wait or 0) + job.run for job in jobs) for jobs in tried]
    soonest = min(range(len(tried)), key=ends.__getitem__)
    reason = f"level in {len(tried[soonest])} parts estimated to finish in {format_seconds(ends[soonest])}"
    return Packed(tried[soonest], reason)


def _dealt(situation: Situation, settings: Settings, parts: int) -> tuple[Submission, ...]:
    """Split the first level into a number of batch jobs, with the long tasks dealt out evenly."""
    left, queue = situation.left, situation.queue
    work = left.work
    tasks = left.tasks(0, 0)
    tasks = tasks[np.argsort(-work.seconds[tasks], kind="stable")]
    level = int(left.levels[0])
    jobs = []
    for part in range(min(parts, len(tasks))):
        own = np.sort(tasks[part::parts])
        runs = work.run_times(own, min(len(own), queue.nodes))
        nodes = np.arange(1, len(runs) + 1)
        seconds = requested(runs, settings, len(own), nodes)
        waits = queue.earliest_many(nodes, seconds) - queue.now
        ends = waits + runs
        ends[too_idle(work.use(own), runs, settings)] = NEVER
        best = int(np.argmin(ends))
        jobs.append(Submission(own, (level, level), best + 1, int(seconds[best]), int(waits[best]), int(runs[best])))
        queue = queue.with_job(best + 1, int(seconds[best]))
    return tuple(jobs)
