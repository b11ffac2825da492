"""A workflow, run on this machine: found or begun, sized, ranked, executed, remembered."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tonnage.archive import Archive, run_fraction
from tonnage.archive.engine import on_network
from tonnage.batch.scheduler import Scheduler
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Decision, Resource
from tonnage.rank import rank
from tonnage.run.engine import Engine, places_of
from tonnage.run.events import Carried, Ended, Rules, Settled, State
from tonnage.run.files import Files
from tonnage.run.folders import Lock, RunFolder, choosing, new_run, runs_of
from tonnage.run.foreseen import foreseen
from tonnage.run.journal import Journal
from tonnage.run.local import Watcher
from tonnage.run.machines import SHARED
from tonnage.run.past import known_of, peaks_of_tasks, remember, sized_by_density
from tonnage.run.resuming import finals, take_over
from tonnage.run.state import facts_of, state_of
from tonnage.run.summary import Summary, summarise
from tonnage.run.worlds import Driver, LocalWorld, Parts, World
from tonnage.size import Plan
from tonnage.size.learning import Learner, as_before
from tonnage.workflow import Workflow

__all__ = ["ClusterOptions", "Explained", "Options", "Prepared", "Result", "preview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """To which cluster tasks are sent, and how."""

    scheduler: Scheduler
    pack: str = "per-task"
    max_running: int | None = None
    max_submitted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a workflow is to be run."""

    strategy: str = "auto"
    rank: str = "prio"
    machine: Mapping[Resource, float] = field(default_factory=dict)
    """What the machine has, where the user says so."""
    rules: Rules = field(default_factory=Rules)
    sandbox: bool = False
    durable: bool = False
    new: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    archive: str | None = None
    cluster: ClusterOptions | None = None
    """To which cluster tasks are sent; None: they run on this machine."""


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


@dataclass(frozen=True, slots=True)
class Explained:
    """What some tasks of a category are tried with at first: all that are tried with the same."""

    category: str
    tasks: int
    decisions: tuple[Decision, ...]


class Prepared:
    """A run that is ready to go on: locked, what is left of an earlier engine cleared away, everything decided."""

    def __init__(self, workflow: Workflow, options: Options, say: Callable[[str], None]) -> None:
        """Find the run to resume, or begin a new one."""
        self.workflow = workflow
        self.options = options
        self._say = say
        _check_commands(workflow)
        self.home = _path(workflow).parent
        self.world = _world(self.home, options, say)
        self.machine = self.world.machine
        self.world.check(workflow)
        self.archive = Archive.open(options.archive, create=True)
        with choosing(self.home):
            self.folder, self.resumed = self._choose()
            self.lock = Lock(self.folder)
            self.folder.make()
            self._shared_disk = on_network(self.folder.path)
            if self._shared_disk:
                say("the run's folder is on a network file system: the journal uses no write-ahead log there")
            self.journal = Journal(self.folder.journal, durable=options.durable, shared_disk=self._shared_disk)
            self.token = self._token()
        self.files = Files(self.home, self.folder, sandbox=options.sandbox)
        self.failed: dict[int, str] = {}
        self.engine = self._engine()
        left = [number for number in range(len(workflow)) if self.engine.states[number] != State.DONE]
        for warning in foreseen(workflow, self.files, left):
            say(warning)

    def close(self) -> None:
        """Let go of everything."""
        self.journal.close()
        self.archive.close()
        self.lock.release()

    def explained(self) -> list[Explained]:
        """Return what tasks of each category are tried with, at this moment."""
        left = [place for place in range(len(self.workflow)) if self.engine.states[place] != State.DONE]
        return _explained(self._sizes, self.files, left)

    def go(self, watcher: Watcher) -> Result:
        """Run what is left; whatever happens, what was achieved is remembered."""
        watch = _Failures(watcher, self.failed)
        try:
            with self.world.driving(self._parts(), watch) as driver:
                signal = driver.go()
                if signal is None:
                    signal = self._go_last(driver)
        finally:
            warnings = self._remember()
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

    def _parts(self) -> Parts:
        return Parts(
            workflow=self._sizes.workflow,
            engine=self.engine,
            journal=self.journal,
            files=self.files,
            folder=self.folder,
            lock=self.lock,
            token=self.token,
            places=self._places,
            strategy=self.options.strategy,
            rules=self.options.rules,
            sandbox=self.options.sandbox,
            seconds=peaks_of_tasks(self.archive, self.workflow, Resource.WALL_TIME) if self.options.cluster else {},
            run_fraction=(run_fraction(self.archive) or 1.0) if self.options.cluster else 1.0,
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
            self.engine.add(task, self._sizes.known.get(place))
        return driver.go_last() if last else None

    def _remember(self) -> tuple[str, ...]:
        try:
            self.journal.commit()
            report = remember(self.archive, self.journal, self.folder, self.workflow, self.options.fields)
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

    def _choose(self) -> tuple[RunFolder, bool]:
        """Return the folder of the newest unfinished run of this workflow, or a new one."""
        chosen = None
        for folder in runs_of(self.home):
            facts = facts_of(folder)
            ours = self._is_ours(facts)
            if ours and chosen is None and "finished" not in facts and not self.options.new:
                self._check_place(folder, facts)
                chosen = folder
            elif folder.process() is not None and ours:
                Lock(folder).release()  # says who executes it, or waits until nothing is left of it
            elif folder.process() is not None:
                self._say(f"the run {folder.id} is under way here too: neither knows what the other uses")
        return (chosen, True) if chosen else (new_run(_path(self.workflow)), False)

    def _check_place(self, folder: RunFolder, facts: Mapping[str, str]) -> None:
        """Raise InputError where a run was begun elsewhere: what it has sent there may still run."""
        place = facts.get("on", self.world.name)
        if place != self.world.name:
            hint = f"go on with --on {place}, or begin another run with --new"
            raise InputError(f"the run {folder.id} was begun on {place}, not on {self.world.name}", hint=hint)

    def _is_ours(self, facts: Mapping[str, str]) -> bool:
        """Whether a run is one of this workflow; what is piped in has no name to be known by."""
        if facts.get("workflow") != _path(self.workflow).name:
            return False
        return not _is_piped(self.workflow) or facts.get("checksum") == self.workflow.checksum

    def _token(self) -> str:
        token = self.journal.facts().get("token")
        machine = {str(resource): repr(amount) for resource, amount in self.machine.amounts().items()}
        if token is not None:
            self.journal.note(machine)
        else:
            token = secrets.token_hex(8)
            facts = {
                "token": token,
                "workflow": _path(self.workflow).name,
                "name": self.workflow.name,
                "checksum": self.workflow.checksum,
                "begun": repr(time.time()),
                "strategy": self.options.strategy,
                "rank": self.options.rank,
                "on": self.world.name,
                **machine,
            }
            self.journal.note(facts)
        return token

    def _engine(self) -> Engine:
        away = self.world.away(self.journal, self.folder)
        left = take_over(self.journal, self.files, self.folder, self.workflow, away, self._say)
        for warning in self._remember() if self.resumed else ():
            self._say(warning)
        sizes = _sizes(self.workflow, self.options.strategy, self.world, self.archive)
        self._sizes = replace(sizes, known=_both(sizes.known, left.carried))
        workflow = sizes.workflow
        tasks = (*workflow.tasks, *finals(workflow))  # those are added when the others have ended
        self._places = places_of(workflow, rank(workflow, self.options.rank).tolist())
        return Engine(
            workflow.tasks,
            sizes.learner,
            self.world.space(),
            workflow=workflow,
            places=self._places,
            rules=self.options.rules,
            input_bytes=lambda number: self.files.input_bytes(tasks[number]),
            done=left.done,
            sent={workflow.index[name] for name in away.tasks if name in workflow.index} - left.done,
            carried={place: known for place, known in self._sizes.known.items() if place < len(workflow)},
            first_attempt=self.journal.next_attempt(),
        )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What decides how much tasks get."""

    workflow: Workflow
    """With requests where those decide."""
    learner: Learner
    known: Mapping[int, Carried]
    """Tasks about which more is known than their category."""


def preview(workflow: Workflow, options: Options, say: Callable[[str], None]) -> list[Explained]:
    """Return what tasks of each category would be tried with, without touching any run."""
    _check_commands(workflow)
    home = _path(workflow).parent
    world = _world(home, options, say)
    world.check(workflow)
    with Archive.open(options.archive, create=True) as archive:
        sizes = _sizes(workflow, options.strategy, world, archive)
    return _explained(sizes, Files(home, RunFolder(home)), range(len(workflow)))


def _sizes(workflow: Workflow, strategy: str, world: World, archive: Archive) -> _Sizes:
    own = peaks_of_tasks(archive, workflow) if strategy == "auto" else {}
    if strategy == "density":
        workflow, strategy = sized_by_density(archive, workflow), "declared"
    plan = Plan(strategy=strategy, machine=world.amounts(), resources=SHARED, parts=world.coarse)
    learner = Learner(plan, known_of(archive, workflow))
    known = {}
    for place, memory in own.items():
        task = workflow.tasks[place]
        known[place] = Carried(0, as_before(learner.decide(task.category, task.request), memory, parts=world.coarse))
    return _Sizes(workflow, learner, known)


def _world(home: Path, options: Options, say: Callable[[str], None]) -> World:
    if options.cluster is None:
        return LocalWorld(home, options.machine)
    from tonnage.run.cluster import ClusterWorld  # packers are heavy to import

    chosen = options.cluster
    world = ClusterWorld(
        chosen.scheduler,
        home,
        pack=chosen.pack,
        amounts=options.machine,
        max_running=chosen.max_running,
        max_submitted=chosen.max_submitted,
    )
    for note in world.notes:
        say(note)
    return world


def _both(known: Mapping[int, Carried], carried: Mapping[int, Carried]) -> dict[int, Carried]:
    """Return what is known about tasks: from this run, else from earlier ones."""
    both = dict(known)
    for place, one in carried.items():
        before = known.get(place)
        both[place] = one if one.decisions or before is None else replace(one, decisions=before.decisions)
    return both


def _explained(sizes: _Sizes, files: Files, places: Iterable[int]) -> list[Explained]:
    count: Counter[tuple[str, tuple[Decision, ...]]] = Counter()
    for place in places:
        task, known = sizes.workflow.tasks[place], sizes.known.get(place)
        decisions = known.decisions if known else None
        if decisions is None:
            decisions = sizes.learner.decide(task.category, task.request, files.input_bytes(task))
        count[task.category, decisions] += 1
    return [Explained(category, number, decisions) for (category, decisions), number in count.most_common()]


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


def _check_commands(workflow: Workflow) -> None:
    without = [task.name for task in workflow.tasks if not task.command]
    if without:
        path = workflow.source.path if workflow.source else None
        some = f'{len(without):,} of {len(workflow):,} tasks, such as "{without[0]}", say no command'
        raise InputError(some, path=path, hint="tonnage replay run simulates workflows without commands")


def _path(workflow: Workflow) -> Path:
    """Return where a workflow is; one that is piped in stands for a file in the current folder."""
    if workflow.source is None:
        raise InputError("a workflow that was made in Python must be written to a file before it can run")
    path = workflow.source.path.absolute()
    return Path.cwd() / "stdin" if _is_piped(workflow) else path


def _is_piped(workflow: Workflow) -> bool:
    """Whether a workflow comes from standard input, or from another program: ``<(make-workflow)``."""
    path = workflow.source.path.absolute() if workflow.source else Path()
    return path.is_relative_to("/dev") or path.is_relative_to("/proc")
