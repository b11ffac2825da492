"""Interprets messages of sbatch and others: permanent or temporary refusals, and when a job would start."""

import re

from tonnage.errors import SchedulerUnreachableError, SubmissionRejectedError

__all__ = ["has_ended", "is_busy", "is_full", "parse_wait", "refused"]

_YEAR = 365 * 86400.0
_STARTS = re.compile(r"Job \d+ to start at (\d+)(?!\S)")
_BUSY = re.compile("nodes are busy|Required node not available|configuration not available now|reservation is busy")
_FULL = re.compile(
    "temporarily unable to accept job"  # MaxJobCount
    r"|(Max|Grp)\w*Submit\w*Limit"  # of an account or QOS; the sentence after it lists many other limits
    "|I/O error writing script"
    "|Required partition not available"  # closed for a while: it was open when the run began
    "|operation is presently disabled"
)
_ENDED = re.compile("[Ii]nvalid job id|already completing or completed")
_HINTS = {
    "node configuration is not available": "no node of the partition is large enough: request less, or other nodes",
    "time limit": "the partition has a shorter time limit",
    "nvalid partition": "see sinfo for the partitions of the cluster",
    "nvalid account": "see sacctmgr show assoc user=$USER for your accounts",
    "nvalid qos": "see sacctmgr show assoc user=$USER for your qualities of service",
    "accounting/QOS policy": "it exceeds a limit of the account or QOS: see sacctmgr show assoc user=$USER",
    "rray specification": "see MaxArraySize in scontrol show config for the most elements of an array",
}


def parse_wait(said: str, now: float) -> float | None:
    """Return the seconds until the start predicted by ``sbatch --test-only``; None if that is not credible.

    If a waiting job has no time limit, the prediction is hundreds of years away.
    """
    found = _STARTS.search(said)
    wait = float(found[1]) - now if found else _YEAR
    return max(0.0, wait) if wait < _YEAR else None


def is_busy(said: str) -> bool:
    """Whether a job could start, but at an unknown time."""
    return _BUSY.search(said) is not None


def is_full(said: str) -> bool:
    """Whether a job was refused only because there are too many jobs, or submission is disabled."""
    return _FULL.search(said) is not None


def has_ended(said: str) -> bool:
    """Whether a job is no longer known, or already ending."""
    return _ENDED.search(said) is not None


def refused(name: str, said: str) -> SubmissionRejectedError | SchedulerUnreachableError:
    """Return the error for a refusal: permanent, or temporary while the queue is full."""
    if is_full(said):
        return SchedulerUnreachableError(f"the queue accepts no more jobs at the moment: {said}")
    hint = next((hint for words, hint in _HINTS.items() if words in said), None)
    return SubmissionRejectedError(f"Slurm rejected the job {name}: {said}", hint=hint)
