"""The backend for this machine: tasks are processes, watched by a pool of minders.

`Local` drives an engine with any starter of attempts and any writer of events. A pilot uses it on the nodes of a batch
job, with agents and a ledger.
"""

import logging
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
from tonnage.run.events import Action, Adjustment, Ended, Settled, Start
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal
from tonnage.run.machines import Room, Space
from tonnage.run.marked_processes import end_orphans
from tonnage.run.minders import Answer, Minders, Order, Seen
from tonnage.run.orders import Orders
from tonnage.run.outcomes import judge, stopped_for_room
from tonnage.run.run_log import GROWTH
from tonnage.run.this_machine import this_machine
from tonnage.watch.order import MACHINE_LOST
from tonnage.wording import counted
from tonnage.workflow import Workflow

__all__ = ["Local", "LocalBackend"]

_TICK = 0.5  # seconds between two calls of the watcher while nothing happens,
_MEMORY_TICK = 0.1  # and between two looks at the memory that is left, if attempts may grow
_log = logging.getLogger(__name__)
_growth_log = logging.getLogger(GROWTH)

_MOST_LOST = 50  # attempts in a row: something is broken, and retries would never end


class _AttemptStarter(Protocol):
    """Runs commands: minders on this machine, or agents on several."""

    def start(self, orders: Iterable[Order]) -> None:
        """Carry out orders; everything that `wait` has returned before is stored safely by now."""

    def stop(self, attempt: int) -> None:
        """Kill all processes of a running attempt; its answer follows."""

    def pause(self, attempt: int) -> None:
        """Stop all processes of a running attempt until `resume` is called; the time does not count."""

    def resume(self, attempt: int) -> None:
        """Let a paused attempt continue."""

    def available(self) -> Mapping[int, float]:
        """Return how much memory machines have left, where there is news about it."""

    def wait(self, seconds: float | None = None) -> list[Answer | Seen]:
        """Return everything that has arrived, as soon as there is something, or after the timeout."""


class _EventWriter(Protocol):
    """Records everything before it is acted on: a journal, or the ledger of a batch job."""

    def started(self, starts: Sequence[Start], now: float) -> None:
        """Record attempts that are about to start."""

    def adjusted(self, changes: Sequence[Adjustment], now: float) -> None:
        """Record changes to running attempts that are about to take effect."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """Record the end of an attempt, and what happens to its task."""

    def refused(self, settled: Settled) -> None:
        """Record a task that failed without an attempt."""

    def commit(self) -> None:
        """Make everything since the last commit permanent."""


class Local:
    """Drives an engine until it has finished or is stopped by a signal."""

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
        self._elastic = engine.rules.elastic
        self._orders = Orders(files, folder, token, engine.machines if self._elastic else ())
        self._minders = minders
        self._signals = StopSignals()
        self._since: dict[int, float] = {}
        self._stopping: dict[int, str] = {}
        """Attempts that are being stopped to make room, and why."""
        self._lost = 0

    def go(self, watcher: Watcher) -> int | None:
        """Run until nothing more can be done; return the signal that stopped it earlier, if one did."""
        with heard(self._signals):
            self.drive(watcher)
        return self._signals.signal

    def drive(self, watcher: Watcher, more: Callable[[], bool] = lambda: False) -> None:
        """Run while tasks are running or may still be added: `more` adds them, and returns whether more may come.

        It is called whenever something has happened. Signals are not handled here, so that any thread can call this.
        """
        waiting = more()
        self._adjust()
        self._start(watcher)
        tick = _MEMORY_TICK if self._elastic else _TICK
        while waiting or self._engine.running:
            news = self._minders.wait(tick if self._engine.running else None)
            waiting = more()
            self._obey()  # before anything starts that a signal was meant to prevent
            self._step(watcher, news)
        watcher.tick(self._engine)

    def _step(self, watcher: Watcher, news: "list[Answer | Seen]") -> None:
        """Process what has arrived, and start what there is room for now."""
        for one in news:
            if isinstance(one, Seen):
                watcher.seen(one)
                self._engine.saw(one.attempt, one.memory, one.seconds)
            else:
                self._settle(one, watcher)
        self._adjust()
        self._start(watcher)
        watcher.tick(self._engine)

    def _adjust(self) -> None:
        """Let running attempts grow, pause them or stop one, as the memory that is left allows."""
        if not self._elastic:
            return
        for machine, memory in self._minders.available().items():
            self._engine.available(machine, memory)
        now = time.time()
        changes = self._engine.adjust(now)
        if not changes:
            return
        self._journal.adjusted(changes, now)
        acts = [one for one in changes if one.action is not Action.GROW]
        if acts:
            self._journal.commit()  # growth is written together with what starts or ends next
        for one in changes:
            title = self._engine.tasks[self._engine.start_of(one.attempt).task].title
            _growth_log.debug("%s: %s: %s", title, one.action, one.reason)
        for one in acts:
            self._act(one)

    def _act(self, change: Adjustment) -> None:
        if change.action is Action.PAUSE:
            self._minders.pause(change.attempt)
        elif change.action is Action.RESUME:
            self._minders.resume(change.attempt)
        else:
            self._stopping[change.attempt] = change.reason
            self._minders.stop(change.attempt)

    def _settle(self, answer: Answer, watcher: Watcher) -> None:
        start = self._engine.start_of(answer.attempt)
        task = self._engine.tasks[start.task]
        since = self._since.pop(answer.attempt)
        if answer.stopped_because != MACHINE_LOST:  # which loses everything that ran there
            self._lost = self._lost + 1 if answer.lost else 0
        if answer.lost:
            end_orphans(
                self._token, answer.attempt
            )  # nothing else does if both its minder and the fork server were killed
        if answer.started is None:
            answer = replace(answer, started=since)  # older files were not written by it
        end = judge(answer, task, self._files)
        outcome, reason = self._engine.stopped_as(answer.attempt), self._stopping.pop(answer.attempt, "")
        if outcome is not None and self._signals.signal is None:
            end = stopped_for_room(end, outcome, reason)
        settled = self._engine.ended(end)
        self._journal.ended(end, settled)
        watcher.ended(end, settled)
        if self._lost > _MOST_LOST:
            self._journal.commit()
            problem = f"{self._lost} attempts in a row were lost: the processes that monitor them cannot run"
            raise TonnageError(problem, hint=f"check that {self._folder.logs} exists and that its disk is not full")

    def _start(self, watcher: Watcher) -> None:
        """Start everything that can start; if some attempts cannot be prepared, others may use their room."""
        while not self._start_some(watcher):
            pass

    def _start_some(self, watcher: Watcher) -> bool:
        """Record and start what there is room for; return whether all of it could be prepared."""
        now = time.time()
        starts = self._engine.admit(now)
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
            note = f"could not be started: {error}"
            end = Ended(attempt=start.attempt, outcome=Outcome.FAILED, hopeless=True, ended=time.time(), note=note)
            settled = self._engine.ended(end)
            self._journal.ended(end, settled)
            watcher.ended(end, settled)
            return None

    def _obey(self) -> None:
        """Act on signals: let running tasks finish, or kill them."""
        if not self._signals.finish:
            return
        self._engine.closed = True
        running = counted(len(self._engine.running), "running task")
        if self._engine.running and not self._signals.kill and not self._signals.told:
            self._signals.told = True
            _log.warning("stopping: %s may finish; press Ctrl-C again to end them now", running)
        if self._signals.kill:
            self._signals.kill = False
            if self._engine.running:
                _log.warning("stopping: ending %s now", running)
            for attempt in list(self._engine.running):
                self._minders.stop(attempt)


class LocalBackend:
    """This machine."""

    name = "local"
    coarse: int | None = None

    def __init__(self, home: Path, amounts: Mapping[Resource, float]) -> None:
        """Determine what this machine has; `amounts` are set by the user."""
        self.machine = this_machine(home).with_amounts(amounts)

    def amounts(self) -> dict[Resource, float]:
        """Return how much of each resource this machine has."""
        return self.machine.amounts()

    def space(self) -> Space:
        """Return the room on this machine."""
        return Room([self.machine])

    def check(self, workflow: Workflow) -> None:
        """Do nothing: a task that requests too much fails when its turn comes, and others run."""

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:  # noqa: ARG002 (as Backend)
        """Return nothing: processes that an engine started here end with it."""
        return NOTHING_OUTSTANDING

    def still_out(self, folder: RunFolder) -> int:  # noqa: ARG002
        """Return 0: there is no queue."""
        return 0

    def submissions(self, context: RunContext) -> list[str]:  # noqa: ARG002
        """Return nothing: there is no queue."""
        return []

    @contextmanager
    def driving(self, context: RunContext, watcher: Watcher) -> Iterator[Driver]:
        """Start the minders, and return a driver that uses them."""
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
        """Run until nothing more can be done."""
        return self.local.go(self.watcher)

    def go_last(self) -> int | None:
        """Run the final tasks."""
        return self.local.go(self.watcher)
