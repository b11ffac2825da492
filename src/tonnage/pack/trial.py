"""Try a strategy on a simulated queue: what it would submit first, and how the workflow would fare."""

from dataclasses import dataclass, replace

from tonnage.batch import Cluster
from tonnage.pack.decisions import Packed, Settings, Situation, Submission
from tonnage.pack.packers import FORESIGHTED, PACKERS
from tonnage.pack.remaining import Work, actual_times
from tonnage.pack.simple import per_task
from tonnage.pack.simulation import Outcome, simulate

__all__ = ["Trial", "try_on"]


@dataclass(frozen=True, slots=True)
class Trial:
    """The first decision of a strategy, and the simulated outcome."""

    strategy: str
    begin: int
    """The time of submission, on the log's clock."""
    first: tuple[Submission, ...]
    reason: str
    estimate: int | None
    """The strategy's first estimate of the seconds until all tasks are done; None if it has none."""
    outcome: Outcome

    def estimated_wait(self, number: int) -> int | None:
        """Return the estimated wait of a batch job; None if there is no estimate."""
        return (self.first[number] if number < len(self.first) else self.outcome.carried[number].job).wait


def try_on(work: Work, cluster: Cluster, strategy: str, settings: Settings) -> Trial:
    """Submit a workflow to a simulated cluster with a strategy; this advances the cluster."""
    begin = cluster.now
    answers: list[Packed] = []

    def recording(situation: Situation, settings: Settings) -> Packed:
        packed = PACKERS[strategy](situation, settings)
        jobs = packed.jobs or (per_task(situation, settings).jobs if packed.singly else ())
        answers.append(replace(packed, jobs=jobs))
        return packed

    actual = actual_times(work, settings.variation, seed=0)
    outcome = simulate(work, cluster, recording, settings, actual, foresight=strategy in FORESIGHTED)
    first = answers[0]
    return Trial(strategy, begin, first.jobs, first.reason, first.estimate, outcome)
