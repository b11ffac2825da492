"""The engine on this machine: tasks are processes, minded by a pool of warm minders."""

import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from posixpath import join
from types import FrameType
from typing import Protocol

from tonnage.errors import TonnageError
from tonnage.jobs import Decision, Outcome, Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal
from tonnage.run.judging import judged
from tonnage.run.machines import SHARED
from tonnage.run.minders import Answer, Minders, Order, Seen
from tonnage.run.orphans import MARK, end_orphans
from tonnage.workflow import Task
from tonnage.workflow.shell import plain_words

__all__ = ["Local", "Watcher"]

_TICK = 0.5  # seconds after which watchers hear from us, whatever happens
_MOST_LOST = 50  # attempts in a row: nobody kills that many, so that it would go on for ever
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
_REMEMBERED = 1000
_LIMITED = (Resource.MEMORY, Resource.DISK, Resource.WALL_TIME)


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


@dataclass(slots=True)
class _Wishes:
    """What the user wants of us while we run: signals that came."""

    finish: bool = False
    kill: bool = False
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class _Given:
    """What decisions mean for a command: which limits are kept, and what it finds in its environment."""

    decisions: tuple[Decision, ...]
    """Kept, so that nothing else gets their id."""
    limits: Mapping[str, float]
    limits_with_disk: Mapping[str, float]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, decisions: tuple[Decision, ...]) -> "_Given":
        """Return what some decisions mean."""
        given = {one.resource: one.amount for one in decisions}
        limits = {str(resource): given[resource] for resource in _LIMITED if resource in given}
        without_disk = {name: limit for name, limit in limits.items() if name != Resource.DISK}
        environment = {
            f"TONNAGE_{resource.upper()}": f"{given[resource]:.0f}" for resource in SHARED if resource in given
        }
        return cls(decisions, without_disk, limits, environment)


class Local:
    """Drives an engine until it has finished or is told to stop."""

    def __init__(
        self, engine: Engine, journal: Journal, files: Files, folder: RunFolder, token: str, minders: Minders
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._files = files
        self._logs = str(folder.logs)
        self._token = token
        self._minders = minders
        self._wishes = _Wishes()
        self._since: dict[int, float] = {}
        self._known: dict[int, _Given] = {}
        self._lost = 0

    def go(self, watcher: Watcher) -> int | None:
        """Run until nothing more can be done; return the signal that stopped it before that, if one did."""
        with _signals(self._wishes):
            self.drive(watcher)
        return self._wishes.signal

    def drive(self, watcher: Watcher, more: Callable[[], bool] = lambda: False) -> None:
        """Go on while something runs or may still be added: `more` adds it, and tells whether there may be more.

        It is asked whenever something has happened. Signals are left alone, so that any thread may do this.
        """
        waiting = more()
        self._start(watcher)
        while waiting or self._engine.running:
            news = self._minders.wait(_TICK if self._engine.running else None)
            waiting = more()
            self._step(watcher, news)
            self._obey()
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
        self._lost = self._lost + 1 if answer.lost else 0
        if answer.lost:
            end_orphans(self._token, answer.attempt)  # with both its minder and the keeper killed, nobody else does
        if answer.started is None:
            answer = replace(answer, started=since)  # what is older is not its work
        end = judged(answer, task, self._files)
        settled = self._engine.ended(end)
        self._journal.ended(end, settled)
        watcher.ended(end, settled)
        if self._lost > _MOST_LOST:
            self._journal.commit()
            problem = f"{self._lost} attempts in a row were lost: the processes that watch over them cannot work"
            raise TonnageError(problem, hint=f"is {self._logs} there, with space on its disk?")

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
            folder = self._files.prepare(task, start.attempt)
            return self._order_in(folder, start, task)
        except (OSError, TonnageError) as error:
            note = f"it cannot be prepared: {error}"
            end = Ended(attempt=start.attempt, outcome=Outcome.FAILED, hopeless=True, ended=time.time(), note=note)
            settled = self._engine.ended(end)
            self._journal.ended(end, settled)
            watcher.ended(end, settled)
            return None

    def _order_in(self, folder: str, start: Start, task: Task) -> Order:
        words, program = _program(task.command or "", folder)
        measured = self._files.measured(start.attempt)
        given = self._given(start.decisions)
        log = f"{self._logs}/{start.attempt}-{_safe(task.name)}"
        return Order(
            attempt=start.attempt,
            words=words,
            executable=program,
            folder=folder,
            environment={MARK: f"{self._token}:{start.attempt}", **given.environment},
            limits=given.limits if measured is None else given.limits_with_disk,
            measured=measured,
            stdout=f"{log}.out",
            stderr=f"{log}.err",
        )

    def _given(self, decisions: tuple[Decision, ...]) -> "_Given":
        """Return what decisions mean for a command; many tasks in a row are given the same."""
        known = self._known.get(id(decisions))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[id(decisions)] = _Given.of(decisions)
        return known

    def _obey(self) -> None:
        """Do what the signals say that came: let running tasks finish, or end them."""
        if self._wishes.finish:
            self._engine.closed = True
        if self._wishes.kill:
            self._wishes.kill = False
            for attempt in list(self._engine.running):
                self._minders.stop(attempt)


@contextmanager
def _signals(wishes: _Wishes) -> Iterator[None]:
    """Turn signals into wishes: the first Ctrl-C lets running tasks finish, the second ends them, as others do."""

    def hear(number: int, _frame: FrameType | None) -> None:
        wishes.kill = wishes.finish or number != signal.SIGINT
        wishes.finish = True
        wishes.signal = number

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@cache
def _found_program(name: str) -> str:
    return shutil.which(name) or name


def _program(command: str, folder: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a command and the program that it starts; what needs a shell gets one."""
    words = plain_words(command)
    if words is None:
        return ("sh", "-c", command), "/bin/sh"
    if words[0].startswith("/"):
        return tuple(words), words[0]
    if "/" in words[0]:
        return tuple(words), join(folder, words[0])
    return tuple(words), _found_program(words[0])


def _safe(name: str) -> str:
    """Return a task's name as a file can have it."""
    return _UNSAFE.sub("_", name[:80])
