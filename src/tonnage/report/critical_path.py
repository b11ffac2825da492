"""The critical path of what really ran: the chain of tasks that took longest."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tonnage.report.attempt_table import Times
from tonnage.workflow import Workflow

__all__ = ["Chain", "Step", "critical_chain"]


@dataclass(frozen=True, slots=True)
class Step:
    """One task of the chain."""

    place: int
    task: str
    category: str
    seconds: float
    """How long its attempts took together."""
    started: float | None
    ended: float | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain of tasks that took longest: no number of machines would have finished sooner."""

    seconds: float
    steps: tuple[Step, ...]
    missing: int
    """Tasks of the workflow that never ran, which count as nothing."""

    @property
    def by_category(self) -> list[tuple[str, float]]:
        """How much of it each category took, the most first."""
        found: Counter[str] = Counter()
        for step in self.steps:
            found[step.category] += step.seconds  # type: ignore[assignment]
        return [(name, float(seconds)) for name, seconds in found.most_common()]


def critical_chain(workflow: Workflow, times: Times) -> Chain | None:
    """Return the chain of tasks that took longest, by what they really took; None where nothing ran."""
    ran = times.busy > 0
    if not ran.any():
        return None
    seconds, path = workflow.graph.longest_path(times.busy)
    steps = tuple(
        Step(
            place,
            workflow.tasks[place].name,
            workflow.tasks[place].category,
            float(times.busy[place]),
            *(None if np.isnan(one[place]) else float(one[place]) for one in (times.first, times.last)),
        )
        for place in path
        if ran[place]
    )
    return Chain(seconds, steps, int(len(workflow) - ran.sum()))
