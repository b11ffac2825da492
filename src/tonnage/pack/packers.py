"""Every way to pack by the name that it has on the command line."""

from tonnage.batch import Cluster
from tonnage.errors import InputError
from tonnage.pack.auto import auto
from tonnage.pack.crossing import IntArray, Outcome, Packer
from tonnage.pack.crossing import cross as crossed
from tonnage.pack.decisions import Settings
from tonnage.pack.glume import glume
from tonnage.pack.plain import level_by_level, one_job, per_task
from tonnage.pack.work import Work
from tonnage.pack.zhang import zhang, zhang_improved, zhang_printed

__all__ = ["FORESIGHTED", "PACKERS", "cross"]

PACKERS: dict[str, Packer] = {
    "per-task": per_task,
    "one-job": one_job,
    "level-by-level": level_by_level,
    "zhang": zhang,
    "zhang-printed": zhang_printed,
    "zhang-improved": zhang_improved,
    "glume": glume,
    "auto": auto,
}
"""What to submit next, given what is left and what the queue looks like."""
FORESIGHTED = ("auto",)
"""Those that are told what may arrive."""


def cross(
    work: Work, cluster: Cluster, strategy: str, settings: Settings | None = None, *, actual: IntArray | None = None
) -> Outcome:
    """Let a workflow cross the queue of a cluster from its `now` on; the cluster goes on with it.

    `actual` is how long tasks really take; packers know only what the work says.
    """
    if strategy not in PACKERS:
        raise InputError(f'"{strategy}" is not a strategy', hint=f"one of {', '.join(PACKERS)}")
    times = work.seconds if actual is None else actual
    return crossed(work, cluster, PACKERS[strategy], settings or Settings(), times, foresight=strategy in FORESIGHTED)
