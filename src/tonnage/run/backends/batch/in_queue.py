"""What a run has in the queue of a cluster, whoever executes it."""

from collections.abc import Iterable
from contextlib import closing

from tonnage.batch.scheduler import Queued
from tonnage.run.batch_jobs import BatchJob, batch_jobs
from tonnage.run.folders import Lock, RunFolder
from tonnage.run.journal import Reader

__all__ = ["cancel_batch_jobs", "in_queue", "open_jobs"]


def open_jobs(folder: RunFolder) -> list[BatchJob]:
    """Return the batch jobs of a run that have not ended, as far as its journal knows."""
    with closing(Reader(folder.journal)) as reader:
        return [job for job in batch_jobs(reader) if job.ended is None]


def in_queue(jobs: Iterable[BatchJob], scheduler: Queued) -> set[str]:
    """Return what the cluster calls those of some batch jobs that wait or run."""
    found = {job.native or scheduler.find(job.name) for job in jobs}
    if not found:
        return set()
    present = {scheduler.job_of(number) for number in scheduler.look()}
    return {number for number in found if number is not None and number in present}


def cancel_batch_jobs(folder: RunFolder, scheduler: Queued) -> int:
    """Cancel what a run that nobody executes has in the queue of a cluster; return how many batch jobs that were.

    What became of them is written down by who goes on with the run.
    """
    lock = Lock(folder)  # nobody goes on with it meanwhile
    try:
        numbers = in_queue(open_jobs(folder), scheduler)
        if numbers:
            scheduler.cancel(sorted(numbers))
        return len(numbers)
    finally:
        lock.release()
