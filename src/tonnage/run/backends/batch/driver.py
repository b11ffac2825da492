"""The driver for clusters: tasks run in batch jobs, which report through files; the cluster is asked about the others.

Files of batch jobs are checked many times a minute, which costs the cluster nothing. The queue is polled for all batch
jobs in one call, and rarely while nothing happens.
"""

import logging
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Protocol

from tonnage.batch.scheduler import JobStatus, QueueEntry, Verdict
from tonnage.errors import SchedulerUnreachableError
from tonnage.files import tail
from tonnage.jobs import Outcome
from tonnage.run.backends.backend import StopSignals, heard
from tonnage.run.backends.batch.arrays import Arrays
from tonnage.run.backends.batch.packs import Packs
from tonnage.run.backends.batch.submitter import RETRY, Submitter
from tonnage.run.batch_jobs import BatchJob
from tonnage.run.events import Ended, Start

__all__ = ["BatchDriver"]

_HEAR = 0.1, 1.0  # seconds between two checks for files: while much happens, and while nothing does
_SLOWER = 1.3
_GRACE = 10.0  # seconds until a file that was written on another machine is visible
_TAIL = 4096  # bytes from the end of a batch job's output that may tell why it ended

_log = logging.getLogger(__name__)


class _Fleet(Protocol):
    """Batch jobs of one kind, with our own numbers for the cluster's ids."""

    def __len__(self) -> int: ...

    def hear(self) -> bool: ...

    def numbers(self) -> dict[str, int]: ...

    def on_queue(self, present: Mapping[str, QueueEntry]) -> None: ...

    def gone(self, number: int, verdict: Verdict, *, certain: bool) -> None: ...

    def output(self, number: int) -> Path: ...


class BatchDriver:
    """Drives an engine whose tasks run in batch jobs, until it has finished or is stopped by a signal."""

    def __init__(self, submitter: Submitter, arrays: Arrays, packs: Packs, run_fraction: float, grace: float) -> None:
        """Create a driver; `run_fraction` is for other users' jobs, `grace` is the delay until files are visible."""
        self._submitter = submitter
        self._arrays = arrays
        self._packs = packs
        self._fleets: tuple[_Fleet, ...] = (arrays, packs)
        self._run_fraction = run_fraction
        self._grace = max(grace, _GRACE)
        self._signals = StopSignals()
        self._gone: dict[str, float] = {}
        """Ids that are no longer in the queue, and since when."""
        self._polling = submitter.scheduler.polling
        self._hear_pause, self._poll_pause = _HEAR[0], self._polling.first
        self._poll_at = 0.0
        self._unreachable = False
        self._cancels: frozenset[JobStatus] | None = None
        """States of the batch jobs that are to be cancelled."""
        self._cancel_at = 0.0

    def take_up(self, jobs: list[BatchJob], running: Mapping[int, Start]) -> None:
        """Take over the batch jobs of an earlier engine, with their running attempts."""
        for job in jobs:
            own = {attempt: start for attempt, start in running.items() if start.machine == job.id}
            taken = self._packs.take_up(job, own) if job.packed else self._arrays.take_up(job, own)
            for attempt in own.keys() - (taken or ()):
                note = "never submitted"
                self._submitter.settle(Ended(attempt=attempt, outcome=Outcome.LOST, ended=time.time(), note=note))
            if taken is None:
                self._submitter.ended(job.id, "never submitted" if job.native is None else "no longer needed")
        self._submitter.journal.commit()

    def go(self) -> int | None:
        """Run until nothing more can be done; return the signal that stopped it earlier, if one did."""
        with heard(self._signals):
            self._submit()
            while len(self._arrays) or len(self._packs) or not self._submitter.engine.finished:
                self._step()
                self._submit()
                if self._obey():
                    break
        self._submitter.journal.commit()
        self._submitter.watcher.tick(self._submitter.engine)
        return self._signals.signal

    def go_last(self) -> int | None:
        """Run the final tasks, each in a batch job of its own."""
        self._packs.singly = True
        return self.go()

    # Out

    def _submit(self) -> None:
        if self._signals.finish:
            return
        self._submitter.send_again()
        if self._submitter.is_blocked:
            return
        if not self._packs.singly:
            self._packs.submit(self._run_fraction)
        if self._packs.singly:
            self._arrays.submit()
        self._submitter.journal.commit()

    # In

    def _step(self) -> None:
        """Wait a moment, and process what has happened."""
        time.sleep(self._hear_pause)
        news = [fleet.hear() for fleet in self._fleets]
        self._hear_pause = _HEAR[0] if any(news) else min(_HEAR[1], self._hear_pause * _SLOWER)
        if self._packs.leaving:
            self._poll_pause = self._polling.first
            self._poll_at = min(self._poll_at, time.monotonic() + self._polling.first)
        self._submitter.journal.commit()
        if time.monotonic() >= self._poll_at:
            self._poll()
            self._submitter.journal.commit()
        self._submitter.watcher.tick(self._submitter.engine)

    def _poll(self) -> None:
        """Poll the queue, and settle what is no longer in it."""
        try:
            present = self._submitter.scheduler.poll()
            missing = {number for fleet in self._fleets for number in fleet.numbers() if number not in present}
            asked = missing & (self._gone.keys() | self._packs.numbers().keys())  # results of others may still arrive
            verdicts = self._submitter.scheduler.verdicts(asked) if asked else {}
        except SchedulerUnreachableError as error:
            self._warn_unreachable(error)
            self._slow_down()
            return
        self._unreachable = False
        for fleet in self._fleets:
            fleet.on_queue(present)
        self._settle_missing(missing, verdicts)
        self._slow_down()

    def _slow_down(self) -> None:
        self._poll_at = time.monotonic() + self._poll_pause
        self._poll_pause = self._polling.after(self._poll_pause)

    def _settle_missing(self, missing: set[str], verdicts: Mapping[str, Verdict]) -> None:
        now = time.monotonic()
        self._gone = {number: self._gone.get(number, now) for number in missing}
        for fleet in self._fleets:
            for number, own in fleet.numbers().items():
                since = self._gone.get(number)
                if since is not None:
                    verdict = self._read(verdicts.get(number, Verdict()), fleet.output(own))
                    fleet.gone(own, verdict, certain=now - since >= self._grace)
        if missing:
            self._poll_pause = self._polling.first

    def _read(self, verdict: Verdict, output: Path) -> Verdict:
        """Complete a verdict that does not tell why the job ended with what the batch job printed."""
        if verdict.outcome in (Outcome.DONE, Outcome.EXHAUSTED):
            return verdict
        printed = tail(output, _TAIL)
        found = self._submitter.scheduler.read(printed)
        if found is not None or verdict.outcome is not Outcome.FAILED or not printed.strip():
            return found or verdict
        return replace(verdict, note=f"{verdict.note or 'failed'}: {printed.strip().splitlines()[-1]} (see {output})")

    def _warn_unreachable(self, error: SchedulerUnreachableError) -> None:
        if not self._unreachable:
            _log.warning("%s; batch jobs continue, retrying", error)
        self._unreachable = True

    # Stop

    def _obey(self) -> bool:
        """Act on signals; return whether the driver should stop waiting."""
        if not self._signals.finish and not self._submitter.engine.closed:
            return False
        if self._signals.signal == signal.SIGHUP:
            return True  # a user who closes the terminal wants batch jobs to continue
        if self._cancels is None or self._signals.kill:
            self._submitter.engine.closed = True
            self._arrays.let_go()
            self._cancels = frozenset(JobStatus) if self._signals.kill else frozenset([JobStatus.WAITING])
            if not self._signals.kill and self._signals.finish:
                _log.info(
                    "cancelling waiting batch jobs, letting running ones finish; press Ctrl-C again to cancel all"
                )
            self._signals.kill = False
            self._cancel_at = 0.0
        if time.monotonic() >= self._cancel_at:
            self._cancel(self._cancels)
        return False

    def _cancel(self, statuses: Collection[JobStatus]) -> None:
        """Cancel batch jobs in certain states; retried later if the cluster does not answer."""
        try:
            self._submitter.withdraw()
            own = {number for fleet in self._fleets for number in fleet.numbers()}
            present = self._submitter.scheduler.poll() if own else {}
            numbers = [number for number, entry in present.items() if number in own and entry.status in statuses]
            if numbers:
                self._submitter.scheduler.cancel(numbers)
            self._cancel_at = inf
        except SchedulerUnreachableError as error:
            _log.warning("batch jobs could not be cancelled: %s; retrying", error)
            self._cancel_at = time.monotonic() + RETRY
        self._poll_at = 0.0
