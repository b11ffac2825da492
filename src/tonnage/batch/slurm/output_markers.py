"""Recognises the messages that Slurm writes into a batch job's output when it kills the job."""

import re

from tonnage.batch.scheduler import Verdict
from tonnage.jobs import Outcome, Resource

__all__ = ["verdict_from_output"]

_OURS = re.compile(r"^(slurmstepd|slurmd|srun)[^:]*: ", re.MULTILINE)
_MARKERS = (
    ("DUE TO TIME LIMIT", Verdict(Outcome.EXHAUSTED, Resource.WALL_TIME, note="its time limit was reached")),
    ("exceeded memory limit", Verdict(Outcome.EXHAUSTED, Resource.MEMORY, note="Slurm killed it: out of memory")),
    ("oom-kill event", Verdict(Outcome.EXHAUSTED, Resource.MEMORY, note="the kernel killed it: out of memory")),
    ("oom_kill event", Verdict(Outcome.EXHAUSTED, Resource.MEMORY, note="the kernel killed it: out of memory")),
    ("DUE TO PREEMPTION", Verdict(Outcome.PREEMPTED, note="it was preempted")),
    ("DUE TO NODE FAILURE", Verdict(Outcome.LOST, note="its node failed")),
)


def verdict_from_output(printed: str) -> Verdict | None:
    """Return why Slurm killed a job, if its output tells."""
    lines = [line for line in printed.splitlines() if _OURS.match(line)]
    for marker, verdict in _MARKERS:
        if any(marker in line for line in lines):
            return verdict
    return None
