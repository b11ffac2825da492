"""Submits batch jobs: each is recorded in the journal first, and retried until the cluster has answered."""

import logging
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tonnage.atomic import make_private_folder
from tonnage.batch.scheduler import Limits, Request, Scheduler
from tonnage.errors import SchedulerUnreachableError, SubmissionRejectedError
from tonnage.files import write_atomically
from tonnage.run.backends.backend import AttemptRecorder
from tonnage.run.batch_jobs import BatchJob, BatchJobs
from tonnage.run.files import Files
from tonnage.run.folders import Lock, RunFolder

__all__ = ["OUTPUT", "RETRY", "SCRIPT", "SHARED_HINT", "Sender", "Submitter", "module_command"]

SHARED_HINT = "Tonnage and the workflow must be on a file system that is shared with the nodes"
SCRIPT, OUTPUT = "script", "output"  # files in the folder of a batch job
RETRY = 5.0  # seconds until the next request to a cluster that did not answer

_log = logging.getLogger(__name__)


class Sender(Protocol):
    """Is notified of the outcome of a submission."""

    def accepted(self, native: str) -> None:
        """The cluster accepted it under this id."""

    def rejected(self, error: SubmissionRejectedError) -> None:
        """The cluster rejected it."""

    def withdrawn(self) -> None:
        """It was not submitted, and will not be."""


@dataclass(frozen=True, slots=True)
class _Unsent:
    job: BatchJob
    request: Request
    sender: Sender


@dataclass(kw_only=True)
class Submitter(AttemptRecorder):
    """What senders share: the engine, the journal, and the cluster to which they submit."""

    files: Files
    folder: RunFolder
    lock: Lock
    token: str
    scheduler: Scheduler
    limits: Limits
    jobs: BatchJobs = field(init=False)
    _unsent: dict[int, _Unsent] = field(default_factory=dict)
    _retry_at: float = 0.0

    def __post_init__(self) -> None:
        self.jobs = BatchJobs(self.journal)

    def avoided(self) -> tuple[str, ...]:
        """Return the nodes that break tasks, which batch jobs are not to use."""
        self.engine.avoid_bad_nodes(time.time())
        return tuple(sorted(self.engine.avoided))

    def place(self, job: int) -> Path:
        """Return the folder of a batch job, creating it if necessary."""
        folder = self.folder.batches / str(job)
        make_private_folder(folder)
        return folder

    def name(self, job: int) -> str:
        """Return a unique name for a batch job."""
        return f"tonnage-{self.token}-{job}"

    def send(self, job: BatchJob, request: Request, sender: Sender) -> None:
        """Submit a batch job that is in the journal; its sender is notified of the outcome, perhaps later."""
        self._submit(_Unsent(job, request, sender))

    def take_up(self, job: BatchJob, request: Request, sender: Sender) -> None:
        """Take over a batch job of an earlier engine that did not learn whether the cluster accepted it."""
        self._unsent[job.id] = _Unsent(job, request, sender)

    @property
    def is_blocked(self) -> bool:
        """Whether submissions without an answer must be retried before new ones."""
        return bool(self._unsent)

    def send_again(self) -> None:
        """Retry submissions without an answer, unless the cluster has accepted them nevertheless."""
        while self._unsent and time.monotonic() >= self._retry_at:
            one = next(iter(self._unsent.values()))
            try:
                number = self.scheduler.find(one.job.name)
            except SchedulerUnreachableError:
                self._retry_at = time.monotonic() + RETRY
            else:
                if number is None:
                    self._submit(one)
                else:
                    self._accept(one, number)

    def withdraw(self) -> None:
        """Drop submissions without an answer, except for those that the cluster has accepted nevertheless.

        Raises SchedulerUnreachableError.
        """
        for one in list(self._unsent.values()):
            number = self.scheduler.find(one.job.name)
            if number is not None:
                self._accept(one, number)
            else:
                del self._unsent[one.job.id]
                one.sender.withdrawn()

    def drop(self, job: int) -> None:
        """Stop trying to submit a batch job."""
        self._unsent.pop(job, None)

    def _submit(self, one: _Unsent) -> None:
        script = self.place(one.job.id) / SCRIPT
        try:
            write_atomically(script, self.scheduler.script(one.request))
            # The submitting process holds the run's lock: no engine takes over before it is known what was accepted.
            number = self.scheduler.submit(one.request, script, [self.lock.descriptor])
        except SchedulerUnreachableError as error:
            if one.job.id not in self._unsent:
                _log.warning("%s; retrying", error)
            self._unsent[one.job.id] = one
            self._retry_at = time.monotonic() + RETRY
        except SubmissionRejectedError as error:
            self._unsent.pop(one.job.id, None)
            one.sender.rejected(error)
        else:
            self._accept(one, number)

    def _accept(self, one: _Unsent, number: str) -> None:
        self._unsent.pop(one.job.id, None)
        _log.debug("batch job %d has the id %s on the cluster", one.job.id, number)
        self.jobs.accepted(one.job.id, number)
        self.journal.commit()
        one.sender.accepted(number)

    def ended(self, job: int, note: str) -> None:
        """Record that a batch job has ended completely."""
        self.jobs.ended(job, time.time(), note)


def module_command(module: str) -> tuple[str, ...]:
    """Return the command with which a batch job runs one of our modules, with the same Python as here."""
    return sys.executable, "-P", "-m", module
