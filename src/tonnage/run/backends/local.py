"""The engine on this machine: tasks are processes, minded by a pool of warm minders."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tonnage.errors import TonnageError
from tonnage.jobs import Outcome
from tonnage.run.backends.protocols import AttemptStarter, EventWriter
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.minders import Answer, Order, Seen, end_orphans
from tonnage.run.orders import Orders
from tonnage.run.outcomes import judge
from tonnage.run.stop_signals import StopSignals, heard
from tonnage.watch.order import MACHINE_LOST

__all__ = ["Local", "Watcher"]

_TICK = 0.5  # seconds after which watchers hear from us, whatever happens
_MOST_LOST = 50  # attempts in a row: nobody kills that many, so that it would go on for ever


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


class Local:
    """Drives an engine until it has finished or is told to stop."""

    def __init__(
        self, engine: Engine, journal: EventWriter, files: Files, folder: RunFolder, token: str, minders: AttemptStarter
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
            end_orphans(self._token, answer.attempt)  # with both its minder and the keeper killed, nobody else does
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
