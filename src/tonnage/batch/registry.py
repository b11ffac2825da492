"""What can be chosen about batch queues, by the names that the command line has for it."""

from typing import NamedTuple

from tonnage.lazy import Deferred

__all__ = ["LIVE", "POLICIES", "REQUESTS", "SCHEDULERS", "BatchSystem"]


class BatchSystem(NamedTuple):
    """A batch system, as the command line knows it."""

    title: str
    connect: Deferred
    """Returns a Scheduler (HTCondor, which has DAGMan for that: a Queued), given what the user says of `submission`."""
    submission: tuple[str, ...] = ()
    """The options of ``tonnage run`` that say where and as whom to submit there."""
    own: tuple[str, ...] = ()
    """More options that are for this system only."""
    packs: bool = True
    """Whether its queue can be asked what if, so that tasks can be packed into batch jobs."""

    @property
    def options(self) -> tuple[str, ...]:
        """All options that mean something there, beside those of every system."""
        return (*self.submission, *self.own, *(("pack",) if self.packs else ()))


SCHEDULERS = {
    "slurm": BatchSystem(
        "Slurm", Deferred("tonnage.batch.slurm:connect"), ("partition", "account", "qos", "sbatch_option")
    ),
    "htcondor": BatchSystem(
        "HTCondor", Deferred("tonnage.batch.htcondor:HTCondor"), own=("throttle", "submit_command"), packs=False
    ),
}
"""The batch systems to which tasks can be sent."""
LIVE = tuple(name for name, system in SCHEDULERS.items() if system.packs)
"""Those whose queue ``tonnage pack`` can ask."""
POLICIES = ("conservative", "easy")
"""How a simulated queue backfills."""
REQUESTS = ("accurate", "real")
"""What the jobs of a log ask for: as long as they run, or what the log says."""
