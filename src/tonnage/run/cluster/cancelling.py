"""Batch jobs of a run that nobody executes any more: cancelled on request."""

from contextlib import closing

from tonnage.batch.scheduler import Scheduler
from tonnage.run.batch_jobs import batch_jobs
from tonnage.run.folders import Lock, RunFolder
from tonnage.run.journal import Reader

__all__ = ["cancel_batch_jobs"]


def cancel_batch_jobs(folder: RunFolder, scheduler: Scheduler) -> int:
    """Cancel what a run has in the queue of a cluster; return how many batch jobs that were.

    What became of them is written down by who goes on with the run.
    """
    lock = Lock(folder)  # nobody goes on with it meanwhile
    try:
        with closing(Reader(folder.journal)) as reader:
            left = [job for job in batch_jobs(reader) if job.ended is None]
        found = {job.native or scheduler.find(job.name) for job in left}
        present = {number.partition("_")[0] for number in scheduler.look()}
        numbers = {number for number in found if number in present}
        if numbers:
            scheduler.cancel(sorted(numbers))
        return len(numbers)
    finally:
        lock.release()
