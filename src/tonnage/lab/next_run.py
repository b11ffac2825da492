"""What the next run of a workflow will take: the engine as that run would begin, with what tasks took in this one."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.lab.simulated_run import Load, played
from tonnage.run.journal_rows import Row
from tonnage.run.setup import Setup
from tonnage.waste import held_seconds

__all__ = ["NextRun", "next_run"]


@dataclass(frozen=True, slots=True)
class NextRun:
    """An estimate of the next run."""

    seconds: float
    memory: float | None
    """What a task will have on average over its time; None if memory is not limited."""
    retries: int


def next_run(setup: Setup, rows: Iterable[Row]) -> NextRun | None:
    """Estimate a run from what its tasks took before; None if a task is not known to have succeeded."""
    workflow = setup.sizes.workflow
    shape = len(workflow)
    seconds, need = np.full(shape, np.nan), {one: np.full(shape, np.nan) for one in SHARED}
    for row in rows:
        place = workflow.index.get(row.task)
        if place is None or row.outcome is not Outcome.DONE:
            continue
        seconds[place] = held_seconds(row.started, row.ended, row.used.wall_time) or 0.0
        for resource in SHARED:
            used = getattr(row.used, resource)
            need[resource][place] = np.nan if used is None else used
    if np.isnan(seconds).any():
        return None
    load = Load(workflow.tasks, need, seconds, inputs=np.full(shape, np.nan), workflow=workflow)
    found = played(setup.engine, load, setup.sizes.strategy)
    took, memory = found.end - found.start, found.given[Resource.MEMORY]
    known = np.isfinite(memory) & (took > 0)
    average = float(np.average(memory[known], weights=took[known])) if known.any() else None
    return None if found.failed else NextRun(found.makespan, average, found.retries)
