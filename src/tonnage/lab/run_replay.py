"""Compare sizing strategies in simulated runs: makespan, waste, and what was allocated and used over time.

The timelines are those of Tovar et al.'s figures on learned allocations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonnage.jobs import SHARED, Resource
from tonnage.lab.simulated_run import Load, Simulation, play
from tonnage.run.machines import Machine
from tonnage.size.histograms import FloatArray

__all__ = ["Curve", "Player", "Result", "Timeline", "timeline"]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One resource over time: a row per time span, a column per category."""

    committed: FloatArray
    """What was allocated to attempts, on average over the span."""
    used: FloatArray
    """What the successful attempts needed."""
    first: FloatArray
    """The mean allocation of the first attempts that started in the span; NaN if none did."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A simulation in equal time spans."""

    edges: FloatArray
    """Where spans begin, and the end of the last."""
    categories: tuple[str, ...]
    curves: Mapping[Resource, Curve]


def timeline(simulation: Simulation, spans: int = 60) -> Timeline:
    """Return what was committed and used over time, by category and resource."""
    names = tuple(dict.fromkeys(task.category for task in simulation.load.tasks))
    numbers = {name: number for number, name in enumerate(names)}
    of_task = np.array([numbers[task.category] for task in simulation.load.tasks], np.int64)
    edges = np.linspace(0.0, simulation.makespan or 1.0, spans + 1)
    category = of_task[simulation.task]
    curves = {
        resource: _curve(simulation, resource, edges, category, len(names))
        for resource in SHARED
        if not np.isnan(simulation.given[resource]).all()
    }
    return Timeline(edges, names, curves)


def _curve(
    simulation: Simulation, resource: Resource, edges: FloatArray, category: NDArray[np.int64], many: int
) -> Curve:
    given, used = simulation.given[resource], np.nan_to_num(simulation.used(resource))
    return Curve(
        _mean(simulation, given, edges, category, many),
        _mean(simulation, used, edges, category, many),
        _first(simulation, given, edges, category, many),
    )


def _mean(
    simulation: Simulation, amounts: FloatArray, edges: FloatArray, category: NDArray[np.int64], many: int
) -> FloatArray:
    """Return the mean of amounts over each time span: differences of the totals up to each edge."""
    start, end = simulation.start, simulation.end
    until = [np.bincount(category, amounts * (np.clip(edge, start, end) - start), minlength=many) for edge in edges]
    return np.diff(until, axis=0) / np.diff(edges)[:, None]


def _first(
    simulation: Simulation, given: FloatArray, edges: FloatArray, category: NDArray[np.int64], many: int
) -> FloatArray:
    first = simulation.number == 1
    spans = len(edges) - 1
    place = np.clip(np.searchsorted(edges, simulation.start[first], side="right") - 1, 0, spans - 1)
    place = place * many + category[first]
    total, count = (np.bincount(place, weights, minlength=spans * many) for weights in (given[first], None))
    mean: FloatArray = np.divide(total, count, out=np.full(spans * many, np.nan), where=count > 0)
    return mean.reshape(spans, many)


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The outcome of a run with one strategy."""

    strategy: str
    makespan: float
    waste_fraction: dict[Resource, float]
    """The fraction of the allocations that was not used, failed attempts included."""
    attempts: int
    retries: int
    failed: int
    """How many tasks did not succeed."""
    timeline: Timeline

    def against(self, oracle: "Result") -> float:
        """Return the oracle's makespan as a fraction of this one."""
        return oracle.makespan / self.makespan if self.makespan else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Player:
    """Runs a load on machines with one strategy after the other; can be sent to other processes."""

    load: Load
    machines: Sequence[Machine]
    order: str = "prio"

    def __call__(self, strategy: str) -> Result:
        """Simulate the run with one strategy."""
        found = play(self.load, self.machines, strategy, order=self.order)
        return Result(
            strategy=strategy,
            makespan=found.makespan,
            waste_fraction=found.waste_fraction,
            attempts=len(found),
            retries=found.retries,
            failed=found.failed,
            timeline=timeline(found),
        )
