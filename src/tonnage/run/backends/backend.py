"""The protocol of backends: machines on which tasks run, and a driver that carries out the engine's decisions there.

Drivers share `StopSignals`, the signals of the user during a run, and `AttemptRecorder`, which reports what happens to
attempts that run elsewhere.
"""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start
from tonnage.run.files import Files
from tonnage.run.folders import Lock, RunFolder
from tonnage.run.journal import Journal
from tonnage.run.machines import Machine, Space
from tonnage.run.minders import Seen
from tonnage.run.retry_rules import Rules
from tonnage.size.learner import exceeded
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
    """Receives the events of a run, for views and logs."""

    def started(self, start: Start, now: float) -> None:
        """An attempt started."""

    def seen(self, seen: Seen) -> None:
        """A running attempt was measured."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """An attempt ended or, if its number is 0, a task failed without one."""

    def tick(self, engine: Engine) -> None:
        """Some time has passed."""


class Driver(Protocol):
    """Runs tasks on a backend."""

    def go(self) -> int | None:
        """Run until nothing more can be done; return the signal that stopped it, if one did."""

    def go_last(self) -> int | None:
        """Run the final tasks, which were added after the others."""


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What an earlier engine submitted and may still be running."""

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
    """The position of each task in the preferred order."""
    strategy: str
    overridden: frozenset[str] | None
    """The categories whose tasks may get less than they request; None for all."""
    rules: Rules
    sandbox: bool
    seconds: Mapping[int, float] = field(default_factory=dict)
    """Run times of tasks in earlier runs."""
    run_fraction: float = 1.0
    """The fraction of their time limits for which jobs run, according to the archive."""
    stale: frozenset[str] = frozenset()
    """Tasks whose earlier attempts do not count."""
    shared_disk: bool = False
    """Whether the run's folder is on a network file system."""


class Backend(Protocol):
    """A place where tasks can run."""

    name: str
    machine: Machine
    """The largest machine, which limits what a task can be allocated."""
    coarse: int | None
    """The number of sizes between two powers of two to which amounts are rounded; see Plan."""

    def amounts(self) -> dict[Resource, float]:
        """Return the maximum of each resource for a task."""

    def space(self) -> Space:
        """Return the space in which attempts find room."""

    def check(self, workflow: Workflow) -> None:
        """Raise InputError if a workflow can never run here."""

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:
        """Return what an earlier engine submitted, without the tasks that are `stale`.

        Raises InputError if such a task may still be running.
        """

    def still_out(self, folder: RunFolder) -> int:
        """Return the number of batch jobs that a run has in the queue of this backend."""

    def driving(self, context: RunContext, watcher: Watcher) -> AbstractContextManager[Driver]:
        """Return a context manager for the driver of an engine on this backend."""

    def submissions(self, context: RunContext) -> list[str]:
        """Return what would be submitted first, as scripts or a command, without submitting it."""


def refuse_too_large(workflow: Workflow, machine: Machine, where: str, hint: str | None = None) -> None:
    """Raise InputError if a task requests more than any machine has."""
    for task in workflow.tasks:
        resource = exceeded(task.request, machine.amounts())
        if resource is not None:
            requested, most = getattr(task.request, resource), machine.amounts()[resource]
            raise InputError(
                f'task "{task.title}" requests {resource.format_amount(requested)} of {resource}, '
                f"but {where} has only {resource.format_amount(most)} for tasks",
                path=workflow.source.path if workflow.source else None,
                hint=hint,
            )


@dataclass(slots=True)
class StopSignals:
    """What the signals received so far ask for."""

    finish: bool = False
    """Whether to start nothing more, and let running tasks finish."""
    kill: bool = False
    """Whether to kill running tasks."""
    signal: int | None = None
    """The last signal."""
    told: bool = False
    """Whether a message has already said that running tasks may finish."""


@contextmanager
def heard(signals: StopSignals) -> Iterator[None]:
    """Record signals in this context: the first Ctrl-C lets tasks finish, a second or any other signal kills them."""

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
    """Reports what happens to attempts to the engine, the journal and the watcher."""

    engine: Engine
    journal: Journal
    watcher: Watcher
    _shown: set[int] = field(default_factory=set)

    def show(self, start: Start, since: float) -> bool:
        """Report a running attempt to the watcher; return whether it was not reported before."""
        if start.attempt in self._shown:
            return False
        self._shown.add(start.attempt)
        self.watcher.started(start, since)
        return True

    def settle(self, end: Ended) -> Settled:
        """Process the end of an attempt."""
        self.show(self.engine.start_of(end.attempt), end.started or time.time())
        self._shown.discard(end.attempt)
        settled = self.engine.ended(end)
        self.journal.ended(end, settled)
        self.watcher.ended(end, settled)
        return settled
