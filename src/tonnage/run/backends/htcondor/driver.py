"""The driver for pools: DAGMan starts the tasks, and the event log of their jobs reports starts and ends.

Files are checked many times a minute, which costs the pool nothing. The schedd is asked a single question now and then,
regardless of the number of jobs, in case DAGMan disappeared without a trace.
"""

import logging
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

from tonnage.batch.htcondor.dag import DAG, avoid_machines, write_dag
from tonnage.errors import SchedulerUnreachableError, SubmissionRejectedError, TonnageError
from tonnage.jobs import Outcome
from tonnage.run.backends.backend import AttemptRecorder, RunContext, StopSignals, heard
from tonnage.run.backends.htcondor.dag_plan import Plan, read_nodes, to_submit, write_nodes
from tonnage.run.backends.htcondor.event_log import Began, HeldUp, News, Over, Removed
from tonnage.run.backends.htcondor.submitted_dag import SubmittedDag, is_left
from tonnage.run.batch_jobs import BatchJob, BatchJobs, batch_jobs
from tonnage.run.events import RETRIED_ELSEWHERE, Ended, Start, State
from tonnage.run.state import QUEUED

__all__ = ["DagmanDriver"]

_HEAR = 0.1, 2.0  # seconds between two checks of files: while much happens, and while nothing does
_LOOK = 20.0, 120.0  # seconds between two questions to the schedd: at first, and at most
_SLOWER = 1.3
_GRACE = 10.0  # seconds until the last events of jobs are visible after DAGMan finished
_RETRY = 5.0  # seconds until the next request to a schedd that did not answer
_NUMBERS = 1000  # of attempts reserved for each task: evictions count

_log = logging.getLogger(__name__)


class DagmanDriver:
    """Drives an engine whose tasks DAGMan starts, until DAGMan has finished or a signal stops it."""

    def __init__(self, context: RunContext, plan: Plan, recorder: AttemptRecorder) -> None:
        self._context = context
        self._plan = plan
        self._options = plan.options
        self._recorder = recorder
        self._engine = recorder.engine
        self._jobs = BatchJobs(context.journal)
        self._signals = StopSignals()
        self._now: SubmittedDag | None = None
        self._hear_pause, self._look_pause = _HEAR[0], _LOOK[0]
        self._look_at = self._retry_at = 0.0
        self._goes_on = False
        """Whether DAGMan finished while no engine was running, so that the rest must be submitted again."""
        self._requested = ""
        """What was requested of DAGMan: to halt, or to go."""
        self._avoided: frozenset[str] = frozenset()
        """The machines that jobs are told not to use."""
        self._revived = False
        """Whether tasks that DAGMan has given up are to be submitted again, because their machine is avoided now."""
        self._logged: set[str] = set()
        self._queued = -1
        """The number of waiting jobs that is recorded in the journal."""

    # Start

    def take_up(self, jobs: Iterable[BatchJob]) -> None:
        """Take over what an earlier engine submitted."""
        for job in jobs:
            folder = self._place(job.id)
            if not (folder / DAG).exists():
                self._jobs.ended(job.id, time.time(), "never submitted")
            else:
                now = self._follow(job, folder, self._context.stale)
                now.native = now.native or now.number_in_log()
                self._goes_on = now.has_ended()
        self._context.journal.commit()

    def go(self) -> int | None:
        """Run until DAGMan has finished; return the signal that stopped it earlier, if one did."""
        return self._go(range(len(self._context.workflow)))

    def go_last(self) -> int | None:
        """Run the final tasks."""
        return self._go(range(len(self._context.workflow), len(self._engine.tasks)))

    def _go(self, tasks: Sequence[int]) -> int | None:
        with heard(self._signals):
            if self._now is None:
                self._begin(tasks)
            while (now := self._now) is not None:
                self._submit(now)
                self._step(now)
                if self._obey():
                    break
                self._begin_again(tasks)
        self._context.journal.commit()
        self._recorder.watcher.tick(self._engine)
        return self._signals.signal

    def _begin_again(self, tasks: Sequence[int]) -> None:
        """Submit what remains of a DAGMan that finished while no engine was running, or that gave up too early."""
        if self._now is None and (self._goes_on or self._revived):
            self._goes_on = self._revived = False
            self._begin(tasks)

    def _begin(self, tasks: Sequence[int]) -> None:
        """Record what to submit: the rescue DAG of the last submission, or a new DAG of the remaining tasks."""
        left = to_submit(self._engine, tasks)
        if not left:
            return
        if not self._go_on_with_rescue(left):
            self._write(left)
        self._engine.send(left)
        self._context.journal.commit()

    def _go_on_with_rescue(self, left: Sequence[int]) -> bool:
        """Reuse the last DAG if DAGMan left a rescue DAG and nothing has changed since; return whether that is so."""
        index = self._context.workflow.index
        for job in reversed(batch_jobs(self._context.journal)):
            folder = self._place(job.id)
            if not any(one.task in index for one in read_nodes(folder)[0].values()):
                continue  # it contains only final tasks
            if self._context.stale or not is_left(self._plan.dag(folder, left)):
                return False
            self._jobs.reopened(job.id)
            now = self._follow(replace(job, native=None, ended=None), folder)
            now.halt_file.unlink(missing_ok=True)
            now.about_to_submit()
            return True
        return False

    def _write(self, left: Sequence[int]) -> None:
        context, number = self._context, self._jobs.next_id()
        folder = self._place(number)
        tries = [self._engine.next_try(task) for task in left]
        dag = self._plan.dag(folder, left)
        write_nodes(folder, write_dag(dag), [one.attempts for one in tries], dag.terms)
        kept = _NUMBERS * len(left)
        job = BatchJob(
            id=number,
            name=f"tonnage-{context.token}-{number}",
            packed=True,
            first_attempt=self._engine.skip_attempts(kept),
            attempts=kept,
            tasks=len(left),
            submitted=time.time(),
        )
        self._jobs.add(job)
        self._follow(job, folder)

    def _follow(self, job: BatchJob, folder: Path, stale: frozenset[str] = frozenset()) -> SubmittedDag:
        """Start following a DAG; `stale` tasks have changed since it was written."""
        known = self._context.journal.read("SELECT id, ended IS NOT NULL FROM attempts WHERE machine = ?", job.id)
        over = {attempt: bool(ended) for attempt, ended in known}
        tasks = {task.name: number for number, task in enumerate(self._engine.tasks) if task.name not in stale}
        self._now = SubmittedDag(job, folder, tasks, over, job.native)
        return self._now

    def _place(self, number: int) -> Path:
        return self._context.folder.batches / str(number)

    # Out

    def _submit(self, now: SubmittedDag) -> None:
        """Submit the DAG, unless HTCondor has accepted it in an earlier submission that got no answer."""
        if now.native is not None or time.monotonic() < self._retry_at or self._signals.finish:
            return
        try:
            native = now.number_in_log() or (self._options.system.find(now.job.name) if now.was_tried else None)
            if native is None:
                native = self._hand_over(now)
        except SchedulerUnreachableError as error:
            self._log_once(f"{error}; retrying")
            self._retry_at = time.monotonic() + _RETRY
            return
        except SubmissionRejectedError as error:
            self._close(now, f"HTCondor rejected it: {error}")
            raise TonnageError(f"HTCondor rejected {now.dag}: {error}") from None
        now.native = native
        self._look_at = time.monotonic() + _LOOK[0]
        self._jobs.accepted(now.job.id, native)
        self._jobs.started(now.job.id, time.time())
        self._context.journal.commit()
        _log.info("DAGMan runs as job %s and starts the tasks in %s", native, now.dag)

    def _hand_over(self, now: SubmittedDag) -> str:
        now.about_to_submit()
        self._engine.avoid_bad_nodes(time.time())
        self._avoided = self._engine.avoided
        avoid_machines(now.folder, self._avoided)
        # The submitting process holds the run's lock: no engine takes over before it is known what was accepted.
        return self._options.system.submit(
            now.dag,
            now.job.name,
            folder=self._context.files.folder,
            most=self._options.most,
            held=[self._context.lock.descriptor],
        )

    # In

    def _step(self, now: SubmittedDag) -> None:
        """Wait a moment, and process what has happened."""
        time.sleep(self._hear_pause)
        ended = now.native is not None and now.gone is None and self._has_gone(now)  # before its last events are read
        news = list(now.news())
        for one in news:
            self._take(now, one)
        self._avoid_machines(now)
        self._note_queued(now.attempts.waiting)
        self._hear_pause = _HEAR[0] if news else min(_HEAR[1], self._hear_pause * _SLOWER)
        if ended:
            now.gone = time.monotonic()
        if now.gone is not None and not news and self._nothing_follows(now, now.gone):
            self._close(now, "DAGMan finished")
        self._context.journal.commit()
        self._recorder.watcher.tick(self._engine)

    def _avoid_machines(self, now: SubmittedDag) -> None:
        """Tell waiting and future jobs which machines not to use, if that has changed."""
        if self._engine.avoided:
            self._engine.avoid_bad_nodes(time.time())  # or stop avoiding them
        if now.native is None or self._engine.avoided == self._avoided or time.monotonic() < self._retry_at:
            return
        avoid_machines(now.folder, self._engine.avoided)
        try:
            self._options.system.avoid(now.native, self._engine.avoided)
            self._avoided = self._engine.avoided
        except SchedulerUnreachableError as error:
            self._log_once(f"{error}; retrying")
            self._retry_at = time.monotonic() + _RETRY

    def _note_queued(self, jobs: int) -> None:
        if jobs != self._queued:
            self._queued = jobs
            self._context.journal.note({QUEUED: str(jobs)})

    @staticmethod
    def _nothing_follows(now: SubmittedDag, since: float) -> bool:
        """Whether no more events are expected of the jobs of a DAGMan that is gone."""
        return not now.attempts.running or time.monotonic() - since > _GRACE

    def _has_gone(self, now: SubmittedDag) -> bool:
        """Whether DAGMan has left the queue, according to its log or to the schedd, which is asked now and then."""
        if now.has_ended():
            return True
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + self._look_pause
        self._look_pause = min(_LOOK[1], self._look_pause * _SLOWER)
        return not self._is_in_queue(now)

    def _is_in_queue(self, now: SubmittedDag) -> bool:
        try:
            found = self._options.system.poll().get(now.native or "")
        except SchedulerUnreachableError as error:
            self._log_once(f"{error}; jobs continue, retrying")
            return True
        if found is not None and found.reason:
            self._log_once(f"DAGMan ({now.native}) is {found.reason}; condor_release {now.native} lets it continue")
        return found is not None

    def _take(self, now: SubmittedDag, news: News) -> None:
        task = now.tasks.get(news.sent.task)
        if task is None:
            return
        match news:
            case Began():
                self._began(now, task, news)
            case Over(attempt=attempt):
                if now.known.get(attempt) is False and attempt in self._engine.running:
                    now.known[attempt] = True
                    settled = self._recorder.settle(self._unless_unattended(now.end_of(news)))
                    self._revived = self._revived or bool(settled.revived) or settled.reason == RETRIED_ELSEWHERE
            case HeldUp(sent=sent, reason=reason):
                self._log_once(f"{sent.task} is held: {reason}")
            case Removed(sent=sent, reason=reason):
                self._log_once(f"{sent.task} was removed: {reason}")

    def _unless_unattended(self, end: Ended) -> Ended:
        """Turn a cancellation while no engine was running into a loss: a user who resumes a run wants all of it."""
        if not self._goes_on or end.outcome is not Outcome.CANCELLED:
            return end
        return replace(end, outcome=Outcome.LOST, note="its job was removed while tonnage was not running")

    def _began(self, now: SubmittedDag, task: int, news: Began) -> None:
        if news.attempt in now.known:
            return
        now.known[news.attempt] = False
        start = Start(news.attempt, task, news.number, now.job.id, news.decisions, nan)
        self._context.journal.started([start], news.moment, submitted=news.submitted)
        self._engine.adopt(start)
        self._recorder.show(start, news.moment)

    # Stop

    def _close(self, now: SubmittedDag, note: str) -> None:
        """Take back the tasks that DAGMan has not done; the same command resumes them."""
        for news in now.attempts.rest():
            self._take(now, news)
        for task, state in enumerate(self._engine.states):
            if state == State.SENT:
                self._engine.take_back(task)
        for task, state in enumerate(self._engine.states):
            if state == State.READY and not self._goes_on and not self._revived:
                self._engine.cancel(task)
        self._jobs.ended(now.job.id, time.time(), note)
        self._note_queued(0)
        self._context.journal.commit()
        self._now = None

    def _obey(self) -> bool:
        """Act on signals; return whether the driver should stop waiting."""
        now = self._now
        if now is None or not (self._signals.finish or self._engine.closed):
            return False
        if self._signals.signal == signal.SIGHUP:
            return True  # a user who closes the terminal wants jobs to continue
        if now.native is None:
            if not now.was_tried:
                self._close(now, "not submitted")
            return True  # if HTCondor did not answer, the same command finds out later whether it was accepted
        if self._signals.kill:
            self._remove(now)
        elif not self._requested:
            self._requested = "halt"
            self._engine.closed = True
            now.halt_file.touch(0o600)
            if self._signals.finish:
                _log.info("DAGMan submits no more jobs, letting running ones finish; press Ctrl-C again to remove them")
        return False

    def _remove(self, now: SubmittedDag) -> None:
        if self._requested == "go" or time.monotonic() < self._retry_at:
            return
        try:
            self._options.system.cancel([now.native or ""])
            self._requested = "go"
        except SchedulerUnreachableError as error:
            self._log_once(f"DAGMan could not be removed: {error}; retrying")
            self._retry_at = time.monotonic() + _RETRY

    def _log_once(self, text: str) -> None:
        if text not in self._logged:
            self._logged.add(text)
            _log.warning(text)
