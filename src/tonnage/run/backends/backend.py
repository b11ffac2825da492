"""Where a run takes place: what machines there are, and who drives the engine there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.run.backends.local_driver import Local, Watcher
from tonnage.run.engine import Engine
from tonnage.run.events import Rules
from tonnage.run.files import Files
from tonnage.run.folders import Lock, RunFolder
from tonnage.run.journal import Journal
from tonnage.run.machines import Machine, Room, Space, this_machine
from tonnage.run.minders import Minders
from tonnage.size.learner import fits
from tonnage.workflow import Workflow

__all__ = ["NOTHING_OUTSTANDING", "Backend", "Driver", "LocalBackend", "Outstanding", "RunContext", "refuse_too_large"]


class Driver(Protocol):
    """Lets tasks run until nothing more can be done."""

    def go(self) -> int | None:
        """Run; return the signal that stopped it, if one did."""

    def go_last(self) -> int | None:
        """Run what was added at the end."""


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What an earlier engine has sent away, and may still run."""

    attempts: frozenset[int] = frozenset()
    tasks: frozenset[str] = frozenset()


NOTHING_OUTSTANDING = Outstanding()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a driver works with."""

    workflow: Workflow
    engine: Engine
    journal: Journal
    files: Files
    folder: RunFolder
    lock: Lock
    token: str
    places: Sequence[int]
    """The place of each task in the order in which tasks should run."""
    strategy: str
    rules: Rules
    sandbox: bool
    seconds: Mapping[int, float] = field(default_factory=dict)
    """How long tasks took in earlier runs."""
    run_fraction: float = 1.0
    """For which part of their time limits jobs run, as far as the archive knows."""
    stale: frozenset[str] = frozenset()
    """Tasks of which what was started before does not count."""
    shared_disk: bool = False
    """Whether the run's folder is on a network file system."""
    say: Callable[[str], None]


class Backend(Protocol):
    """A place where tasks can run."""

    name: str
    machine: Machine
    """The largest: what a task can get at most."""
    coarse: int | None
    """To how many sizes between powers of two amounts are rounded, as a Plan has it."""

    def amounts(self) -> dict[Resource, float]:
        """Return how much of each resource a task can get at most."""

    def space(self) -> Space:
        """Return where attempts find room."""

    def check(self, workflow: Workflow) -> None:
        """Raise InputError where a workflow can never run here."""

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:
        """Return what an earlier engine has sent away; tasks that are `stale` do not count.

        Raises InputError where such a task may still run.
        """

    def still_out(self, folder: RunFolder) -> int:
        """Return how many batch jobs a run has in the queue of this backend."""

    def driving(self, context: RunContext, watcher: Watcher) -> AbstractContextManager[Driver]:
        """Return who drives an engine here, while the context lasts."""

    def submissions(self, context: RunContext) -> list[str]:
        """Return what would be submitted at first: scripts, or a command. Nothing is."""


def refuse_too_large(workflow: Workflow, machine: Machine, where: str, hint: str | None = None) -> None:
    """Raise InputError where a task asks for more than any machine has."""
    for task in workflow.tasks:
        resource = fits(task.request, machine.amounts())
        if resource is not None:
            asked, most = getattr(task.request, resource), machine.amounts()[resource]
            raise InputError(
                f'task "{task.name}" asks for {resource.shown(asked)} of {resource}, '
                f"and {where} has {resource.shown(most)} for tasks",
                path=workflow.source.path if workflow.source else None,
                hint=hint,
            )


class LocalBackend:
    """This machine."""

    name = "local"
    coarse: int | None = None

    def __init__(self, home: Path, amounts: Mapping[Resource, float]) -> None:
        """Look at this machine; `amounts` are what the user says that it has."""
        self.machine = this_machine(home).with_amounts(amounts)

    def amounts(self) -> dict[Resource, float]:
        """Return how much of each resource this machine has."""
        return self.machine.amounts()

    def space(self) -> Space:
        """Return the room on this machine."""
        return Room([self.machine])

    def check(self, workflow: Workflow) -> None:
        """Do nothing: a task that asks for too much is told when its turn comes, and others run."""

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:  # noqa: ARG002 (as World)
        """Return that nothing is: what an engine has started here ends with it."""
        return NOTHING_OUTSTANDING

    def still_out(self, folder: RunFolder) -> int:  # noqa: ARG002
        """Return that nothing is."""
        return 0

    def submissions(self, context: RunContext) -> list[str]:  # noqa: ARG002
        """Return nothing: there is no queue."""
        return []

    @contextmanager
    def driving(self, context: RunContext, watcher: Watcher) -> Iterator[Driver]:
        """Mind tasks on this machine."""
        minders = Minders(context.folder.path, [context.lock.descriptor])
        try:
            local = Local(context.engine, context.journal, context.files, context.folder, context.token, minders)
            yield _Here(local, watcher)
        finally:
            minders.close()


@dataclass(frozen=True, slots=True)
class _Here:
    local: Local
    watcher: Watcher

    def go(self) -> int | None:
        """Run."""
        return self.local.go(self.watcher)

    def go_last(self) -> int | None:
        """Run what was added at the end."""
        return self.local.go(self.watcher)
