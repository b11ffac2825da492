"""A run to which tasks are added while it is active: the usual engine, journal and minders, driven by a thread."""

import atexit
import logging
import os
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tonnage.archive.history import Wanted
from tonnage.archive.session import archive_session
from tonnage.errors import InputError, TonnageError
from tonnage.files import on_network
from tonnage.jobs import SHARED, Resource
from tonnage.run.archiving import remember
from tonnage.run.backends.local import Local
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.executor.futures import TaskFuture
from tonnage.run.files import Files
from tonnage.run.folders import Lock, new_run
from tonnage.run.journal import Journal
from tonnage.run.machines import Room
from tonnage.run.minders import Minders, Seen
from tonnage.run.retry_rules import Rules
from tonnage.run.this_machine import this_machine
from tonnage.size import STRATEGIES, Plan
from tonnage.size.learner import Learner
from tonnage.workflow import Task, Workflow

__all__ = ["UNNAMED", "DynamicRun"]

UNNAMED = "executor"
"""The name of a run if the program chose none."""
_log = logging.getLogger(__name__)
_UNKNOWN = -1


class DynamicRun:
    """Runs tasks that any thread adds, until it is closed.

    Requests of other threads wait in a queue for the one thread that uses the engine; a bell wakes it.
    """

    def __init__(
        self, name: str, home: Path, machine: Mapping[Resource, float], strategy: str, rules: Rules, archive: str | None
    ) -> None:
        """Create the folder of a run, and start its thread."""
        _check(name, strategy)
        self.name = name
        self.home = home
        self.machine = this_machine(home).with_amounts(machine)
        with ExitStack() as opened:  # closed if something fails here, otherwise at the end of the run
            self._archive_session = opened.enter_context(archive_session(archive))
            self.folder = new_run(home / f"{name}.run")
            lock = Lock(self.folder)
            opened.callback(lock.release)
            self._journal = Journal(self.folder.journal, shared_disk=on_network(self.folder.path))
            opened.callback(self._journal.close)
            self._minders = opened.enter_context(Minders(self.folder.path, [lock.descriptor]))
            self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            opened.callback(os.close, self._bell)
            self.calls = self.folder.path / "calls"
            self.calls.mkdir(mode=0o700)  # its files are unpickled
            opened.callback(shutil.rmtree, self.calls, ignore_errors=True)
            self._opened = opened.pop_all()
        self._minders.watch_also(self._bell)
        plan = Plan(
            strategy=strategy,
            machine=self.machine.amounts(),
            resources=SHARED,
            overridden=frozenset(),
            can_grow=rules.elastic,
        )
        self._files = Files(home, self.folder)
        self._learner = Learner(plan)
        self._engine = Engine([], self._learner, Room([self.machine]), rules=rules, input_bytes=self._input_bytes)
        self._categories: set[str] = set()
        self._futures: dict[int, TaskFuture[Any]] = {}  # by the numbers of their tasks, until they are settled
        self._numbers: dict[TaskFuture[Any], int] = {}  # the other way round; _UNKNOWN until the engine has the task
        self._starts: dict[int, Start] = {}  # by running attempts
        self._requests: deque[Callable[[], None]] = deque()
        self._door = threading.RLock()  # a garbage collection may call `close` at any point
        self._process = os.getpid()
        self._closed = self._ended = False
        self._broken: BaseException | None = None
        self._token = secrets.token_hex(8)
        self._journal.note(self._facts(strategy))
        # A daemon, because Python waits for other threads before it calls atexit functions.
        self._over = threading.Event()
        _under_way.add(self)
        threading.Thread(target=self._go, name=f"tonnage {self.folder.id}", daemon=True).start()

    @property
    def belongs_to_this_process(self) -> bool:
        """Whether this process started the run, and is not a fork of the one that did."""
        return self._process == os.getpid()

    # Can be called by any thread

    def add(self, task: Task, future: TaskFuture[Any], prepare: Callable[[], object] = lambda: None) -> None:
        """Add a task, which runs as soon as there is room; `prepare` is called once the task is accepted."""
        with self._door:
            if self._broken is not None:
                raise BrokenExecutor("the run stopped because of an error, and accepts no more tasks") from self._broken
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if not self.belongs_to_this_process:
                raise RuntimeError("tasks cannot be submitted from a forked process, which has no threads")
            prepare()
            self._numbers[future] = _UNKNOWN
            self._request(partial(self._add, task, future))

    def cancelled(self, future: TaskFuture[Any]) -> None:
        """Drop a task that was cancelled."""
        with self._door:
            self._request(partial(self._drop, future))

    def close(self, *, cancel_waiting: bool = False, cancel_all: bool = False) -> None:
        """Accept no more tasks, and end when all are finished; optionally cancel waiting or all tasks."""
        with self._door:
            self._closed = True
            self._request(partial(self._cancel, waiting=cancel_waiting, running=cancel_all))

    def join(self) -> None:
        """Wait for the end of the run; Ctrl-C kills running tasks."""
        try:
            self._over.wait()
        except BaseException:
            self.close(cancel_all=True)
            self._over.wait()
            raise

    def _request(self, request: Callable[[], None]) -> None:
        if not self._ended:
            self._requests.append(request)
            os.eventfd_write(self._bell, 1)

    # Called only by the run's own thread

    def _go(self) -> None:
        try:
            self._warn(self._archive_session.tell(patient=False))
            self._warn(self._archive_session.ask(self._wanted()))
            Local(self._engine, self._journal, self._files, self.folder, self._token, self._minders).drive(
                self, self._more
            )
            self._journal.note({"finished": repr(time.time())})
        except BaseException as error:
            self._break(error)
        finally:
            self._end()

    def _more(self) -> bool:
        """Carry out requests of other threads; return whether more may come."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        # In this order: a request after the bell was reset rings it again, and earlier requests are in the queue.
        may_come = not self._closed
        while self._requests:
            self._requests.popleft()()
        return may_come

    def _add(self, task: Task, future: TaskFuture[Any]) -> None:
        if future.cancelled():
            self._forget(future)
            future.set_running_or_notify_cancel()
            return
        if task.category not in self._categories:
            self._categories.add(task.category)
            self._recall(task.category)
        number = self._engine.add(task)
        self._journal.add_task(task.name, task.category, task.command)
        self._futures[number] = future
        self._numbers[future] = number

    def _recall(self, category: str) -> None:
        """Learn from the archive what tasks of a category used in programs with this name."""
        try:
            history = self._archive_session.past(self._wanted(category)).histories().get(category)
        except TonnageError as error:
            _log.warning("the history of %s could not be read: %s", category, error)
            return
        if history is not None:
            self._learner.remember(category, history)

    def _wanted(self, *categories: str) -> Wanted:
        folder = str(self.home) if self.name == UNNAMED else None  # a name that a program chose is unique to it
        return Wanted(workflow=self.name, folder=folder, categories=frozenset(categories))

    def _drop(self, future: TaskFuture[Any]) -> None:
        """Take a task out of the queue, or kill its processes."""
        number = self._forget(future)
        if number is None:
            return
        future.set_running_or_notify_cancel()
        if not self._engine.cancel(number):
            for attempt, start in self._starts.items():
                if start.task == number:
                    self._minders.stop(attempt)

    def _cancel(self, *, waiting: bool, running: bool) -> None:
        for future in list(self._numbers):
            if running or (waiting and not future.running()):
                future.cancel()

    def _forget(self, future: TaskFuture[Any]) -> int | None:
        number = self._numbers.pop(future, None)
        if number is not None:
            self._futures.pop(number, None)
        return number

    def _input_bytes(self, number: int) -> float:
        return self._files.input_bytes(self._engine.tasks[number])

    # The Watcher protocol

    def started(self, start: Start, now: float) -> None:  # noqa: ARG002 (as Watcher has it)
        """An attempt started."""
        self._starts[start.attempt] = start
        future = self._futures.get(start.task)
        if future is not None:
            future.began(start)

    def seen(self, seen: Seen) -> None:
        """A running attempt was measured."""

    def tick(self, engine: Engine) -> None:
        """Some time has passed."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """An attempt ended or, if its number is 0, a task failed without one."""
        start = self._starts.pop(end.attempt, None)
        future = self._futures.get(settled.task)
        if future is None:  # it was cancelled while it was running
            self._engine.cancel(settled.task)
            return
        if start is not None:
            future.tried(start, end)
        if settled.state is not State.READY:
            self._forget(future)
            future.settle(end, settled)

    # End

    def _break(self, error: BaseException) -> None:
        """Make all open futures fail."""
        _log.error("the run %s stopped because of an error: %s", self.folder.id, error)
        with self._door:
            self._broken, self._closed = error, True
        self._minders.close()
        for future in list(self._numbers):
            self._forget(future)
            future.fail(error)

    def _end(self) -> None:
        with self._door:
            self._closed = self._ended = True
        try:
            self._remember()
        finally:
            self._opened.close()
            if not self._engine.tasks:
                shutil.rmtree(self.folder.path, ignore_errors=True)
            _under_way.discard(self)
            self._over.set()

    def _remember(self) -> None:
        """Store the finished attempts in the archive."""
        try:
            self._journal.commit()
            workflow = Workflow.build(self.name, self._engine.tasks)
            report = remember(self._archive_session, self._journal, self.folder, workflow, {})
        except TonnageError as error:
            _log.warning("the run %s could not be stored in the archive: %s", self.folder.id, error)
            return
        for reason, count in report.reasons.items():
            _log.warning("the archive skipped attempts: %s (%d)", reason, count)
        self._warn(self._archive_session.tell())

    def _warn(self, warnings: list[str]) -> None:
        for warning in warnings:
            _log.warning("%s", warning)

    def _facts(self, strategy: str) -> dict[str, str]:
        return {
            "token": self._token,
            "name": self.name,
            "begun": repr(time.time()),
            "strategy": strategy,
            **{str(resource): repr(amount) for resource, amount in self.machine.amounts().items()},
        }


def _check(name: str, strategy: str) -> None:
    if not name or "/" in name or "\0" in name:
        raise InputError(f'"{name}" cannot be the name of a run, because it is not a valid name of a folder')
    if strategy not in STRATEGIES:
        raise InputError(f'there is no strategy "{strategy}"', hint=f"choose from {', '.join(STRATEGIES)}")


_under_way: set[DynamicRun] = set()


@atexit.register
def _end_with_the_program() -> None:
    """Wait for submitted tasks, as concurrent.futures does, and until they are stored in the archive."""
    for run in list(_under_way):
        if run.belongs_to_this_process:
            run.close()
            run.join()
