"""A workflow, run: found or begun, sized, ranked, executed, remembered.

A dry run is the same session, which works on a copy of the journal and stops before it acts.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tonnage.archive import run_fraction
from tonnage.archive.engine import on_network
from tonnage.archive.remote import archive_session
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Resource
from tonnage.run.archiving import peaks_of_tasks, remember, wanted_for
from tonnage.run.backends.backend import Driver, RunContext, Watcher
from tonnage.run.events import Ended, Settled, State
from tonnage.run.files import Files
from tonnage.run.folders import RUNS, Lock, RunFolder, choosing, new_run, runs_of
from tonnage.run.journal import Journal, Reader, begun_by_another_version
from tonnage.run.options import Options
from tonnage.run.preflight import check_commands, check_gpus, foreseen
from tonnage.run.recovery import finals, recover
from tonnage.run.setup import Explained, backend_for, explained, is_piped, path_of, set_up
from tonnage.run.state import Summary, facts_of, state_of, summarise
from tonnage.workflow import Workflow

__all__ = ["Result", "RunSession"]

_NEW = "RUN"
"""Stands for the name of a run that a dry run does not begin."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a run."""

    run: RunFolder
    tasks: int
    done: int
    failed: dict[str, str]
    """The tasks that were given up, and why."""
    unreachable: int
    """Tasks that could not run because one that they depend on has failed."""
    stopped_by: int | None
    """The signal that ended it before everything was done."""
    summary: Summary
    warnings: tuple[str, ...]
    before: Summary | None = None
    """What the last run of the same workflow that was finished added up to."""


class RunSession:
    """A run that is ready to go on: locked, what is left of an earlier engine cleared away, everything decided."""

    def __init__(self, workflow: Workflow, options: Options, say: Callable[[str], None], *, dry: bool = False) -> None:
        """Find the run to resume, or begin a new one; with `dry` nothing is changed, and `go` is not called."""
        self.workflow = workflow
        self.options = options
        self._say = say
        self._dry = dry
        check_commands(workflow)
        check_gpus(workflow, options.cluster)
        self.home = path_of(workflow).parent
        self.backend = backend_for(self.home, options, say, dry=dry)
        self.machine = self.backend.machine
        self.backend.check(workflow)
        self._open = ExitStack()
        self.archive_session = archive_session(options.archive)
        self.archive = self.archive_session.archive
        self._open.callback(self.archive.close)
        if dry:
            self._copy()
        else:
            self._begin()
        self.token = self._token()
        self.files = Files(self.home, self.folder, sandbox=options.sandbox)
        self.failed: dict[int, str] = {}
        self._recover()
        for warning in foreseen(workflow, self.files, self._to_do()):
            say(warning)

    def close(self) -> None:
        """Let go of everything."""
        self._open.close()

    def explained(self) -> list[Explained]:
        """Return what tasks of each category are tried with, at this moment."""
        return explained(self._setup.sizes, self.files, self._to_do())

    def submissions(self) -> list[str]:
        """Return what would be submitted to a cluster at first: scripts, or a command."""
        return self.backend.submissions(self._parts())

    def _to_do(self) -> list[int]:
        return [place for place in range(len(self.workflow)) if self.engine.states[place] != State.DONE]

    def go(self, watcher: Watcher) -> Result:
        """Run what is left; whatever happens, what was achieved is remembered."""
        watch = _Failures(watcher, self.failed)
        signal: int | None = None
        try:
            with self.backend.driving(self._parts(), watch) as driver:
                signal = driver.go()
                if signal is None:
                    signal = self._go_last(driver)
        finally:
            warnings = (*self._remember(), *self.archive_session.tell(patient=signal is None))
        done = self.engine.counts[State.DONE]
        tasks = len(self.workflow) + len(finals(self.workflow))
        if done == tasks:
            self.journal.note({"finished": repr(time.time())})
        names = {self.engine.tasks[number].name: reason for number, reason in self.failed.items()}
        return Result(
            run=self.folder,
            tasks=tasks,
            done=done,
            failed=names,
            unreachable=len(self.engine.unreachable()),
            stopped_by=signal,
            summary=summarise(self.journal.rows(), self.machine),
            warnings=warnings,
            before=self._before(),
        )

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
            say=self._say,
        )

    def _go_last(self, driver: Driver) -> int | None:
        """Run what is to run at the end, whatever happened; nothing else starts any more."""
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
            return (f"the archive did not take this run in: {error}",)
        return tuple(f"the archive skipped attempts: {reason} ({count})" for reason, count in report.reasons.items())

    def _before(self) -> Summary | None:
        """Return what the last finished run of this very workflow added up to."""
        for folder in runs_of(self.home):
            facts = facts_of(folder)
            if folder != self.folder and "finished" in facts and facts.get("checksum") == self.workflow.checksum:
                return state_of(folder).summary
        return None

    # Which run

    def _begin(self) -> None:
        """Take the run to resume, or a new one, and open its journal."""
        with choosing(self.home):
            chosen = self._choose()
            self.folder, self.resumed = chosen or new_run(path_of(self.workflow)), chosen is not None
            self.lock = Lock(self.folder)
            self.folder.make()
            self._shared_disk = on_network(self.folder.path)
            if self._shared_disk:
                self._say("the run's folder is on a network file system: the journal uses no write-ahead log there")
            self.journal = Journal(self.folder.journal, durable=self.options.durable, shared_disk=self._shared_disk)
        self._open.callback(self.lock.release)
        self._open.callback(self.journal.close)

    def _copy(self) -> None:
        """Do as if the run went on, or a new one began: with a copy of its journal, in a folder that does not stay."""
        chosen = self._choose()
        self.folder, self.resumed = chosen or RunFolder(self.home / RUNS / _NEW), chosen is not None
        scratch = RunFolder(Path(self._open.enter_context(TemporaryDirectory(prefix="tonnage-"))))
        if chosen is not None:
            chosen.check_free()
            with closing(Reader(chosen.journal)) as reader:
                reader.copy_to(scratch.journal)
        self.lock, self._shared_disk = Lock(scratch), False
        self.journal = Journal(scratch.journal)
        self._open.callback(self.lock.release)
        self._open.callback(self.journal.close)

    def _recover(self) -> None:
        """Settle what an earlier engine has left, and decide everything."""
        self._left = recover(
            self.journal, self.files, self.folder, self.workflow, self.backend, self._say, act=not self._dry
        )
        if not self._dry:
            for warning in (*(self._remember() if self.resumed else ()), *self.archive_session.tell(patient=False)):
                self._say(warning)
        for warning in self.archive_session.ask(wanted_for(self.workflow, self.home)):
            self._say(warning)
        next_attempt = self.journal.next_attempt()
        self._setup = set_up(
            self.workflow, self.options, self.backend, self.archive, self.files, self._left, next_attempt
        )
        self.engine = self._setup.engine

    def _choose(self) -> RunFolder | None:
        """Return the folder of the newest unfinished run of this workflow, which goes on; None where there is none."""
        chosen = None
        for folder in runs_of(self.home):
            facts = facts_of(folder)
            ours = self._is_ours(facts)
            if self._is_ours(begun_by_another_version(folder.journal)):
                self._say(f"the run {folder.id} was begun by another version of Tonnage: this one cannot go on with it")
            if ours and chosen is None and "finished" not in facts and not self.options.new:
                self._check_place(folder, facts)
                chosen = folder
            elif ours and "finished" not in facts and self.backend.still_out(folder):
                hint = f"tonnage stop {folder.id} cancels them; without --new that run goes on"
                raise InputError(
                    f"the run {folder.id} has batch jobs in the queue that write the same files", hint=hint
                )
            elif folder.process() is not None and ours:
                Lock(folder).release()  # says who executes it, or waits until nothing is left of it
            elif folder.process() is not None:
                self._say(f"the run {folder.id} is under way here too: neither knows what the other uses")
        return chosen

    def _check_place(self, folder: RunFolder, facts: Mapping[str, str]) -> None:
        """Raise InputError where a run was begun elsewhere: what it has sent there may still run."""
        place = facts.get("on", self.backend.name)
        if place != self.backend.name:
            hint = f"go on with --on {place}; or tonnage stop {folder.id}, and then --new"
            raise InputError(f"the run {folder.id} was begun on {place}, not on {self.backend.name}", hint=hint)

    def _is_ours(self, facts: Mapping[str, str]) -> bool:
        """Whether a run is one of this workflow; what is piped in has no name to be known by."""
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


class _Failures:
    """Notes why tasks were given up, and passes everything on."""

    def __init__(self, watcher: Watcher, failed: dict[int, str]) -> None:
        self._failed = failed
        self._watcher = watcher
        self.started, self.seen, self.tick = watcher.started, watcher.seen, watcher.tick

    def ended(self, end: Ended, settled: Settled) -> None:
        """Note a task that was given up."""
        if settled.state is State.FAILED:
            self._failed[settled.task] = end.note or settled.reason
        self._watcher.ended(end, settled)
