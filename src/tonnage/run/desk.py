"""The desk from which batch jobs are sent: written down first, then submitted, until the cluster has answered."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.batch.scheduler import Limits, Request, Scheduler, UnreachableError
from tonnage.files import write_whole
from tonnage.run.batch_jobs import BatchJob, BatchJobs
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal
from tonnage.run.local import Watcher

__all__ = ["OUTPUT", "SCRIPT", "Desk"]

SCRIPT, OUTPUT = "script", "output"  # files in the folder of a batch job
_RETRY = 5.0  # seconds until a cluster that did not answer is asked again


@dataclass(slots=True)
class _Unsent:
    job: BatchJob
    request: Request
    accepted: Callable[[str], None]


@dataclass
class Desk:
    """What those need who send tasks away: the engine, the journal, and the cluster."""

    engine: Engine
    journal: Journal
    files: Files
    folder: RunFolder
    token: str
    scheduler: Scheduler
    limits: Limits
    watcher: Watcher
    say: Callable[[str], None]
    jobs: BatchJobs = field(init=False)
    _shown: set[int] = field(default_factory=set)
    _unsent: dict[int, _Unsent] = field(default_factory=dict)
    _retry_at: float = 0.0

    def __post_init__(self) -> None:
        self.jobs = BatchJobs(self.journal)

    # Attempts

    def show(self, start: Start, since: float) -> None:
        """Let the watcher know that an attempt runs."""
        if start.attempt not in self._shown:
            self._shown.add(start.attempt)
            self.watcher.started(start, since)

    def settle(self, end: Ended) -> Settled:
        """Take in the end of an attempt."""
        self.show(self.engine.start_of(end.attempt), end.started or time.time())
        self._shown.discard(end.attempt)
        settled = self.engine.ended(end)
        self.journal.ended(end, settled)
        self.watcher.ended(end, settled)
        return settled

    # Batch jobs

    def place(self, job: int) -> Path:
        """Return the folder of a batch job, made if need be."""
        folder = self.folder.batches / str(job)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def name(self, job: int) -> str:
        """Return a name for a batch job that nobody else has."""
        return f"tonnage-{self.token}-{job}"

    def send(self, job: BatchJob, request: Request, accepted: Callable[[str], None]) -> None:
        """Submit a batch job that is written down; `accepted` gets its number, perhaps only later.

        Raises RejectedError where the cluster will never take it.
        """
        script = self.place(job.id) / SCRIPT
        write_whole(script, self.scheduler.script(request))
        self._submit(_Unsent(job, request, accepted))

    def send_again(self) -> None:
        """Submit what the cluster did not answer for; it may have taken it all the same."""
        if not self._unsent or time.monotonic() < self._retry_at:
            return
        for one in list(self._unsent.values()):
            try:
                number = self.scheduler.find(one.job.name)
            except UnreachableError:
                self._retry_at = time.monotonic() + _RETRY
                return
            if number is not None:
                self._accept(one, number)
            else:
                self._submit(one)

    def not_sent(self, job: int) -> bool:
        """Whether nobody knows yet if the cluster has taken a batch job."""
        return job in self._unsent

    def take_up(self, job: BatchJob, request: Request, accepted: Callable[[str], None]) -> None:
        """Go on with a batch job of which an earlier engine had not heard whether the cluster has taken it."""
        self._unsent[job.id] = _Unsent(job, request, accepted)

    def drop(self, job: int) -> None:
        """Do not submit a batch job any more."""
        self._unsent.pop(job, None)

    def _submit(self, one: _Unsent) -> None:
        try:
            number = self.scheduler.submit(one.request, self.place(one.job.id) / SCRIPT)
        except UnreachableError as error:
            if one.job.id not in self._unsent:
                self.say(f"{error}; it is tried again")
            self._unsent[one.job.id] = one
            self._retry_at = time.monotonic() + _RETRY
            return
        self._accept(one, number)

    def _accept(self, one: _Unsent, number: str) -> None:
        self._unsent.pop(one.job.id, None)
        self.jobs.accepted(one.job.id, number)
        self.journal.commit()
        one.accepted(number)

    def ended(self, job: int, note: str) -> None:
        """Note that nothing of a batch job is left."""
        self.jobs.ended(job, time.time(), note)

    def started_all(self, starts: Sequence[Start], now: float) -> None:
        """Write down attempts that are about to be submitted."""
        self.journal.started(starts, now)
