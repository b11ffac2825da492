"""The batch jobs that a run has in the queue of a cluster, whether or not an engine executes it."""

from collections.abc import Iterable
from contextlib import closing

from tonnage.batch.scheduler import BatchQueue
from tonnage.run.batch_jobs import BatchJob, batch_jobs
from tonnage.run.folders import Lock, RunFolder
from tonnage.run.journal import Reader

__all__ = ["cancel_batch_jobs", "in_queue", "open_jobs"]


def open_jobs(folder: RunFolder) -> list[BatchJob]:
    """Return the batch jobs of a run that have not ended according to its journal."""
    with closing(Reader(folder.journal)) as reader:
        return [job for job in batch_jobs(reader) if job.ended is None]


def in_queue(jobs: Iterable[BatchJob], scheduler: BatchQueue) -> set[str]:
    """Return the cluster's ids of those batch jobs that are waiting or running."""
    found = {job.native or scheduler.find(job.name) for job in jobs}
    if not found:
        return set()
    present = {scheduler.job_of(number) for number in scheduler.poll()}
    return {number for number in found if number is not None and number in present}


def cancel_batch_jobs(folder: RunFolder, scheduler: BatchQueue) -> int:
    """Cancel the queued batch jobs of a run that no engine executes; return their number.

    Their ends are recorded when the run is resumed.
    """
    lock = Lock(folder)  # so that it is not resumed meanwhile
    try:
        numbers = in_queue(open_jobs(folder), scheduler)
        if numbers:
            scheduler.cancel(sorted(numbers))
        return len(numbers)
    finally:
        lock.release()
