"""Every way to pack by the name that it has on the command line."""

from typing import TYPE_CHECKING

from tonnage.errors import InputError
from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from tonnage.batch import Cluster
    from tonnage.pack.decisions import Settings
    from tonnage.pack.remaining import Work
    from tonnage.pack.simulation import IntArray, Outcome, Packer

__all__ = ["FORESIGHTED", "ORDERS", "PACKERS", "simulate"]

PACKERS: "dict[str, Packer]" = {
    "per-task": Deferred("tonnage.pack.simple:per_task"),
    "one-job": Deferred("tonnage.pack.simple:one_job"),
    "level-by-level": Deferred("tonnage.pack.simple:level_by_level"),
    "zhang": Deferred("tonnage.pack.zhang:zhang"),
    "zhang-printed": Deferred("tonnage.pack.zhang:zhang_printed"),
    "zhang-improved": Deferred("tonnage.pack.zhang:zhang_improved"),
    "glume": Deferred("tonnage.pack.glume:glume"),
    "auto": Deferred("tonnage.pack.auto:auto"),
}
"""What to submit next, given what is left and what the queue looks like."""
FORESIGHTED = ("auto",)
"""Those that are told what may arrive."""
ORDERS = ("longest", "shortest", "rank")
"""Which of the tasks that could start goes first inside of a batch job: GLUME's paper takes the shortest."""


def simulate(
    work: "Work",
    cluster: "Cluster",
    strategy: str,
    settings: "Settings | None" = None,
    *,
    actual: "IntArray | None" = None,
) -> "Outcome":
    """Let a workflow cross the queue of a cluster from its `now` on; the cluster goes on with it.

    `actual` is how long tasks really take; packers know only what the work says.
    """
    from tonnage.pack.decisions import Settings
    from tonnage.pack.simulation import simulate as crossed

    if strategy not in PACKERS:
        raise InputError(f'"{strategy}" is not a strategy', hint=f"one of {', '.join(PACKERS)}")
    times = work.seconds if actual is None else actual
    return crossed(work, cluster, PACKERS[strategy], settings or Settings(), times, foresight=strategy in FORESIGHTED)
