"""What the words of sbatch and its like mean: for good, or only now; and when a job would start."""

import re

from tonnage.batch.scheduler import RejectedError, UnreachableError

__all__ = ["has_ended", "is_busy", "is_full", "refused", "wait_of"]

_YEAR = 365 * 86400.0
_STARTS = re.compile(r"Job \d+ to start at (\d+)(?!\S)")
_BUSY = re.compile("nodes are busy|Required node not available|configuration not available now|reservation is busy")
_FULL = re.compile(
    "temporarily unable to accept job"  # MaxJobCount
    r"|(Max|Grp)\w*Submit\w*Limit"  # of an account or a QOS; the sentence behind it tells of many more limits
    "|I/O error writing script"
    "|Required partition not available"  # closed for a while: at the beginning of a run it was open
    "|operation is presently disabled"
)
_ENDED = re.compile("[Ii]nvalid job id|already completing or completed")
_HINTS = {
    "node configuration is not available": "no node of the partition has so much: ask for less, or for other nodes",
    "time limit": "the partition does not let jobs run for so long",
    "nvalid partition": "see sinfo for the partitions of the cluster",
    "nvalid account": "see sacctmgr show assoc user=$USER for your accounts",
    "nvalid qos": "see sacctmgr show assoc user=$USER for your qualities of service",
    "accounting/QOS policy": "an account or a quality of service allows less: see sacctmgr show assoc user=$USER",
    "rray specification": "MaxArraySize of scontrol show config says how many elements an array may have",
}


def wait_of(said: str, now: float) -> float | None:
    """Return the seconds until the start that ``sbatch --test-only`` tells, where that is to be believed.

    A job without a time limit that waits, too, pushes the answer to hundreds of years.
    """
    found = _STARTS.search(said)
    wait = float(found[1]) - now if found else _YEAR
    return max(0.0, wait) if wait < _YEAR else None


def is_busy(said: str) -> bool:
    """Whether a job could start, and nobody knows when."""
    return _BUSY.search(said) is not None


def is_full(said: str) -> bool:
    """Whether a job is not taken only because there are too many, or nobody takes any."""
    return _FULL.search(said) is not None


def has_ended(said: str) -> bool:
    """Whether a job is not known any more, or not worth cancelling."""
    return _ENDED.search(said) is not None


def refused(name: str, said: str) -> RejectedError | UnreachableError:
    """Return the error that a refusal is: for good, or as long as the queue is full."""
    if is_full(said):
        return UnreachableError(f"the queue takes no more jobs at the moment: {said}")
    hint = next((hint for words, hint in _HINTS.items() if words in said), None)
    return RejectedError(f"Slurm does not take the job {name}: {said}", hint=hint)
