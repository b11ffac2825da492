"""the submitter of batch jobs: written down first, then submitted, until the cluster has answered."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tonnage.atomic import make_private_folder
from tonnage.batch.scheduler import Limits, RejectedError, Request, Scheduler, UnreachableError
from tonnage.files import write_atomically
from tonnage.run.backends.backend import AttemptRecorder
from tonnage.run.batch_jobs import BatchJob, BatchJobs
from tonnage.run.files import Files
from tonnage.run.folders import Lock, RunFolder

__all__ = ["OUTPUT", "RETRY", "SCRIPT", "SHARED_HINT", "Sender", "Submitter"]

SHARED_HINT = "Tonnage and the workflow must be where the nodes see them, too: on a file system that all share"
SCRIPT, OUTPUT = "script", "output"  # files in the folder of a batch job
RETRY = 5.0  # seconds until a cluster that did not answer is asked again


class Sender(Protocol):
    """Whoever wants to know what became of a batch job that is to be submitted."""

    def accepted(self, native: str) -> None:
        """The cluster has taken it, and calls it by this number."""

    def rejected(self, error: RejectedError) -> None:
        """The cluster will never take it."""

    def withdrawn(self) -> None:
        """It was not submitted, and will not be."""


@dataclass(frozen=True, slots=True)
class _Unsent:
    job: BatchJob
    request: Request
    sender: Sender


@dataclass(kw_only=True)
class Submitter(AttemptRecorder):
    """What those need who send tasks away: the engine, the journal, and the cluster."""

    files: Files
    folder: RunFolder
    lock: Lock
    token: str
    scheduler: Scheduler
    limits: Limits
    say: Callable[[str], None]
    jobs: BatchJobs = field(init=False)
    _unsent: dict[int, _Unsent] = field(default_factory=dict)
    _retry_at: float = 0.0

    def __post_init__(self) -> None:
        self.jobs = BatchJobs(self.journal)

    def place(self, job: int) -> Path:
        """Return the folder of a batch job, made if need be."""
        folder = self.folder.batches / str(job)
        make_private_folder(folder)
        return folder

    def name(self, job: int) -> str:
        """Return a name for a batch job that nobody else has."""
        return f"tonnage-{self.token}-{job}"

    def send(self, job: BatchJob, request: Request, sender: Sender) -> None:
        """Submit a batch job that is written down; its sender hears what became of it, perhaps only later."""
        self._submit(_Unsent(job, request, sender))

    def take_up(self, job: BatchJob, request: Request, sender: Sender) -> None:
        """Go on with a batch job of which an earlier engine had not heard whether the cluster has taken it."""
        self._unsent[job.id] = _Unsent(job, request, sender)

    @property
    def is_blocked(self) -> bool:
        """Whether the cluster takes nothing at the moment: what it did not take must go first."""
        return bool(self._unsent)

    def send_again(self) -> None:
        """Submit what the cluster did not answer for; it may have taken it all the same."""
        while self._unsent and time.monotonic() >= self._retry_at:
            one = next(iter(self._unsent.values()))
            try:
                number = self.scheduler.find(one.job.name)
            except UnreachableError:
                self._retry_at = time.monotonic() + RETRY
            else:
                if number is None:
                    self._submit(one)
                else:
                    self._accept(one, number)

    def withdraw(self) -> None:
        """Submit nothing more; what the cluster has taken without an answer is found. Raises UnreachableError."""
        for one in list(self._unsent.values()):
            number = self.scheduler.find(one.job.name)
            if number is not None:
                self._accept(one, number)
            else:
                del self._unsent[one.job.id]
                one.sender.withdrawn()

    def drop(self, job: int) -> None:
        """Do not submit a batch job any more."""
        self._unsent.pop(job, None)

    def _submit(self, one: _Unsent) -> None:
        script = self.place(one.job.id) / SCRIPT
        try:
            write_atomically(script, self.scheduler.script(one.request))
            # Whatever submits holds the run's lock: nobody takes over before it is known what the cluster has.
            number = self.scheduler.submit(one.request, script, [self.lock.descriptor])
        except UnreachableError as error:
            if one.job.id not in self._unsent:
                self.say(f"{error}; it is tried again")
            self._unsent[one.job.id] = one
            self._retry_at = time.monotonic() + RETRY
        except RejectedError as error:
            self._unsent.pop(one.job.id, None)
            one.sender.rejected(error)
        else:
            self._accept(one, number)

    def _accept(self, one: _Unsent, number: str) -> None:
        self._unsent.pop(one.job.id, None)
        self.jobs.accepted(one.job.id, number)
        self.journal.commit()
        one.sender.accepted(number)

    def ended(self, job: int, note: str) -> None:
        """Note that nothing of a batch job is left."""
        self.jobs.ended(job, time.time(), note)
