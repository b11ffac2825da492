"""The batch systems, backfilling policies and request modes, by their names on the command line.

A batch system has a folder of its own, with a `Scheduler` (scheduler.py) and an `InsideJob`, and an entry here.
"""

from typing import NamedTuple

from tonnage.lazy import Deferred

__all__ = ["LIVE", "POLICIES", "REQUESTS", "SCHEDULERS", "BatchSystem"]


class BatchSystem(NamedTuple):
    """A batch system as seen by the command line."""

    title: str
    connect: Deferred
    """Returns a Scheduler (for HTCondor, which has DAGMan, a BatchQueue), given the user's values for `submission`."""
    submission: tuple[str, ...] = ()
    """The options of ``tonnage run`` that choose where and under which account to submit."""
    own: tuple[str, ...] = ()
    """More options for this system only."""
    packs: bool = True
    """Whether its queue answers "what if" questions, so that tasks can be packed into batch jobs."""

    job_memory: Deferred | None = None
    """Returns how many bytes of this node belong to the batch job in which this process runs, if there is one."""

    @property
    def options(self) -> tuple[str, ...]:
        """All options specific to this system."""
        return (*self.submission, *self.own, *(("pack",) if self.packs else ()))


SCHEDULERS = {
    "slurm": BatchSystem(
        "Slurm",
        Deferred("tonnage.batch.slurm:connect"),
        ("partition", "account", "qos", "sbatch_option"),
        job_memory=Deferred("tonnage.batch.slurm.job_memory:memory_of_job"),
    ),
    "htcondor": BatchSystem(
        "HTCondor", Deferred("tonnage.batch.htcondor:HTCondor"), own=("throttle", "submit_command"), packs=False
    ),
}
"""The batch systems that tasks can be submitted to."""
LIVE = tuple(name for name, system in SCHEDULERS.items() if system.packs)
"""The systems whose queue ``tonnage pack`` can query."""
POLICIES = ("conservative", "easy")
"""Backfilling policies of the simulated queue."""
REQUESTS = ("accurate", "real")
"""How much time the jobs of a log request: their exact run time, or the recorded request."""
