"""Packed batch jobs, which carry many tasks: submits what a packer puts together, and reads their ledgers."""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tonnage.batch import Snapshot
from tonnage.batch.scheduler import JobStatus, QueueEntry, Request, Verdict
from tonnage.errors import CannotPackError, SchedulerUnreachableError, SubmissionRejectedError, TonnageError
from tonnage.jobs import Outcome, Resource
from tonnage.pack import Submission
from tonnage.run.backends.batch.pack_contents import Loading, packed_request, time_limit_for
from tonnage.run.backends.batch.packing import InFlightPack, Packing
from tonnage.run.backends.batch.submitter import OUTPUT, RETRY, SHARED_HINT, Submitter
from tonnage.run.batch_jobs import BatchJob
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.minders import Answer
from tonnage.run.outcomes import judge
from tonnage.run.pilot.agent_pool import undelivered
from tonnage.run.pilot.job_spec import LEDGER, JobSpec
from tonnage.run.pilot.ledger import (
    AttemptAdjusted,
    AttemptEnded,
    AttemptStarted,
    Entry,
    LedgerReader,
    MachineLost,
    PilotFinished,
    TaskRefused,
)
from tonnage.run.run_log import GROWTH
from tonnage.units import format_seconds
from tonnage.wording import counted

__all__ = ["Packs"]

_NUMBERS = 20  # of attempts reserved for each task: more than it can need
_MOST_FRUITLESS = 3

_log = logging.getLogger(__name__)
_growth_log = logging.getLogger(GROWTH)


@dataclass(slots=True)
class _Pack:
    """A batch job that has not ended."""

    job: BatchJob
    tasks: frozenset[int]
    reader: LedgerReader
    native: str | None = None
    started: float | None = None
    run: int = 0
    """The expected run time of its tasks."""
    known: dict[int, bool] = field(default_factory=dict)
    """Attempts in the journal, and whether they have ended."""
    running: dict[int, float] = field(default_factory=dict)
    """Running attempts, and when they started."""
    cancelled: str = ""
    """Why Tonnage cancelled it."""
    finished_because: str = ""
    """The reason for its end that its pilot recorded."""
    stale: Collection[str] = ()
    """Tasks that have changed since, whose attempts do not count."""

    def way(self) -> InFlightPack:
        """Convert it to the form that packers use."""
        tasks = np.array(sorted(self.tasks), np.int64)
        if self.started is None:
            return InFlightPack(tasks, None, None)
        return InFlightPack(tasks, int(self.started) + self.run, int(self.started + (self.job.seconds or 0)))


class Packs:
    """Submits packed batch jobs, and follows them to their ends."""

    def __init__(
        self, submitter: Submitter, packing: Packing, loading: Loading, most: int, stale: Collection[str] = ()
    ) -> None:
        """Allow up to `most` queued or running batch jobs at a time; earlier attempts of `stale` tasks do not count."""
        self._submitter = submitter
        self._packing = packing
        self._loading = loading
        self._most = most
        self._index = packing.workflow.index
        self._stale = frozenset(stale)
        self._open: dict[int, _Pack] = {}
        self._fruitless = 0
        """The number of batch jobs in a row that started no task."""
        self._ask_at: float | None = 0.0
        """When to ask the packer next; None until something happens."""
        self.singly = False
        """Whether each task is submitted as a batch job of its own from now on."""

    def __len__(self) -> int:
        return len(self._open)

    # Out

    def submit(self, run_fraction: float) -> None:
        """Ask the packer if something has changed, and submit what it returns."""
        if self._ask_at is None or time.monotonic() < self._ask_at or len(self._open) >= self._most:
            return
        submitter = self._submitter
        if not self._packing.has_left(submitter.engine):
            self._ask_at = None  # the queue need not be polled
            return
        try:
            queue = _within(submitter.scheduler.queue(run_fraction), self._most_nodes())
        except SchedulerUnreachableError as error:
            _log.warning("%s; retrying", error)
            self._ask_at = time.monotonic() + RETRY
            return
        self._ask_at = None
        ways = [pack.way() for pack in self._open.values()]
        packed = self._packing.ask(submitter.engine, queue, ways, self._most - len(self._open))
        if packed is None:
            return
        if packed.singly:
            self.singly = True
            return
        if not packed.jobs and not self._open:
            raise CannotPackError("the packer found nothing to submit")
        for job in packed.jobs:
            if submitter.is_blocked:
                self._ask_at = 0.0  # when the cluster accepts jobs again
                return
            self._send(job, packed.reason)

    def _send(self, chosen: Submission, reason: str) -> None:
        """Record and submit tasks as one batch job."""
        submitter, number = self._submitter, self._submitter.jobs.next_id()
        tasks = [int(task) for task in chosen.tasks]
        awaited = self._loading.awaited(tasks, submitter.engine, self._job_carrying)
        if awaited is None:
            self._ask_at = time.monotonic() + RETRY  # a task that they wait for was just taken back
            return
        folder = submitter.place(number)
        kept = _NUMBERS * len(tasks)
        seconds = time_limit_for(chosen, submitter.limits)
        job = BatchJob(
            id=number,
            name=submitter.name(number),
            packed=True,
            first_attempt=submitter.engine.skip_attempts(kept),
            attempts=kept,
            tasks=len(tasks),
            nodes=chosen.nodes,
            seconds=seconds,
            reason=reason,
            estimated_wait=chosen.wait,
            submitted=time.time(),
        )
        estimate = self._estimated_start(job)
        if estimate is None:
            return
        job = replace(job, reason=f"{reason}; {estimate}")
        self._loading.job_spec(job, tasks, awaited, submitter.engine).write(folder)
        submitter.jobs.add(job)
        submitter.journal.commit()
        pack = self._note(job, frozenset(tasks), chosen.run)
        submitter.engine.send(tasks)
        submitter.send(job, self._request(job), _Sending(self, pack))
        carried, nodes = counted(len(tasks), "task"), counted(chosen.nodes, "node")
        _log.info("batch job %d carries %s on %s: %s", number, carried, nodes, job.reason)

    def _estimated_start(self, job: BatchJob) -> str | None:
        """Describe when a batch job would start, as estimated by the cluster; None if it does not answer.

        Raises CannotPackError if it could never start: a cluster may accept such jobs, and they would wait forever.
        """
        try:
            wait = self._submitter.scheduler.check(self._request(job))
        except SchedulerUnreachableError:
            self._ask_at = time.monotonic() + RETRY
            return None
        except SubmissionRejectedError as error:
            raise CannotPackError(str(error), hint=error.hint) from None
        if wait is None:
            return "the cluster has no estimate of its start"
        return f"the cluster expects it to start in {format_seconds(round(wait))}"

    def _note(self, job: BatchJob, tasks: frozenset[int], run: int) -> _Pack:
        reader = LedgerReader(self._submitter.place(job.id) / LEDGER)
        pack = self._open[job.id] = _Pack(job, tasks, reader, job.native, run=run)
        return pack

    def _most_nodes(self) -> int:
        """Return the maximum number of nodes of a batch job."""
        there, allowed = len(self._loading.common.nodes), self._submitter.limits.job_nodes
        there = max(1, there - len(self._submitter.avoided()))
        return there if allowed is None else min(there, allowed)

    def _job_carrying(self, task: int) -> int | None:
        return next((number for number, pack in self._open.items() if task in pack.tasks), None)

    def _request(self, job: BatchJob) -> Request:
        folder, avoided = self._submitter.place(job.id), (*self._loading.avoided, *self._submitter.avoided())
        home, inside = self._submitter.files.folder, self._submitter.scheduler.inside
        return packed_request(job.name, home, folder, job.nodes, job.seconds, avoided, inside)

    # In

    def take_up(self, job: BatchJob, running: Mapping[int, Start]) -> Collection[int] | None:
        """Take over a batch job of an earlier engine; return its running attempts, or None if it has no job spec."""
        submitter = self._submitter
        folder = submitter.place(job.id)
        try:
            names = {task.name for task in JobSpec.read(folder).tasks} - self._stale
        except TonnageError:
            return None
        pack = self._note(job, frozenset(self._index[name] for name in names if name in self._index), 0)
        pack.started, pack.stale = job.started, self._stale
        for attempt, started in submitter.journal.read("SELECT id, started FROM attempts WHERE machine = ?", job.id):
            pack.known[attempt] = attempt not in running
            if attempt in running:
                pack.running[attempt] = started
        if job.native is None:
            submitter.take_up(job, self._request(job), _Sending(self, pack))
        return running.keys()

    def hear(self) -> bool:
        """Process new entries of all ledgers; return whether there were any."""
        heard = False
        for pack in list(self._open.values()):
            heard = self._hear(pack) or heard
        return heard

    def _hear(self, pack: _Pack) -> bool:
        entries = pack.reader.new()
        for entry in entries:
            self._take(pack, entry)
        return bool(entries)

    def _take(self, pack: _Pack, entry: Entry) -> None:
        submitter = self._submitter
        match entry:
            case AttemptStarted(task=name, time=moment, start=start):
                task = self._task(pack, name)
                if start.attempt not in pack.known and task is not None:
                    self._started(pack, replace(start, task=task, machine=pack.job.id), moment)
            case AttemptAdjusted(time=moment, change=change):
                if pack.known.get(change.attempt) is False:
                    submitter.journal.adjusted([change], moment)
                    title = submitter.engine.tasks[submitter.engine.start_of(change.attempt).task].title
                    _growth_log.debug("%s: %s: %s", title, change.action, change.reason)
                    if change.memory is not None:
                        submitter.engine.grew(change.attempt, change.memory)
            case AttemptEnded(end=end):
                if pack.known.get(end.attempt) is False:
                    pack.known[end.attempt] = True
                    pack.running.pop(end.attempt, None)
                    self._send_revived(submitter.settle(end).revived)
            case TaskRefused(task=name, settled=settled):
                self._refuse(self._task(pack, name), settled)
            case MachineLost(node=node):
                _log.warning("node %s of batch job %d no longer answers", node, pack.job.id)
            case PilotFinished(reason=reason):
                pack.finished_because = reason  # if it was killed, the cluster knows why

    def _started(self, pack: _Pack, start: Start, moment: float) -> None:
        submitter = self._submitter
        self._fruitless = 0
        pack.known[start.attempt] = False
        pack.running[start.attempt] = moment
        submitter.journal.started([start], moment, submitted=pack.job.submitted)
        submitter.engine.adopt(start)
        submitter.show(start, moment)
        if pack.started is None:
            self._runs(pack, moment)

    def _send_revived(self, tasks: Iterable[int]) -> None:
        """Leave failed tasks that are retried after all to the batch jobs that carry them."""
        self._submitter.engine.send(task for task in tasks if self._job_carrying(task) is not None)
        self._ask_at = 0.0

    def _task(self, pack: _Pack, name: str) -> int | None:
        """Return the number of a task; None if its attempts in this batch job do not count."""
        return None if name in pack.stale else self._index.get(name)

    def _refuse(self, task: int | None, settled: Settled) -> None:
        if task is not None and self._submitter.engine.states[task] == State.SENT:
            failed = self._submitter.engine.give_up(task, settled.reason)
            self._submitter.journal.refused(failed)
            self._submitter.watcher.ended(Ended(attempt=0, outcome=Outcome.FAILED, hopeless=True), failed)

    @property
    def leaving(self) -> bool:
        """Whether the pilot of a batch job has finished."""
        return any(pack.finished_because for pack in self._open.values())

    def numbers(self) -> dict[str, int]:
        """Return the cluster's ids of the open batch jobs, each with our number."""
        return {pack.native: number for number, pack in self._open.items() if pack.native is not None}

    def on_queue(self, present: Mapping[str, QueueEntry]) -> None:
        """Record what is running by now."""
        for number, job in self.numbers().items():
            entry, pack = present.get(number), self._open[job]
            if entry is not None and entry.status is JobStatus.RUNNING and pack.started is None:
                self._runs(pack, entry.started or time.time())
        # Batch jobs that could not be cancelled before, or whose ids were not known then.
        numbers = self.numbers().items()
        self._cancel([number for number, job in numbers if self._open[job].cancelled and number in present])

    def _runs(self, pack: _Pack, since: float) -> None:
        pack.started = since
        self._submitter.jobs.started(pack.job.id, since)
        self._ask_at = 0.0

    def gone(self, job: int, verdict: Verdict, *, certain: bool) -> None:
        """Settle a batch job that left the queue; unless `certain`, its ledger may still grow."""
        pack = self._open.get(job)
        if pack is None:
            return
        self._hear(pack)
        never_ran = pack.started is None and verdict.outcome not in (None, Outcome.DONE)
        if certain or pack.finished_because or never_ran:
            self.end(pack, verdict)

    def output(self, job: int) -> Path:
        """Return the file with the output of a batch job."""
        return self._submitter.place(job) / OUTPUT

    def end(self, pack: _Pack, verdict: Verdict) -> None:
        """Take back the tasks that a batch job has not done."""
        submitter = self._submitter
        del self._open[pack.job.id]
        submitter.drop(pack.job.id)
        note = pack.cancelled or verdict.note or pack.finished_because or "finished"
        answers = undelivered(submitter.place(pack.job.id)) if pack.running else {}
        for attempt, since in pack.running.items():
            self._lose(answers.get(attempt) or Answer(attempt, started=since, ended=time.time(), lost=True), note)
        for task in pack.tasks:
            submitter.engine.take_back(task)
        submitter.ended(pack.job.id, note)
        if verdict.outcome is not Outcome.DONE:
            _log.info("batch job %d ended: %s", pack.job.id, note)
        if verdict.exhausted is Resource.WALL_TIME:
            self._packing.more_time()
        self._cancel_behind()
        self._ask_at = 0.0
        if not pack.known and not pack.cancelled and verdict.outcome is not Outcome.CANCELLED:
            self._count_fruitless(note)

    def _count_fruitless(self, note: str) -> None:
        """Stop the run if too many batch jobs in a row start no task."""
        self._fruitless += 1
        self._ask_at = time.monotonic() + RETRY * self._fruitless
        if self._fruitless >= _MOST_FRUITLESS:
            self._submitter.journal.commit()
            raise CannotPackError(f"{self._fruitless} batch jobs in a row started no task: {note}", hint=SHARED_HINT)

    def _lose(self, answer: Answer, note: str) -> None:
        """Settle an attempt that was running when its batch job ended; it may have finished nevertheless."""
        submitter = self._submitter
        task = submitter.engine.tasks[submitter.engine.start_of(answer.attempt).task]
        end = judge(answer, task, submitter.files)
        lost = end.outcome is Outcome.LOST
        submitter.settle(replace(end, note=f"its batch job ended: {note}") if lost else end)

    def _cancel_behind(self) -> None:
        """Cancel batch jobs with tasks that wait for a task which is no longer in any batch job."""
        behind = [pack for pack in self._open.values() if not pack.cancelled and self._waits_for_ever(pack)]
        numbers = []
        for pack in behind:
            pack.cancelled = "its tasks wait for tasks that are no longer in a batch job"
            numbers += [pack.native] if pack.native is not None else []
        self._cancel(numbers)

    def _waits_for_ever(self, pack: _Pack) -> bool:
        engine, graph = self._submitter.engine, self._packing.workflow.graph
        carried = frozenset[int]().union(*(other.tasks for other in self._open.values()))
        return any(
            engine.states[parent] in (State.WAITING, State.READY) and parent not in carried
            for task in pack.tasks
            if engine.states[task] == State.SENT
            for parent in graph.parents_of(task).tolist()
        )

    def _cancel(self, numbers: list[str]) -> None:
        try:
            if numbers:
                self._submitter.scheduler.cancel(numbers)
        except SchedulerUnreachableError as error:
            _log.warning("batch jobs %s could not be cancelled: %s", ", ".join(numbers), error)


@dataclass(frozen=True, slots=True)
class _Sending:
    """Is notified of the outcome of a submission."""

    packs: Packs
    pack: _Pack

    def accepted(self, native: str) -> None:
        """Remember its id on the cluster."""
        self.pack.native = native

    def rejected(self, error: SubmissionRejectedError) -> None:
        """Take its tasks back, and report the error."""
        self.packs.end(self.pack, Verdict(note=str(error)))
        raise CannotPackError(str(error), hint=error.hint)

    def withdrawn(self) -> None:
        """Take its tasks back."""
        self.packs.end(self.pack, Verdict(note="not submitted"))


def _within(queue: Snapshot, most: int) -> Snapshot:
    """Limit a queue to the nodes that a batch job can have."""
    if most >= queue.nodes:
        return queue
    return Snapshot(queue.now, most, queue.times, np.minimum(queue.free, most), queue.busy, queue.effort)
