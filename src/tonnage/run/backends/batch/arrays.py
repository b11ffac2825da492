"""Submits each task as a batch job of its own, right-sized; tasks with the same allocation form a job array."""

import os
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, inf
from pathlib import Path

from tonnage.batch.scheduler import JobStatus, JobVariable, QueueEntry, Request, Scheduler, Verdict
from tonnage.errors import SubmissionRejectedError, TonnageError
from tonnage.jobs import Outcome, Resource
from tonnage.run.backends.batch.order_files import read_orders, write_orders
from tonnage.run.backends.batch.submitter import OUTPUT, SHARED_HINT, Submitter, module_command
from tonnage.run.backends.batch.verdicts import explained, needs_verdict
from tonnage.run.batch_jobs import BatchJob
from tonnage.run.events import Ended, Start
from tonnage.run.minders import Answer, Order, result_of
from tonnage.run.orders import Orders
from tonnage.run.outcomes import judge
from tonnage.watch.order import RESULTS
from tonnage.workflow import Task

__all__ = ["MONITOR", "Arrays", "alike", "request_of"]

MONITOR = 32.0 * 2**20
"""Memory of a task's monitor, which its batch job requests in addition."""
_MOST_SILENT = 20
_CANCELLED_MEANWHILE = "its batch job was cancelled while tonnage was not running"
_PAUSE = 1.0  # seconds between two submissions, in which more tasks with the same allocation become ready
_AT_A_TIME, _A_SECOND = 6, 2
"""The maximum number of batch jobs submitted at a time, and per second on average, to be fair to other users."""


@dataclass(slots=True)
class _Array:
    """A batch job that has not ended."""

    job: BatchJob
    attempts: tuple[int, ...]
    """In the order of their elements."""
    left: set[int]
    """Attempts whose end is not known yet."""
    native: str | None = None
    runs: bool = False
    """Whether one of them is known to have started."""
    note: str = ""
    """Why nothing of it ran, if so."""

    def numbers(self, scheduler: Scheduler) -> Iterator[tuple[str, int]]:
        """Yield the cluster's ids of the open elements, and their attempts."""
        if self.native is None:
            return
        for element, attempt in enumerate(self.attempts):
            if attempt in self.left:
                is_array = len(self.attempts) > 1
                yield (scheduler.element(self.native, element) if is_array else self.native), attempt


class Arrays:
    """Submits the tasks that the engine starts as batch jobs, and follows them to their ends."""

    def __init__(self, submitter: Submitter) -> None:
        self._submitter = submitter
        self._orders = Orders(submitter.files, submitter.folder, submitter.token)
        self._open: dict[int, _Array] = {}
        self._of: dict[int, _Array] = {}  # by attempts
        self._held: dict[int, Answer] = {}
        """Answers of attempts that were killed from outside: the cluster knows why."""
        self._unseen: set[int] = set()
        """Attempts of an earlier engine that were not found in the queue since."""
        self._spent: list[int] = []
        """Attempts whose results can be removed once the journal is committed."""
        self._groups: deque[list[Start]] = deque()
        """Attempts to submit, grouped by their allocations."""
        self._next = 0.0
        self._silent = 0
        """The number of batch jobs in a row that left no result for an unknown reason."""

    def __len__(self) -> int:
        return len(self._open)

    # Out

    def submit(self) -> None:
        """Submit what the engine has room for, at a limited rate."""
        submitter = self._submitter
        if submitter.engine.closed:
            self.let_go()
        if time.monotonic() < self._next:
            return
        if not self._groups:
            self._groups.extend(alike(submitter.engine.admit(), submitter.engine.tasks, max(1, submitter.limits.array)))
            for settled in submitter.engine.refused():
                submitter.journal.refused(settled)
                submitter.watcher.ended(Ended(attempt=0, outcome=Outcome.FAILED, hopeless=True), settled)
        sent = 0
        while self._groups and sent < _AT_A_TIME and not submitter.is_blocked:
            self._send(self._groups.popleft())
            sent += 1
        if sent:
            self._next = time.monotonic() + max(_PAUSE, sent / _A_SECOND)

    def _send(self, starts: Sequence[Start]) -> None:
        """Record and submit tasks with the same allocation."""
        submitter, now = self._submitter, time.time()
        number = submitter.jobs.next_id()
        starts = [replace(start, machine=number) for start in starts]
        task = submitter.engine.tasks[starts[0].task]
        folder = submitter.folder.batches / str(number)
        request = request_of(starts[0], task, submitter.name(number), submitter.files.folder, folder)
        request = replace(request, avoided=submitter.avoided())
        job = BatchJob(
            id=number,
            name=request.name,
            packed=False,
            first_attempt=starts[0].attempt,
            attempts=1,  # the journal lists each of them
            tasks=len(starts),
            cores=request.cores,
            memory=request.memory,
            disk=request.disk,
            seconds=None if request.seconds == inf else request.seconds,
            submitted=now,
        )
        submitter.jobs.add(job)
        submitter.journal.started(starts, now, submitted=now)
        submitter.journal.commit()
        orders = [order for start in starts if (order := self._order(start)) is not None]
        if not orders:
            submitter.ended(number, "none of its tasks could be started")
            return
        write_orders(submitter.place(number), orders)
        attempts = tuple(order.attempt for order in orders)
        array = self._note(job, attempts, attempts)
        elements = len(orders) if len(orders) > 1 else 0
        submitter.send(job, replace(request, elements=elements), _Sending(self, array))

    def _note(self, job: BatchJob, attempts: tuple[int, ...], left: Collection[int]) -> _Array:
        array = self._open[job.id] = _Array(job, attempts, set(left), job.native)
        self._of.update(dict.fromkeys(left, array))
        return array

    def _order(self, start: Start) -> Order | None:
        submitter = self._submitter
        try:
            return self._orders.order(start, submitter.engine.tasks[start.task])
        except (OSError, TonnageError) as error:
            note = f"could not be started: {error}"
            submitter.settle(
                Ended(attempt=start.attempt, outcome=Outcome.FAILED, hopeless=True, ended=time.time(), note=note)
            )
            return None

    def settle_all(self, array: _Array, outcome: Outcome, note: str) -> None:
        """Settle the attempts of a batch job that was not submitted."""
        array.note = note
        for attempt in list(array.left):
            hopeless = outcome is Outcome.FAILED
            self._settle(Ended(attempt=attempt, outcome=outcome, hopeless=hopeless, ended=time.time(), note=note))

    def let_go(self) -> None:
        """Drop attempts that are not recorded yet."""
        for start in chain.from_iterable(self._groups):
            self._submitter.engine.ended(Ended(attempt=start.attempt, outcome=Outcome.CANCELLED))
        self._groups.clear()

    # In

    def take_up(self, job: BatchJob, running: Mapping[int, Start]) -> Collection[int] | None:
        """Take over a batch job of an earlier engine; return its open attempts, or None if there are none."""
        submitter = self._submitter
        folder = submitter.place(job.id)
        attempts = read_orders(folder)
        left = running.keys() & attempts
        if not left:
            return None
        array = self._note(job, attempts, left)
        if job.native is None:
            start = running[min(left)]
            request = request_of(start, submitter.engine.tasks[start.task], job.name, submitter.files.folder, folder)
            elements = len(attempts) if len(attempts) > 1 else 0
            submitter.take_up(job, replace(request, elements=elements), _Sending(self, array))
        self._unseen |= left
        return left

    def hear(self) -> bool:
        """Process the answers that have arrived; return whether there were any."""
        for attempt in self._spent:
            _remove(self._submitter.folder.path / RESULTS / str(attempt))
        self._spent.clear()
        if not self._of:
            return False
        heard = False
        for attempt in _names(self._submitter.folder.path / RESULTS):
            if attempt in self._of and attempt not in self._held:
                heard = self._hear(attempt) or heard
        return heard

    def _hear(self, attempt: int) -> bool:
        answer = result_of(self._submitter.folder.path, attempt)
        if answer is None:
            return False
        if needs_verdict(answer):
            self._held[attempt] = answer
            return False
        self._settle(self._judged(answer))
        self._silent = 0
        return True

    def numbers(self) -> dict[str, int]:
        """Return the cluster's ids of everything open, each with its attempt."""
        scheduler = self._submitter.scheduler
        return {number: attempt for array in self._open.values() for number, attempt in array.numbers(scheduler)}

    def on_queue(self, present: Mapping[str, QueueEntry]) -> None:
        """Record what is running by now."""
        for number, attempt in self.numbers().items():
            entry = present.get(number)
            if entry is not None:
                self._unseen.discard(attempt)
            if entry is not None and entry.status is JobStatus.RUNNING:
                self._runs(attempt, entry.started or time.time())

    def _runs(self, attempt: int, since: float) -> None:
        if self._submitter.show(self._submitter.engine.start_of(attempt), since):
            self._submitter.journal.runs(attempt, since)
        array = self._of[attempt]
        if not array.runs:
            array.runs = True
            self._submitter.jobs.started(array.job.id, since)

    def gone(self, attempt: int, verdict: Verdict, *, certain: bool) -> None:
        """Settle an attempt whose batch job left the queue; unless `certain`, its result may still arrive."""
        if attempt not in self._of or self._hear(attempt):
            return
        answer = self._held.get(attempt)
        telling = verdict.outcome not in (None, Outcome.DONE) or (answer is not None and verdict.outcome is not None)
        if not telling and not certain:
            return
        if attempt in self._unseen and verdict.outcome is Outcome.CANCELLED:
            # A user who stops a run and then resumes it wants all of it.
            verdict = replace(verdict, outcome=Outcome.LOST, note=_CANCELLED_MEANWHILE)
        if answer is not None:
            end = self._judged(answer)
        else:
            ended = verdict.ended or time.time()
            lost = Answer(attempt, started=verdict.started or ended, ended=ended, lost=True)
            end = replace(self._judged(lost), note="")  # only the cluster can tell why
        end = explained(end, verdict)
        self._settle(end)
        self._count_silent(end)

    def _count_silent(self, end: Ended) -> None:
        """Stop the run if too many batch jobs in a row leave no result."""
        self._silent = self._silent + 1 if end.killed else 0
        if self._silent >= _MOST_SILENT:
            self._submitter.journal.commit()
            raise TonnageError(f"{self._silent} batch jobs in a row left no result: {end.note}", hint=SHARED_HINT)

    def output(self, attempt: int) -> Path:
        """Return the file with the output of an attempt's batch job."""
        array = self._of[attempt]
        name = f"{OUTPUT}.{array.attempts.index(attempt)}" if len(array.attempts) > 1 else OUTPUT
        return self._submitter.folder.batches / str(array.job.id) / name

    def _judged(self, answer: Answer) -> Ended:
        task = self._submitter.engine.tasks[self._submitter.engine.start_of(answer.attempt).task]
        return judge(answer, task, self._submitter.files)

    def _settle(self, end: Ended) -> None:
        self._submitter.settle(end)
        self._held.pop(end.attempt, None)
        self._spent.append(end.attempt)
        array = self._of.pop(end.attempt)
        array.left.discard(end.attempt)
        self._close_if_done(array)

    def _close_if_done(self, array: _Array) -> None:
        if not array.left:
            self._open.pop(array.job.id, None)
            self._submitter.drop(array.job.id)
            self._submitter.ended(array.job.id, array.note)


@dataclass(frozen=True, slots=True)
class _Sending:
    """Is notified of the outcome of a submission."""

    arrays: Arrays
    array: _Array

    def accepted(self, native: str) -> None:
        """Remember its id on the cluster."""
        self.array.native = native

    def rejected(self, error: SubmissionRejectedError) -> None:
        """Mark its tasks as failed."""
        self.arrays.settle_all(self.array, Outcome.FAILED, str(error))

    def withdrawn(self) -> None:
        """Leave its tasks to a later session."""
        self.arrays.settle_all(self.array, Outcome.CANCELLED, "not submitted")


def request_of(start: Start, task: Task, name: str, home: Path, folder: Path) -> Request:
    """Return the request for a batch job of attempts with the same allocation as this one.

    Temporary space is what the task requests: the measured disk use is on the shared file system.
    """
    given = {one.resource: one.amount for one in start.decisions}
    memory = given.get(Resource.MEMORY)
    return Request(
        name=name,
        words=(*module_command("tonnage.watch.single_task"), str(folder), *JobVariable),
        folder=home,
        output=folder / OUTPUT,
        cores=ceil(given.get(Resource.CORES, 1.0)),
        memory=None if memory is None else memory + MONITOR,
        disk=task.request.disk,
        gpus=task.gpus,
        seconds=given.get(Resource.WALL_TIME, inf),
    )


def alike(starts: Sequence[Start], tasks: Sequence[Task], most: int) -> Iterator[list[Start]]:
    """Group starts by their allocations, with at most as many in a group as an array may have."""
    groups: dict[tuple[object, ...], list[Start]] = defaultdict(list)
    for start in starts:
        given = tuple((one.resource, one.amount) for one in start.decisions)
        task = tasks[start.task]
        groups[given, task.request.disk, task.gpus].append(start)
    for group in groups.values():
        for place in range(0, len(group), most):
            yield group[place : place + most]


def _names(folder: Path) -> list[int]:
    """Return the attempts that have results."""
    try:
        with os.scandir(folder) as found:
            return [int(one.name) for one in found if one.name.isdecimal()]
    except OSError:
        return []


def _remove(path: Path) -> None:
    with suppress(OSError):  # it is found again next time, and ignored
        path.unlink()
