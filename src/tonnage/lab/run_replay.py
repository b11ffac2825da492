"""Strategies side by side in whole runs: what each took, wasted, and gave over time."""

from collections.abc import Sequence
from dataclasses import dataclass

from tonnage.jobs import Resource
from tonnage.lab.simulated_run import Load, play
from tonnage.lab.timelines import Timeline, timeline
from tonnage.run.machines import Machine

__all__ = ["Player", "Result"]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a run with one strategy came to."""

    strategy: str
    makespan: float
    waste_fraction: dict[Resource, float]
    """The part of what was given that was not used, failed attempts included."""
    attempts: int
    retries: int
    failed: int
    """How many tasks could not be run."""
    timeline: Timeline

    def against(self, oracle: "Result") -> float:
        """Return how long the oracle takes, as a part of this makespan."""
        return oracle.makespan / self.makespan if self.makespan else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Player:
    """Runs a load on machines with one strategy after the other; can be sent to other processes."""

    load: Load
    machines: Sequence[Machine]
    order: str = "prio"

    def __call__(self, strategy: str) -> Result:
        """Run it with one strategy."""
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
