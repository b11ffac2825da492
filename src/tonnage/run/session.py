"""A session: finds or creates a run, sizes and ranks its tasks, executes them, and stores them in the archive.

A dry run is the same session on a copy of the journal, which stops before it acts.
"""

import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tonnage.archive.session import archive_session
from tonnage.errors import InputError, TonnageError
from tonnage.files import on_network
from tonnage.jobs import NOTHING_KNOWN, Resource
from tonnage.run.archiving import peaks_of_tasks, remember, wanted_for
from tonnage.run.backends.backend import Driver, RunContext, Watcher
from tonnage.run.bad_nodes import BadNode
from tonnage.run.events import State
from tonnage.run.failed_tasks import Failures
from tonnage.run.files import Files
from tonnage.run.finished_work import FinishedWork, UpToDate
from tonnage.run.folders import RUNS, Lock, RunFolder, choosing, new_run, runs_of
from tonnage.run.journal import Journal, Reader, begun_by_another_version
from tonnage.run.logging_watcher import LoggingWatcher
from tonnage.run.machines import Machine
from tonnage.run.options import Options
from tonnage.run.preflight import check_commands, check_gpus, check_requests, foreseen
from tonnage.run.recorder import Recorder
from tonnage.run.recovery import finals, following, recover
from tonnage.run.run_log import RunLog
from tonnage.run.setup import (
    Explained,
    Overridable,
    Setup,
    backend_for,
    explained,
    is_piped,
    overridable,
    path_of,
    set_up,
)
from tonnage.run.state import Summary, declared_and_given, facts_of, state_of, summary_of
from tonnage.units import format_bytes
from tonnage.wording import counted, part_of
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
    bad_nodes: list[BadNode]
    """Nodes that were avoided for a while, because tasks failed there and not elsewhere."""
    before: Summary | None = None
    """The summary of the last finished run of the same workflow."""
    overridable: Mapping[Resource, Overridable] = field(default_factory=dict)
    """What giving tasks less than they request would have saved."""
    declared: tuple[float, float] | None = None
    """The memory that tasks declared and what they had, in bytes times seconds; None if none declared any."""
    up_to_date: int = 0
    """Number of tasks that earlier runs had done, and that did not run."""


class RunSession:
    """A run that is ready to start or resume: locked, recovered from earlier sessions, everything decided."""

    def __init__(self, workflow: Workflow, options: Options, *, dry: bool = False) -> None:
        """Find the run to resume, or create a new one; with `dry` nothing is changed, and `go` must not be called.

        If everything is up to date there is no run, `nothing_to_do` says so, and `go` must not be called either.
        """
        self.workflow = workflow
        self.options = options
        self.nothing_to_do: UpToDate | None = None
        self._dry = dry
        with ExitStack() as opened:
            self._run_log = opened.enter_context(closing(RunLog()))
            self._prepare(opened)
            self._open = opened.pop_all()

    def _prepare(self, opened: ExitStack) -> None:
        check_commands(self.workflow)
        check_gpus(self.workflow, self.options.cluster)
        path = path_of(self.workflow)
        self.home, self._on_network = path.parent, on_network(path.parent)
        self.finished = FinishedWork(self.workflow, self.home, path.name, self.options, network=self._on_network)
        opened.callback(self.finished.store.close)
        self.workflow = self.finished.workflow
        self.backend = backend_for(self.home, self.options, dry=self._dry)
        self.machine = self.backend.machine
        self.backend.check(self.workflow)
        check_requests(self.workflow, self.backend.amounts(), self.options.overridden)
        self.archive_session = opened.enter_context(archive_session(self.options.archive))
        if self._dry:
            self._copy(opened)
        else:
            self._begin(opened)
        if self.nothing_to_do is not None:
            return
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
        if self.nothing_to_do is not None:
            return []
        return explained(self._setup.sizes, self.files, self._to_do())

    def submissions(self) -> list[str]:
        """Return what would be submitted to a cluster first: scripts, or a command."""
        if self.nothing_to_do is not None:
            return []
        return self.backend.submissions(self._parts())

    def reasons(self) -> dict[str, str]:
        """Return the tasks that will run, in the order of the workflow, and why."""
        if self.nothing_to_do is not None:
            return {}
        return {
            self.workflow.tasks[place].name: self._left.reasons.get(place, "not done yet") for place in self._to_do()
        }

    def touch(self) -> list[str]:
        """Take existing outputs as done, without running anything; return the tasks that remain to be done."""
        if self.nothing_to_do is not None:
            return []
        stale = self._left.reasons
        running = {self.workflow.index.get(name) for name in self._left.outstanding.tasks}
        taken = self.finished.take({place: why for place, why in stale.items() if place not in running})
        return [self.workflow.tasks[place].name for place in sorted(stale.keys() - taken)]

    def _to_do(self) -> list[int]:
        return [place for place in range(len(self.workflow)) if self.engine.states[place] != State.DONE]

    def go(self, watcher: Watcher) -> Result:
        """Run the remaining tasks; whatever happens, finished attempts are stored in the archive."""
        tasks = len(self.workflow) + len(finals(self.workflow))
        _log.info(self._first_line(tasks))
        failures = Failures(self.engine.tasks, self._behind)
        signal: int | None = None
        try:
            with (
                closing(self._recorder(LoggingWatcher(watcher, self.engine, failures))) as watch,
                self.backend.driving(self._parts(), watch) as driver,
            ):
                signal = driver.go()
                if signal is None:
                    signal = self._go_last(driver)
        finally:
            for warning in (*self._remember(), *self.archive_session.tell(patient=signal is None)):
                _log.warning(warning)
        done = self.engine.counts[State.DONE]
        if done == tasks and not (self.resumed and self.options.outputs):  # it may be to do more than these
            self.journal.note({"finished": repr(time.time()), "up_to_date": str(self._up_to_date)})
        names = {self.engine.tasks[number].name: reason for number, reason in failures.reasons.items()}
        return Result(
            run=self.folder,
            tasks=tasks,
            done=done,
            failed=names,
            failures=failures.summary(),
            unreachable=len(self.engine.unreachable()),
            stopped_by=signal,
            summary=summary_of(self.journal, self.machine),
            bad_nodes=self.engine.bad_nodes.found,
            before=self._before(),
            overridable=self._overridable(),
            declared=self._declared(),
            up_to_date=self._up_to_date,
        )

    def set_up_again(self) -> Setup:
        """Decide the next run of the whole workflow, with what is known now."""
        return set_up(self.workflow, self.options, self.backend, self.archive_session, self.files)

    def _overridable(self) -> Mapping[Resource, Overridable]:
        if all(task.request is NOTHING_KNOWN for task in self.workflow.tasks):
            return {}  # without reading all rows
        return overridable(self.journal.rows(), self.engine.learner)

    def _declared(self) -> tuple[float, float] | None:
        declared = {task.name: task.request.memory for task in self.workflow.tasks if task.request.memory is not None}
        return declared_and_given(self.journal.rows(), declared) if declared else None

    def _recorder(self, watcher: Watcher) -> Recorder:
        store, made, run = self.finished.store, self.finished.made, self.folder.id
        return Recorder(watcher, self.workflow, self.home, store, run, made=made, network=self._on_network)

    def _first_line(self, tasks: int) -> str:
        """Return what is run, where and how, and how much of it is done already."""
        path, source = path_of(self.workflow), self.workflow.source
        what = f"{path.name} ({source.format})" if source else path.name
        where = self.backend.name if self.options.cluster else _described(self.machine)
        begins = "resumes" if self.resumed else "starts"
        done = f"{part_of(self.engine.counts[State.DONE], tasks, 'task')} {'done' if self.resumed else 'up to date'}"
        return f"{what} on {where}, sized by {self.options.strategy}; the run {self.folder.id} {begins}: {done}"

    def _behind(self, task: int) -> int:
        """Count the tasks that depend on a task, directly or not; none depend on final tasks."""
        return len(following(self.workflow, [task])) - 1 if task < len(self.workflow) else 0

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
            overridden=self.options.overridden,
            rules=self.options.rules,
            sandbox=self.options.sandbox,
            **(self._from_past_batch_jobs() if self.options.cluster else {}),
            stale=self._left.stale,
            shared_disk=self._shared_disk,
        )

    def _from_past_batch_jobs(self) -> dict[str, Any]:
        """Return what packers want to know about the past."""
        from tonnage.archive import run_fraction

        archive = self.archive_session.archive
        seconds = peaks_of_tasks(archive, self.workflow, Resource.WALL_TIME) if self.options.history else {}
        return {"seconds": seconds, "run_fraction": run_fraction(archive) or 1.0}

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
        """Return the summary of the last run of this very workflow; runs that did only a part cannot be compared."""
        if self._up_to_date:
            return None
        for folder in runs_of(self.home):
            facts = facts_of(folder)
            whole = "finished" in facts and facts.get("up_to_date") == "0"
            if folder != self.folder and whole and facts.get("checksum") == self.workflow.checksum:
                return state_of(folder).summary
        return None

    # Which run

    def _begin(self, opened: ExitStack) -> None:
        """Choose the run to resume or create a new one, and open its journal."""
        with choosing(self.home):
            chosen = self._choose()
            self.nothing_to_do = None if chosen else self.finished.everything()
            if self.nothing_to_do is not None:
                return
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
        self.nothing_to_do = None if chosen else self.finished.everything()
        if self.nothing_to_do is not None:
            return
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
        self._left = recover(self.journal, self.files, self.folder, self.finished, self.backend, act=not self._dry)
        self._up_to_date = len(self._left.done) if not self.resumed else self.journal.skipped()
        if not self._dry:
            for warning in (*(self._remember() if self.resumed else ()), *self.archive_session.tell(patient=False)):
                _log.warning(warning)
        for warning in self.archive_session.ask(wanted_for(self.workflow, self.home)) if self.options.history else ():
            _log.warning(warning)
        next_attempt = self.journal.next_attempt()
        self._setup = set_up(
            self.workflow, self.options, self.backend, self.archive_session, self.files, self._left, next_attempt
        )
        self.engine = self._setup.engine
        self.engine.bad_nodes = self.journal.bad_nodes()

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
                self._check_part(folder)
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

    def _check_part(self, folder: RunFolder) -> None:
        """Raise InputError if batch jobs may carry tasks that the outputs on the command line do not need."""
        if self.options.outputs and self.backend.still_out(folder):
            hint = f"cancel them with tonnage stop {folder.id}, or resume that run without naming outputs"
            raise InputError(f"batch jobs of the run {folder.id} are in the queue", hint=hint)

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
                **({"new": "1"} if self.options.new else {}),
                **machine,
            }
            self.journal.note(facts)
        return token


def _described(machine: Machine) -> str:
    cores = counted(int(machine.cores), "core")
    return f"this machine ({cores}, {format_bytes(machine.memory)} of memory)"
