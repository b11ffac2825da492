"""A workflow tried on a simulated queue: what each strategy would submit first, and what would become of it."""

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
    """The moment of the submission, on the log's clock."""
    first: tuple[Submission, ...]
    reason: str
    estimate: int | None
    """In how many seconds all is done, by what the strategy knows at first; None where it has no idea of that."""
    outcome: Outcome

    def estimated_wait(self, number: int) -> int | None:
        """Return what the wait of a batch job was estimated to be; None where the queue was not asked."""
        return (self.first[number] if number < len(self.first) else self.outcome.carried[number].job).wait


def try_on(work: Work, cluster: Cluster, strategy: str, settings: Settings) -> Trial:
    """Submit a workflow to a cluster with a strategy; the cluster goes on with it."""
    begin = cluster.now
    answers: list[Packed] = []

    def listened(situation: Situation, settings: Settings) -> Packed:
        packed = PACKERS[strategy](situation, settings)
        jobs = packed.jobs or (per_task(situation, settings).jobs if packed.singly else ())
        answers.append(replace(packed, jobs=jobs))
        return packed

    actual = actual_times(work, settings.variation, seed=0)
    outcome = simulate(work, cluster, listened, settings, actual, foresight=strategy in FORESIGHTED)
    first = answers[0]
    return Trial(strategy, begin, first.jobs, first.reason, first.estimate, outcome)
