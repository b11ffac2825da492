"""Runs on this machine: tasks are processes, minded by a pool of warm minders.

`Local` drives an engine with anything that starts attempts and anything that writes events. A pilot uses it on the
nodes of a batch job, with agents and a ledger.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tonnage.errors import TonnageError
from tonnage.jobs import Outcome, Resource
from tonnage.run.backends.backend import (
    NOTHING_OUTSTANDING,
    Driver,
    Outstanding,
    RunContext,
    StopSignals,
    Watcher,
    heard,
)
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal
from tonnage.run.machines import Room, Space, this_machine
from tonnage.run.minders import Answer, Minders, Order, Seen, end_orphans
from tonnage.run.orders import Orders
from tonnage.run.outcomes import judge
from tonnage.watch.order import MACHINE_LOST
from tonnage.workflow import Workflow

__all__ = ["Local", "LocalBackend"]

_TICK = 0.5  # seconds after which watchers hear from us, whatever happens
_MOST_LOST = 50  # attempts in a row: something is broken, and retries would go on for ever


class _AttemptStarter(Protocol):
    """Run commands: minders on this machine, or agents on several."""

    def start(self, orders: Iterable[Order]) -> None:
        """Carry out orders; what `wait` has returned before is safe by now."""

    def stop(self, attempt: int) -> None:
        """Kill all processes of an attempt that runs; its answer follows."""

    def wait(self, seconds: float | None = None) -> list[Answer | Seen]:
        """Return all that has arrived, as soon as there is something, or after some time."""


class _EventWriter(Protocol):
    """Where everything is written before it is acted on: a journal, or the ledger of a batch job."""

    def started(self, starts: Sequence[Start], now: float) -> None:
        """Note attempts that are about to start."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """Note the end of an attempt, and what becomes of its task."""

    def refused(self, settled: Settled) -> None:
        """Note a task that was given up without an attempt."""

    def commit(self) -> None:
        """Make certain what was noted since the last time."""


class Local:
    """Drives an engine until it has finished or is told to stop."""

    def __init__(
        self,
        engine: Engine,
        journal: _EventWriter,
        files: Files,
        folder: RunFolder,
        token: str,
        minders: _AttemptStarter,
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._files = files
        self._folder = folder
        self._token = token
        self._orders = Orders(files, folder, token)
        self._minders = minders
        self._signals = StopSignals()
        self._since: dict[int, float] = {}
        self._lost = 0

    def go(self, watcher: Watcher) -> int | None:
        """Run until nothing more can be done; return the signal that stopped it before that, if one did."""
        with heard(self._signals):
            self.drive(watcher)
        return self._signals.signal

    def drive(self, watcher: Watcher, more: Callable[[], bool] = lambda: False) -> None:
        """Go on while something runs or may still be added: `more` adds it, and tells whether there may be more.

        It is asked whenever something has happened. Signals are left alone, so that any thread may do this.
        """
        waiting = more()
        self._start(watcher)
        while waiting or self._engine.running:
            news = self._minders.wait(_TICK if self._engine.running else None)
            waiting = more()
            self._obey()  # before anything starts that a signal has come for
            self._step(watcher, news)
        watcher.tick(self._engine)

    def _step(self, watcher: Watcher, news: "list[Answer | Seen]") -> None:
        """Take in what has arrived, and start what there is room for now."""
        for one in news:
            if isinstance(one, Seen):
                watcher.seen(one)
            else:
                self._settle(one, watcher)
        self._start(watcher)
        watcher.tick(self._engine)

    def _settle(self, answer: Answer, watcher: Watcher) -> None:
        start = self._engine.start_of(answer.attempt)
        task = self._engine.tasks[start.task]
        since = self._since.pop(answer.attempt)
        if answer.stopped_because != MACHINE_LOST:  # with which all that ran there is lost
            self._lost = self._lost + 1 if answer.lost else 0
        if answer.lost:
            end_orphans(
                self._token, answer.attempt
            )  # with both its minder and the keeper killed, no other process does
        if answer.started is None:
            answer = replace(answer, started=since)  # what is older is not its work
        end = judge(answer, task, self._files)
        settled = self._engine.ended(end)
        self._journal.ended(end, settled)
        watcher.ended(end, settled)
        if self._lost > _MOST_LOST:
            self._journal.commit()
            problem = f"{self._lost} attempts in a row were lost: the processes that watch over them cannot work"
            raise TonnageError(problem, hint=f"is {self._folder.logs} there, with space on its disk?")

    def _start(self, watcher: Watcher) -> None:
        """Let everything start that can; where some cannot be prepared, others may."""
        while not self._start_some(watcher):
            pass

    def _start_some(self, watcher: Watcher) -> bool:
        """Start what there is room for, written down before it happens; whether all of it could be prepared."""
        starts = self._engine.admit()
        now = time.time()
        if starts:
            self._journal.started(starts, now)
        for settled in self._engine.refused():
            self._journal.refused(settled)
            watcher.ended(Ended(attempt=0, outcome=Outcome.FAILED, hopeless=True), settled)
        self._journal.commit()
        orders = []
        for start in starts:
            order = self._order(start, watcher)
            if order is not None:
                orders.append(order)
                self._since[start.attempt] = now
                watcher.started(start, now)
        self._minders.start(orders)
        return len(orders) == len(starts)

    def _order(self, start: Start, watcher: Watcher) -> Order | None:
        task = self._engine.tasks[start.task]
        try:
            return self._orders.order(start, task)
        except (OSError, TonnageError) as error:
            note = f"it cannot be prepared: {error}"
            end = Ended(attempt=start.attempt, outcome=Outcome.FAILED, hopeless=True, ended=time.time(), note=note)
            settled = self._engine.ended(end)
            self._journal.ended(end, settled)
            watcher.ended(end, settled)
            return None

    def _obey(self) -> None:
        """Do what the signals say that came: let running tasks finish, or end them."""
        if self._signals.finish:
            self._engine.closed = True
        if self._signals.kill:
            self._signals.kill = False
            for attempt in list(self._engine.running):
                self._minders.stop(attempt)


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

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:  # noqa: ARG002 (as Backend)
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
