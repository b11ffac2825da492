"""A session: finds or creates a run, sizes and ranks its tasks, executes them, and stores them in the archive.

A dry run is the same session on a copy of the journal, which stops before it acts.
"""

import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tonnage.archive import run_fraction
from tonnage.archive.engine import on_network
from tonnage.archive.remote import archive_session
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Outcome, Resource
from tonnage.run.archiving import peaks_of_tasks, remember, wanted_for
from tonnage.run.backends.backend import Driver, RunContext, Watcher
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.failures import Failures, reason_for
from tonnage.run.files import Files
from tonnage.run.folders import RUNS, Lock, RunFolder, choosing, new_run, runs_of
from tonnage.run.journal import Journal, Reader, begun_by_another_version
from tonnage.run.machines import Machine
from tonnage.run.options import Options
from tonnage.run.preflight import check_commands, check_gpus, foreseen
from tonnage.run.recovery import finals, recover
from tonnage.run.run_log import RunLog
from tonnage.run.setup import Explained, backend_for, explained, is_piped, path_of, set_up
from tonnage.run.state import Summary, facts_of, state_of, summarise
from tonnage.units import format_bytes
from tonnage.wording import counted
from tonnage.workflow import Workflow

__all__ = ["Result", "RunSession"]

_log = logging.getLogger(__name__)

_NEW = "RUN"
"""Placeholder for the name of a run that a dry run does not create."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a session."""

    run: RunFolder
    tasks: int
    done: int
    failed: dict[str, str]
    """The tasks that failed, and why."""
    failures: list[str]
    """The same in a line for each kind of failure."""
    unreachable: int
    """Number of tasks that could not run because a task they depend on failed."""
    stopped_by: int | None
    """The signal that stopped it before everything was done."""
    summary: Summary
    before: Summary | None = None
    """The summary of the last finished run of the same workflow."""


class RunSession:
    """A run that is ready to start or resume: locked, recovered from earlier sessions, everything decided."""

    def __init__(self, workflow: Workflow, options: Options, *, dry: bool = False) -> None:
        """Find the run to resume, or create a new one; with `dry` nothing is changed, and `go` must not be called."""
        self.workflow = workflow
        self.options = options
        self._dry = dry
        with ExitStack() as opened:
            self._run_log = opened.enter_context(closing(RunLog()))
            self._prepare(opened)
            self._open = opened.pop_all()

    def _prepare(self, opened: ExitStack) -> None:
        check_commands(self.workflow)
        check_gpus(self.workflow, self.options.cluster)
        self.home = path_of(self.workflow).parent
        self.backend = backend_for(self.home, self.options, dry=self._dry)
        self.machine = self.backend.machine
        self.backend.check(self.workflow)
        self.archive_session = archive_session(self.options.archive)
        self.archive = opened.enter_context(closing(self.archive_session.archive))
        if self._dry:
            self._copy(opened)
        else:
            self._begin(opened)
        self.token = self._token()
        self.files = Files(self.home, self.folder, sandbox=self.options.sandbox)
        self._recover()
        for warning in foreseen(self.workflow, self.files, self._to_do()):
            _log.warning(warning)

    def close(self) -> None:
        """Release the lock, and close the journal, the archive and the log."""
        self._open.close()

    def explained(self) -> list[Explained]:
        """Return what the tasks of each category would be allocated now."""
        return explained(self._setup.sizes, self.files, self._to_do())

    def submissions(self) -> list[str]:
        """Return what would be submitted to a cluster first: scripts, or a command."""
        return self.backend.submissions(self._parts())

    def _to_do(self) -> list[int]:
        return [place for place in range(len(self.workflow)) if self.engine.states[place] != State.DONE]

    def go(self, watcher: Watcher) -> Result:
        """Run the remaining tasks; whatever happens, finished attempts are stored in the archive."""
        tasks = len(self.workflow) + len(finals(self.workflow))
        _log.info(self._first_line(tasks))
        failures = Failures(self.engine, self.workflow)
        watch = _Logged(watcher, self.engine, failures)
        signal: int | None = None
        try:
            with self.backend.driving(self._parts(), watch) as driver:
                signal = driver.go()
                if signal is None:
                    signal = self._go_last(driver)
        finally:
            for warning in (*self._remember(), *self.archive_session.tell(patient=signal is None)):
                _log.warning(warning)
        done = self.engine.counts[State.DONE]
        if done == tasks:
            self.journal.note({"finished": repr(time.time())})
        names = {self.engine.tasks[number].name: reason for number, reason in failures.reasons.items()}
        return Result(
            run=self.folder,
            tasks=tasks,
            done=done,
            failed=names,
            failures=failures.summary(),
            unreachable=len(self.engine.unreachable()),
            stopped_by=signal,
            summary=summarise(self.journal.rows(), self.machine),
            before=self._before(),
        )

    def _first_line(self, tasks: int) -> str:
        """Say what is run, where and how, and how much of it is done already."""
        path, source = path_of(self.workflow), self.workflow.source
        what = f"{path.name} ({source.format})" if source else path.name
        where = self.backend.name if self.options.cluster else _described(self.machine)
        begins = "resumes" if self.resumed else "starts"
        done = f"{self.engine.counts[State.DONE]:,} of {counted(tasks, 'task')} done"
        return f"{what} on {where}, sized by {self.options.strategy}; the run {self.folder.id} {begins}: {done}"

    def _parts(self) -> RunContext:
        return RunContext(
            workflow=self._setup.sizes.workflow,
            engine=self.engine,
            journal=self.journal,
            files=self.files,
            folder=self.folder,
            lock=self.lock,
            token=self.token,
            places=self._setup.places,
            strategy=self._setup.sizes.strategy,
            rules=self.options.rules,
            sandbox=self.options.sandbox,
            seconds=peaks_of_tasks(self.archive, self.workflow, Resource.WALL_TIME) if self.options.cluster else {},
            run_fraction=(run_fraction(self.archive) or 1.0) if self.options.cluster else 1.0,
            stale=self._left.stale,
            shared_disk=self._shared_disk,
        )

    def _go_last(self, driver: Driver) -> int | None:
        """Run the final tasks, which run even if others failed; nothing else starts any more."""
        last = finals(self.workflow)
        for number, state in enumerate(self.engine.states):
            if last and state == State.READY:
                self.engine.cancel(number)
        self.engine.closed = False
        for place, task in enumerate(last, len(self.workflow)):
            self.engine.add(task, self._setup.sizes.known.get(place))
        return driver.go_last() if last else None

    def _remember(self) -> tuple[str, ...]:
        try:
            self.journal.commit()
            report = remember(self.archive_session, self.journal, self.folder, self.workflow, self.options.fields)
        except TonnageError as error:
            return (f"this run could not be stored in the archive: {error}",)
        return tuple(f"the archive skipped attempts: {reason} ({count})" for reason, count in report.reasons.items())

    def _before(self) -> Summary | None:
        """Return the summary of the last finished run of this very workflow."""
        for folder in runs_of(self.home):
            facts = facts_of(folder)
            if folder != self.folder and "finished" in facts and facts.get("checksum") == self.workflow.checksum:
                return state_of(folder).summary
        return None

    # Which run

    def _begin(self, opened: ExitStack) -> None:
        """Choose the run to resume or create a new one, and open its journal."""
        with choosing(self.home):
            chosen = self._choose()
            self.folder, self.resumed = chosen or new_run(path_of(self.workflow)), chosen is not None
            self.lock = Lock(self.folder)
            opened.callback(self.lock.release)
            self.folder.make()
            self._run_log.open(self.folder.log)
            self._shared_disk = on_network(self.folder.path)
            if self._shared_disk:
                _log.info("the run's folder is on a network file system: its journal uses no write-ahead log")
            self.journal = Journal(self.folder.journal, durable=self.options.durable, shared_disk=self._shared_disk)
        opened.callback(self.journal.close)

    def _copy(self, opened: ExitStack) -> None:
        """Prepare a dry run, with a copy of the journal in a temporary folder."""
        chosen = self._choose()
        self.folder, self.resumed = chosen or RunFolder(self.home / RUNS / _NEW), chosen is not None
        scratch = RunFolder(Path(opened.enter_context(TemporaryDirectory(prefix="tonnage-"))))
        if chosen is not None:
            chosen.check_free()
            with closing(Reader(chosen.journal)) as reader:
                reader.copy_to(scratch.journal)
        self.lock, self._shared_disk = Lock(scratch), False
        self.journal = Journal(scratch.journal)
        opened.callback(self.lock.release)
        opened.callback(self.journal.close)

    def _recover(self) -> None:
        """Recover from earlier sessions, and decide everything."""
        self._left = recover(self.journal, self.files, self.folder, self.workflow, self.backend, act=not self._dry)
        if not self._dry:
            for warning in (*(self._remember() if self.resumed else ()), *self.archive_session.tell(patient=False)):
                _log.warning(warning)
        for warning in self.archive_session.ask(wanted_for(self.workflow, self.home)):
            _log.warning(warning)
        next_attempt = self.journal.next_attempt()
        self._setup = set_up(
            self.workflow, self.options, self.backend, self.archive, self.files, self._left, next_attempt
        )
        self.engine = self._setup.engine

    def _choose(self) -> RunFolder | None:
        """Return the folder of the newest unfinished run of this workflow, which is resumed; None if there is none."""
        chosen = None
        for folder in runs_of(self.home):
            facts = facts_of(folder)
            ours = self._is_ours(facts)
            if self._is_ours(begun_by_another_version(folder.journal)):
                _log.warning("the run %s was started by another version of Tonnage and cannot be resumed", folder.id)
            if ours and chosen is None and "finished" not in facts and not self.options.new:
                self._check_place(folder, facts)
                chosen = folder
            elif ours and "finished" not in facts and self.backend.still_out(folder):
                hint = f"cancel them with tonnage stop {folder.id}, or resume that run by leaving out --new"
                raise InputError(
                    f"batch jobs of the run {folder.id} are in the queue and write the same files", hint=hint
                )
            elif folder.process() is not None and ours:
                Lock(folder).release()  # raises an error that names its process, or waits until it is gone
            elif folder.process() is not None:
                _log.warning("the run %s is active here, too: neither run knows what the other one uses", folder.id)
        return chosen

    def _check_place(self, folder: RunFolder, facts: Mapping[str, str]) -> None:
        """Raise InputError if a run was started on another backend, where its tasks may still be running."""
        place = facts.get("on", self.backend.name)
        if place != self.backend.name:
            hint = f"resume it with --on {place}, or start a new one with tonnage stop {folder.id} and --new"
            raise InputError(f"the run {folder.id} was started on {place}, not on {self.backend.name}", hint=hint)

    def _is_ours(self, facts: Mapping[str, str]) -> bool:
        """Whether a run belongs to this workflow; one from a pipe has no name, and is recognised by its checksum."""
        if facts.get("workflow") != path_of(self.workflow).name:
            return False
        return not is_piped(self.workflow) or facts.get("checksum") == self.workflow.checksum

    def _token(self) -> str:
        token = self.journal.facts().get("token")
        machine = {str(resource): repr(amount) for resource, amount in self.machine.amounts().items()}
        if token is not None:
            self.journal.note(machine)
        else:
            token = secrets.token_hex(8)
            facts = {
                "token": token,
                "workflow": path_of(self.workflow).name,
                "name": self.workflow.name,
                "checksum": self.workflow.checksum,
                "begun": repr(time.time()),
                "strategy": self.options.strategy,
                "rank": self.options.rank,
                "on": self.backend.name,
                **machine,
            }
            self.journal.note(facts)
        return token


def _described(machine: Machine) -> str:
    cores = counted(int(machine.cores), "core")
    return f"this machine ({cores}, {format_bytes(machine.memory)} of memory)"


class _Logged:
    """Logs what happens to attempts, remembers why tasks failed, and passes all events on."""

    def __init__(self, watcher: Watcher, engine: Engine, failures: Failures) -> None:
        self._engine = engine
        self._failures = failures
        self._watcher = watcher
        self.seen, self.tick = watcher.seen, watcher.tick

    def started(self, start: Start, now: float) -> None:
        """Log an attempt that started."""
        if _log.isEnabledFor(logging.DEBUG):
            given = ", ".join(f"{one.resource} {one.resource.shown(one.amount)}" for one in start.decisions)
            name = self._engine.tasks[start.task].name
            _log.debug("%s: attempt %d started (number %d): %s", name, start.number, start.attempt, given)
        self._watcher.started(start, now)

    def ended(self, end: Ended, settled: Settled) -> None:
        """Log how an attempt ended, and describe a task that failed."""
        if settled.state is State.FAILED:
            for line in self._failures.describe(end, settled):
                _log.warning(line)
        elif end.outcome is not Outcome.DONE:
            _log.info("%s: %s", self._engine.tasks[settled.task].name, reason_for(end, settled))
        elif _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: done (attempt number %d)", self._engine.tasks[settled.task].name, end.attempt)
        self._watcher.ended(end, settled)
