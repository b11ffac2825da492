"""The engine on a cluster: tasks travel in batch jobs; files tell of their ends, and the cluster of what left no file.

What batch jobs write is looked for many times a minute, which costs the cluster nothing. The queue is asked for all of
them in one call, seldom while nothing happens.
"""

import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Protocol

from tonnage.batch.scheduler import JobStatus, QueueEntry, UnreachableError, Verdict
from tonnage.jobs import Outcome
from tonnage.run.backends.backend import StopSignals, heard
from tonnage.run.backends.batch.arrays import Arrays
from tonnage.run.backends.batch.packs import Packs
from tonnage.run.backends.batch.submitter import RETRY, Submitter
from tonnage.run.batch_jobs import BatchJob
from tonnage.run.events import Ended, Start

__all__ = ["BatchDriver"]

_HEAR = 0.1, 1.0  # seconds between two looks for files: while much happens, and while nothing does
_SLOWER = 1.3
_GRACE = 10.0  # seconds in which a file shows up that was written on another machine
_TAIL = 4096  # bytes of what a batch job printed that may say why it was ended


class _Fleet(Protocol):
    """Batch jobs of one kind; what the cluster calls by a number, they call by another."""

    def __len__(self) -> int: ...

    def hear(self) -> bool: ...

    def numbers(self) -> dict[str, int]: ...

    def looked(self, present: Mapping[str, QueueEntry]) -> None: ...

    def gone(self, number: int, verdict: Verdict, *, certain: bool) -> None: ...

    def output(self, number: int) -> Path: ...


class BatchDriver:
    """Drives an engine whose tasks travel in batch jobs, until it has finished or is told to stop."""

    def __init__(self, submitter: Submitter, arrays: Arrays, packs: Packs, run_fraction: float, grace: float) -> None:
        """Prepare; others' jobs run for a fraction of what they asked for, and files show up after a grace."""
        self._submitter = submitter
        self._arrays = arrays
        self._packs = packs
        self._fleets: tuple[_Fleet, ...] = (arrays, packs)
        self._run_fraction = run_fraction
        self._grace = max(grace, _GRACE)
        self._signals = StopSignals()
        self._gone: dict[str, float] = {}
        """What was not in the queue any more, and since when."""
        self._polling = submitter.scheduler.polling
        self._hear_pause, self._look_pause = _HEAR[0], self._polling.first
        self._look_at = 0.0
        self._unreachable = False
        self._cancels: frozenset[JobStatus] | None = None
        """Which batch jobs the user wants to be cancelled."""
        self._cancel_at = 0.0

    def take_up(self, jobs: list[BatchJob], running: Mapping[int, Start]) -> None:
        """Go on with batch jobs of an earlier engine, and the attempts of theirs that run."""
        for job in jobs:
            own = {attempt: start for attempt, start in running.items() if start.machine == job.id}
            taken = self._packs.take_up(job, own) if job.packed else self._arrays.take_up(job, own)
            for attempt in own.keys() - (taken or ()):
                note = "it was never submitted"
                self._submitter.settle(Ended(attempt=attempt, outcome=Outcome.LOST, ended=time.time(), note=note))
            if taken is None:
                never = "it was never submitted"
                self._submitter.ended(
                    job.id, never if job.native is None else "what is left of it does not count any more"
                )
        self._submitter.journal.commit()

    def go(self) -> int | None:
        """Run until nothing more can be done; return the signal that stopped it before that, if one did."""
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
        """Run what was added at the end, each task in a batch job of its own."""
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
        """Wait a moment, and take in what has happened."""
        time.sleep(self._hear_pause)
        news = [fleet.hear() for fleet in self._fleets]
        self._hear_pause = _HEAR[0] if any(news) else min(_HEAR[1], self._hear_pause * _SLOWER)
        if self._packs.leaving:
            self._look_pause = self._polling.first
            self._look_at = min(self._look_at, time.monotonic() + self._polling.first)
        self._submitter.journal.commit()
        if time.monotonic() >= self._look_at:
            self._look()
            self._submitter.journal.commit()
        self._submitter.watcher.tick(self._submitter.engine)

    def _look(self) -> None:
        """Ask the cluster what is in its queue, and settle what is not there any more."""
        try:
            present = self._submitter.scheduler.look()
            missing = {number for fleet in self._fleets for number in fleet.numbers() if number not in present}
            asked = missing & (self._gone.keys() | self._packs.numbers().keys())  # of others, word is on its way
            verdicts = self._submitter.scheduler.verdicts(asked) if asked else {}
        except UnreachableError as error:
            self._say_unreachable(error)
            self._slow_down()
            return
        self._unreachable = False
        for fleet in self._fleets:
            fleet.looked(present)
        self._settle_missing(missing, verdicts)
        self._slow_down()

    def _slow_down(self) -> None:
        self._look_at = time.monotonic() + self._look_pause
        self._look_pause = self._polling.after(self._look_pause)

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
            self._look_pause = self._polling.first

    def _read(self, verdict: Verdict, output: Path) -> Verdict:
        """Return a verdict; where it leaves something open, what the batch job printed may tell more."""
        if verdict.outcome in (Outcome.DONE, Outcome.EXHAUSTED):
            return verdict
        printed = _tail(output)
        told = self._submitter.scheduler.read(printed)
        if told is not None or verdict.outcome is not Outcome.FAILED or not printed.strip():
            return told or verdict
        return replace(
            verdict, note=f"{verdict.note or 'it failed'}: {printed.strip().splitlines()[-1]} (see {output})"
        )

    def _say_unreachable(self, error: UnreachableError) -> None:
        if not self._unreachable:
            self._submitter.say(f"{error}; batch jobs go on, and it is asked again")
        self._unreachable = True

    # Stop

    def _obey(self) -> bool:
        """Do what the signals say that came; whether there is nothing to wait for any more."""
        if not self._signals.finish and not self._submitter.engine.closed:
            return False
        if self._signals.signal == signal.SIGHUP:
            return True  # whoever closes his terminal wants batch jobs to go on
        if self._cancels is None or self._signals.kill:
            self._submitter.engine.closed = True
            self._arrays.let_go()
            self._cancels = frozenset(JobStatus) if self._signals.kill else frozenset([JobStatus.WAITING])
            if not self._signals.kill and self._signals.finish:
                self._submitter.say("what waits is cancelled, what runs may finish; another Ctrl-C cancels that, too")
            self._signals.kill = False
            self._cancel_at = 0.0
        if time.monotonic() >= self._cancel_at:
            self._cancel(self._cancels)
        return False

    def _cancel(self, phases: Collection[JobStatus]) -> None:
        """Cancel what waits, or all; where the cluster does not answer, it is tried again."""
        try:
            self._submitter.withdraw()
            own = {number for fleet in self._fleets for number in fleet.numbers()}
            present = self._submitter.scheduler.look() if own else {}
            numbers = [number for number, look in present.items() if number in own and look.phase in phases]
            if numbers:
                self._submitter.scheduler.cancel(numbers)
            self._cancel_at = inf
        except UnreachableError as error:
            self._submitter.say(f"batch jobs could not be cancelled: {error}; it is tried again")
            self._cancel_at = time.monotonic() + RETRY
        self._look_at = 0.0


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
