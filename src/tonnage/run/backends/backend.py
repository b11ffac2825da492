"""What a backend is: a place for runs, with its machines, and a driver that lets the engine work there.

Drivers share `StopSignals`, what the user wants while a run goes on, and `AttemptRecorder`, which passes on what
becomes of attempts that run elsewhere.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Rules, Settled, Start
from tonnage.run.files import Files
from tonnage.run.folders import Lock, RunFolder
from tonnage.run.journal import Journal
from tonnage.run.machines import Machine, Space
from tonnage.run.minders import Seen
from tonnage.size.learner import fits
from tonnage.workflow import Workflow

__all__ = [
    "NOTHING_OUTSTANDING",
    "AttemptRecorder",
    "Backend",
    "Driver",
    "Outstanding",
    "RunContext",
    "StopSignals",
    "Watcher",
    "heard",
    "refuse_too_large",
]


class Watcher(Protocol):
    """Is told what happens; made for views and logs."""

    def started(self, start: Start, now: float) -> None:
        """An attempt has started."""

    def seen(self, seen: Seen) -> None:
        """A running attempt was looked at."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """An attempt has ended, or with number 0 a task was given up without one."""

    def tick(self, engine: Engine) -> None:
        """Some time has passed."""


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
    """Tasks whose earlier attempts do not count."""
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
        """Return a driver for an engine here, while the context lasts."""

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


@dataclass(slots=True)
class StopSignals:
    """What the signals that came ask for."""

    finish: bool = False
    """Start nothing more, and let running tasks finish."""
    kill: bool = False
    """End running tasks."""
    signal: int | None = None
    """The last signal."""


@contextmanager
def heard(signals: StopSignals) -> Iterator[None]:
    """Note signals while this lasts: the first Ctrl-C lets tasks finish, the second or any other signal ends them."""

    def hear(number: int, _frame: FrameType | None) -> None:
        signals.kill = signals.finish or number != signal.SIGINT
        signals.finish = True
        signals.signal = number

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(kw_only=True)
class AttemptRecorder:
    """Tells the engine, the journal and the watcher what becomes of attempts."""

    engine: Engine
    journal: Journal
    watcher: Watcher
    _shown: set[int] = field(default_factory=set)

    def show(self, start: Start, since: float) -> bool:
        """Let the watcher know that an attempt runs; whether that is news."""
        if start.attempt in self._shown:
            return False
        self._shown.add(start.attempt)
        self.watcher.started(start, since)
        return True

    def settle(self, end: Ended) -> Settled:
        """Take in the end of an attempt."""
        self.show(self.engine.start_of(end.attempt), end.started or time.time())
        self._shown.discard(end.attempt)
        settled = self.engine.ended(end)
        self.journal.ended(end, settled)
        self.watcher.ended(end, settled)
        return settled
