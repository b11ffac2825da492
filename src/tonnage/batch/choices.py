"""What can be chosen about batch queues, by the names that the command line has for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from tonnage.batch.scheduler import Queued

__all__ = ["POLICIES", "REQUESTS", "SCHEDULERS"]

SCHEDULERS: "dict[str, Callable[[], Queued]]" = {
    "slurm": Deferred("tonnage.batch.slurm:Slurm"),
    "htcondor": Deferred("tonnage.batch.htcondor:HTCondor"),
}
"""The batch systems to which tasks can be sent."""
POLICIES = ("conservative", "easy")
"""How a simulated queue backfills."""
REQUESTS = ("accurate", "real")
"""What the jobs of a log ask for: as long as they run, or what the log says."""
