"""The engine's side of a pool of minders: orders go out, answers come in, and what is killed is noticed.

All sockets are looked after by the one thread that calls `Minders.wait`. The processes on the other side are described
in `tonnage.watch.fork_server`. Where both an engine and a minder were killed, `end_orphans` finds the processes of
their attempts by a mark in the environment.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tonnage.atomic import make_private_folder
from tonnage.jobs import Resource
from tonnage.watch.order import ENGINE_GONE, MONITOR_KILLED, NUMBER, RESULTS, SLOTS, Inbox, frame
from tonnage.watch.system import forget_coerced_locale

__all__ = ["MARK", "Answer", "Minders", "Order", "Seen", "end_orphans", "forget_results", "left_results", "result_of"]

_PIECE = 1 << 16
_UNTIL_ALL_IS_KILLED = 30.0
MARK = "TONNAGE_ATTEMPT"
"""The variable that every process of an attempt has: the run's token and the attempt's number."""

_UNTIL_ORPHANS_END = 5.0
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Order:
    """A command to be run once; `limits` in bytes, seconds, cores and numbers."""

    attempt: int
    words: tuple[str, ...]
    executable: str
    folder: str
    """The working folder."""
    stdout: str
    """Where its standard output is to be, if there is any."""
    stderr: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """What is added to our own environment."""
    limits: Mapping[Resource, float] | Mapping[str, float] = field(default_factory=dict)
    measured: str | None = None
    """The folder whose disk use is measured."""
    machine: int = 0
    """Where it is to run, if there are several machines."""

    def message(self) -> dict[str, Any]:
        """Return the order as minders and single tasks get it, which `tonnage.watch.order` describes."""
        return {
            "attempt": self.attempt,
            "words": list(self.words),
            "executable": self.executable,
            "folder": self.folder,
            "environment": dict(self.environment),
            "limits": {str(resource): float(limit) for resource, limit in self.limits.items()},
            "measured": self.measured,
            "stdout": self.stdout,
            "stderr": self.stderr,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """How an attempt ended and what it used."""

    attempt: int
    status: int | None = None
    """As ``os.wait`` gives it."""
    stopped_because: str | None = None
    exceeded: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The limit and the amount that was seen, of each resource that exceeded it."""
    used: Mapping[str, float] = field(default_factory=dict)
    memory_method: str | None = None
    lower_bounds: Sequence[str] = ()
    upper_bounds: Sequence[str] = ()
    started: float | None = None
    ended: float | None = None
    stdout: str | None = None
    """Where its standard output is; None where there was none."""
    stderr: str | None = None
    error: str | None = None
    """Why it could not be started."""
    notes: Sequence[str] = ()
    """What went wrong with its output."""
    unkilled: int = 0
    """Processes that could not be killed."""
    lost: bool = False
    """Whether it was stopped, or was not seen to its end, because a process that watched over it was killed."""
    host: str | None = None
    """The machine on which it ran, where that is not this one."""
    restarts: int = 0
    """How often a cluster had restarted it on its own."""

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> "Answer":
        """Return an answer from what a minder, a single task or an agent says."""
        lost = message["stopped_because"] in (ENGINE_GONE, MONITOR_KILLED) or message.get("lost", False)
        return cls(**{**message, "lost": lost})

    def message(self) -> dict[str, Any]:
        """Return the answer in plain values, from which `of` restores it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a running attempt uses at the moment."""

    attempt: int
    memory: float | None
    cores: float | None
    disk: float | None
    seconds: float
    """Since its start."""


class _Minder:
    """One minder, as far as it can be seen from here."""

    __slots__ = ("attempt", "inbox", "keeper", "number", "socket", "unsent")

    def __init__(self, number: int, keeper: "_Keeper", connection: socket.socket) -> None:
        self.number = number
        self.keeper = keeper
        self.socket = connection
        self.attempt: int | None = None
        self.inbox = Inbox()
        self.unsent = b""


class _Keeper:
    """The process that forks minders, and the socket to it."""

    def __init__(self, folder: Path, held: Sequence[int]) -> None:
        forget_coerced_locale()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self.process = subprocess.Popen(  # noqa: S603 (our own program)
                [sys.executable, "-P", "-m", "tonnage.watch.fork_server", str(number), str(folder), *map(str, held)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(number, *held),
            )

    def fork(self, number: int) -> socket.socket:
        """Have a minder forked; return the socket to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.control, [NUMBER.pack(number)], [theirs.fileno()])
        ours.setblocking(False)
        return ours

    def ended(self) -> list[int] | None:
        """Return the minders that have ended with all their processes; None where the keeper itself is gone."""
        numbers: list[int] = []
        while True:
            try:
                data = self.control.recv(NUMBER.size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return numbers
            except OSError:
                return None
            if not data:
                return None
            numbers.append(NUMBER.unpack(data)[0])

    def close(self) -> None:
        """Let the keeper end, and wait for that: its last minder ends before."""
        self.control.close()
        try:
            self.process.wait(_UNTIL_ALL_IS_KILLED)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Minders:
    """A pool of processes, each of which runs one order at a time and measures it; it grows as orders come.

    A minder keeps its last answer until it gets the next order, and writes it down where the engine dies before: see
    `left_results`. Any minder that has answered may get the next order, so everything that `wait` has returned must be
    safe before `start` is called: not only the first of several answers.
    """

    def __init__(self, folder: Path, held: Sequence[int] = ()) -> None:
        """Start the keeper; results and slots go to a folder. `held` are descriptors that only tasks do not inherit."""
        self._folder = folder.absolute()
        self._held = tuple(held)
        for name in (RESULTS, SLOTS):
            make_private_folder(self._folder / name)
        self._epoll = select.epoll()
        self._others: set[int] = set()
        self._minders: dict[int, _Minder] = {}  # by the descriptors of their sockets
        self._numbered: dict[int, _Minder] = {}
        self._running: dict[int, _Minder] = {}  # by attempts
        self._idle: list[_Minder] = []
        self._found: list[Answer | Seen] = []
        self._next_number = 0
        self._keeper: _Keeper | None = None
        self._open_keeper()

    def __enter__(self) -> "Minders":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> int:
        """How many attempts have been started and not answered."""
        return len(self._running)

    def start(self, orders: Iterable[Order]) -> None:
        """Give each order to a minder that has nothing to do; all answers that `wait` has returned must be safe."""
        for order in orders:
            message = frame(order.message())
            minder = self._idle.pop() if self._idle else self._new_minder()
            while not self._send(minder, message):
                minder = self._idle.pop() if self._idle else self._new_minder()
            minder.attempt = order.attempt
            self._running[order.attempt] = minder

    def stop(self, attempt: int) -> None:
        """Kill all processes of an attempt that runs; its answer follows."""
        minder = self._running.get(attempt)
        if minder is not None:
            self._send(minder, frame(attempt))

    def watch_also(self, descriptor: int) -> None:
        """Let `wait` return, too, when something can be read from this descriptor."""
        self._others.add(descriptor)
        self._epoll.register(descriptor, select.EPOLLIN)

    def wait(self, seconds: float | None = None) -> list[Answer | Seen]:
        """Return all that has arrived, as soon as there is something; without a time, only while something runs."""
        deadline = None if seconds is None else time.monotonic() + seconds
        woken = False
        while True:
            if deadline is None and not self._running and not self._others:
                deadline = 0.0
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            for descriptor, event in self._epoll.poll(0 if self._found else left):
                if descriptor in self._minders:
                    self._attend(self._minders[descriptor], event)
                elif self._keeper is not None and descriptor == self._keeper.control.fileno():
                    self._hear_keeper(self._keeper)
                woken = woken or descriptor in self._others
            if self._found or woken or (deadline is not None and time.monotonic() >= deadline):
                found, self._found = self._found, []
                return found

    def close(self) -> None:
        """End all processes, also those of attempts that run; afterwards none is left."""
        for minder in list(self._minders.values()):
            if self._send(minder, frame(None)) and minder.keeper is not self._keeper:
                _wait_for_end(minder.socket)
            minder.socket.close()
        if self._keeper is not None:
            self._keeper.close()
        self._epoll.close()
        self._minders, self._numbered, self._running, self._idle, self._keeper = {}, {}, {}, [], None
        shutil.rmtree(self._folder / SLOTS, ignore_errors=True)

    def _open_keeper(self) -> _Keeper:
        if self._keeper is None:
            self._keeper = _Keeper(self._folder, self._held)
            self._epoll.register(self._keeper.control, select.EPOLLIN)
        return self._keeper

    def _new_minder(self) -> _Minder:
        self._next_number += 1
        try:
            keeper = self._open_keeper()
            connection = keeper.fork(self._next_number)
        except ConnectionError:  # it was killed a moment ago
            self._forget_keeper(keeper)
            keeper = self._open_keeper()
            connection = keeper.fork(self._next_number)
        minder = _Minder(self._next_number, keeper, connection)
        self._minders[connection.fileno()] = self._numbered[minder.number] = minder
        self._epoll.register(connection, select.EPOLLIN)
        return minder

    def _send(self, minder: _Minder, message: bytes) -> bool:
        """Send a message, or what can be sent of it now; whether the minder is there."""
        minder.unsent += message
        try:
            sent = minder.socket.send(minder.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False  # its end will be noticed elsewhere
        minder.unsent = minder.unsent[sent:]
        if minder.unsent:
            self._epoll.modify(minder.socket, select.EPOLLIN | select.EPOLLOUT)
        return True

    def _attend(self, minder: _Minder, event: int) -> None:
        if event & select.EPOLLOUT and self._send(minder, b"") and not minder.unsent:
            self._epoll.modify(minder.socket, select.EPOLLIN)
        if event & ~select.EPOLLOUT and not self._hear(minder):
            self._forget(minder)

    def _hear(self, minder: _Minder) -> bool:
        """Take in what a minder has sent; whether it may send more."""
        try:
            piece = minder.socket.recv(_PIECE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for message in minder.inbox.add(piece):
            if "status" not in message:
                self._found.append(Seen(**message))
                continue
            self._found.append(Answer.of(message))
            del self._running[message["attempt"]]
            minder.attempt = None
            if minder.keeper is not self._keeper or message["unkilled"]:
                return False  # it takes no more orders
            self._idle.append(minder)
        return bool(piece)

    def _forget(self, minder: _Minder) -> None:
        """Close the socket to a minder that has ended or is of no more use."""
        if self._minders.pop(minder.socket.fileno(), None) is None:
            return
        self._epoll.unregister(minder.socket)
        minder.socket.close()
        if minder in self._idle:
            self._idle.remove(minder)
        if minder.keeper is not self._keeper:
            self._settle(minder)  # else the keeper says when nothing is left of what it ran

    def _settle(self, minder: _Minder) -> None:
        """Find out what became of an attempt whose minder has ended."""
        self._numbered.pop(minder.number, None)
        if minder.attempt is not None:
            words = result_of(self._folder, minder.attempt)
            self._found.append(words or Answer(minder.attempt, ended=time.time(), lost=True))
            del self._running[minder.attempt]
            minder.attempt = None

    def _hear_keeper(self, keeper: _Keeper) -> None:
        numbers = keeper.ended()
        if numbers is None:
            self._forget_keeper(keeper)
            return
        for minder in filter(None, map(self._numbered.get, numbers)):
            while minder.socket.fileno() in self._minders:
                if not self._hear(minder):  # it may have answered before it ended
                    self._forget(minder)
            self._settle(minder)

    def _forget_keeper(self, keeper: _Keeper) -> None:
        """Go on without a keeper that was killed: its minders stop what they run, and answer."""
        self._epoll.unregister(keeper.control)
        self._keeper = None
        keeper.close()
        for minder in list(self._numbered.values()):
            if minder.attempt is None:
                self._forget(minder)
            elif minder.socket.fileno() not in self._minders:
                self._settle(minder)


def left_results(folder: Path) -> dict[int, Answer]:
    """Return the answers that were left for an engine that had been killed; what cannot be read is no answer."""
    try:
        attempts = [int(path.name) for path in (folder / RESULTS).iterdir() if path.name.isdecimal()]
    except OSError:
        return {}
    return {attempt: words for attempt in attempts if (words := result_of(folder, attempt)) is not None}


def result_of(folder: Path, attempt: int) -> Answer | None:
    """Return the answer of one attempt that was left below a folder; None where there is none that can be read."""
    try:
        words = Answer.of(json.loads((folder / RESULTS / str(attempt)).read_bytes()))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return words if words.attempt == attempt else None


def forget_results(folder: Path) -> None:
    """Remove results that are safe elsewhere; no engine may run there."""
    shutil.rmtree(folder / RESULTS, ignore_errors=True)


def _wait_for_end(connection: socket.socket) -> None:
    """Wait until the other side closes its end."""
    connection.settimeout(_UNTIL_ALL_IS_KILLED)
    try:
        while connection.recv(_PIECE):
            pass
    except OSError:
        pass


def end_orphans(token: str, attempt: int | None = None) -> int:
    """Kill every process that carries a run's token, or belongs to one attempt; return how many there were."""
    mark = f"{MARK}={token}:".encode() + (b"" if attempt is None else b"%d\0" % attempt)
    found: set[int] = set()
    deadline = time.monotonic() + _UNTIL_ORPHANS_END
    while living := list(_marked(mark)):  # one may have forked while we looked
        found.update(living)
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it ended, or has become another user's
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)
    return len(found)


def _marked(mark: bytes) -> Iterator[int]:
    own = os.getpid()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # another user's, or gone
        if int(folder.name) != own and (environment.startswith(mark) or b"\0" + mark in environment):
            yield int(folder.name)
