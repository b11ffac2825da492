"""The packing strategies, by their names on the command line."""

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
"""Each decides what to submit next, given the remaining tasks and the state of the queue."""
FORESIGHTED = ("auto",)
"""The packers that get possible futures of the queue."""
ORDERS = ("longest", "shortest", "rank")
"""Which of the tasks that could start goes first inside a batch job: GLUME's paper takes the shortest."""


def simulate(
    work: "Work",
    cluster: "Cluster",
    strategy: str,
    settings: "Settings | None" = None,
    *,
    actual: "IntArray | None" = None,
) -> "Outcome":
    """Simulate a workflow in the queue of a cluster from its `now` on; this advances the cluster.

    `actual` is how long tasks really take; packers only know the estimates in `work`.
    """
    from tonnage.pack.decisions import Settings
    from tonnage.pack.simulation import simulate as run

    if strategy not in PACKERS:
        raise InputError(f'"{strategy}" is not a strategy', hint=f"one of {', '.join(PACKERS)}")
    times = work.seconds if actual is None else actual
    return run(work, cluster, PACKERS[strategy], settings or Settings(), times, foresight=strategy in FORESIGHTED)
