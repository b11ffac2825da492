"""The engine's side of a pool of minders: sends orders, receives answers, and notices minders that were killed.

All sockets are handled by the one thread that calls `Minders.wait`. The processes on the other side are described in
`tonnage.watch.fork_server`. If both an engine and a minder were killed, `marked_processes.py` finds what they left.
"""

import json
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tonnage.atomic import make_private_folder
from tonnage.jobs import Resource
from tonnage.run.this_machine import SystemMemory
from tonnage.watch.order import CONTINUE, ENGINE_GONE, MONITOR_KILLED, NUMBER, PAUSE, RESULTS, SLOTS, Inbox, frame
from tonnage.watch.system import forget_coerced_locale

__all__ = ["Answer", "Minders", "Order", "Seen", "forget_results", "left_results", "result_of"]

_PIECE = 1 << 16
_UNTIL_ALL_IS_KILLED = 30.0
_AVAILABLE_PAUSE = 0.1
_KILLED = (signal.SIGKILL, (128 + signal.SIGKILL) << 8)  # as os.wait has it; the second is what a shell says of it


@dataclass(frozen=True, slots=True)
class Order:
    """A command to run once; `limits` are in base units (bytes, seconds, cores)."""

    attempt: int
    words: tuple[str, ...]
    executable: str
    folder: str
    """The working folder."""
    stdout: str
    """The file for its standard output, which is created if there is any."""
    stderr: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added to our own environment."""
    limits: Mapping[Resource, float] | Mapping[str, float] = field(default_factory=dict)
    measured: str | None = None
    """The folder whose disk use is measured."""
    machine: int = 0
    """The machine on which to run it, if there are several."""
    report_growth: float | None = None
    """The change of its memory that is reported at once, if the engine lets it grow."""

    def message(self) -> dict[str, Any]:
        """Return the order as a message to a minder or a single task; see `tonnage.watch.order`."""
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
            "report_growth": self.report_growth,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """How an attempt ended and what it used."""

    attempt: int
    status: int | None = None
    """As ``os.wait`` gives it."""
    stopped_because: str | None = None
    exceeded: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The limit and the measured amount of each resource that exceeded its limit."""
    used: Mapping[str, float] = field(default_factory=dict)
    memory_method: str | None = None
    lower_bounds: Sequence[str] = ()
    upper_bounds: Sequence[str] = ()
    started: float | None = None
    ended: float | None = None
    stdout: str | None = None
    """The file with its standard output; None if there was none."""
    stderr: str | None = None
    error: str | None = None
    """Why it could not be started."""
    notes: Sequence[str] = ()
    """What went wrong with its output."""
    unkilled: int = 0
    """Processes that could not be killed."""
    lost: bool = False
    """Whether it was stopped, or its end was missed, because its minder or guard was killed."""
    host: str | None = None
    """The machine on which it ran, if not this one."""
    restarts: int = 0
    """How often the cluster restarted it by itself."""
    paused: float = 0.0
    """For how many seconds it was paused, which are not part of its wall time."""
    out_of_memory: bool = False
    """Whether the kernel killed one of its processes because the machine, or its control group, had no more memory."""

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> "Answer":
        """Create an answer from the message of a minder, a single task or an agent."""
        lost = message["stopped_because"] in (ENGINE_GONE, MONITOR_KILLED) or message.get("lost", False)
        return cls(**{**message, "lost": lost})

    def message(self) -> dict[str, Any]:
        """Return the answer as a message that `of` accepts."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Seen:
    """The current use of a running attempt."""

    attempt: int
    memory: float | None
    cores: float | None
    disk: float | None
    seconds: float
    """Since its start."""


class _Minder:
    """One minder, as the engine sees it."""

    __slots__ = ("attempt", "fork_server", "inbox", "number", "socket", "unsent")

    def __init__(self, number: int, fork_server: "_ForkServer", connection: socket.socket) -> None:
        self.number = number
        self.fork_server = fork_server
        self.socket = connection
        self.attempt: int | None = None
        self.inbox = Inbox()
        self.unsent = b""


class _ForkServer:
    """The fork server of the minders, and the socket to it."""

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
        """Fork a minder; return the socket to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.control, [NUMBER.pack(number)], [theirs.fileno()])
        ours.setblocking(False)
        return ours

    def ended(self) -> list[int] | None:
        """Return the minders that ended with all their processes; None if the fork server itself is gone."""
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
        """Shut the fork server down and wait for it; its minders end first."""
        self.control.close()
        try:
            self.process.wait(_UNTIL_ALL_IS_KILLED)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Minders:
    """A growing pool of processes, each of which runs and measures one order at a time.

    A minder keeps its last answer until it gets the next order, and writes it to a file if the engine dies before that:
    see `left_results`. Any minder that has answered may get the next order. All answers that `wait` has returned must
    therefore be stored safely before `start` is called, not only the first of several.
    """

    def __init__(self, folder: Path, held: Sequence[int] = ()) -> None:
        """Start the fork server.

        `folder` gets results and slots; `held` are descriptors that all processes but tasks inherit.
        """
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
        self._next_available = 0.0
        self._memory = SystemMemory()
        self._fork_server: _ForkServer | None = None
        self._open_fork_server()

    def __enter__(self) -> "Minders":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> int:
        """The number of attempts that were started and not yet answered."""
        return len(self._running)

    def start(self, orders: Iterable[Order]) -> None:
        """Give each order to an idle minder; all answers that `wait` has returned must be stored safely by now."""
        for order in orders:
            message = frame(order.message())
            minder = self._idle.pop() if self._idle else self._new_minder()
            while not self._send(minder, message):
                minder = self._idle.pop() if self._idle else self._new_minder()
            minder.attempt = order.attempt
            self._running[order.attempt] = minder

    def stop(self, attempt: int) -> None:
        """Kill all processes of a running attempt; its answer follows."""
        minder = self._running.get(attempt)
        if minder is not None:
            self._send(minder, frame(attempt))

    def pause(self, attempt: int) -> None:
        """Stop all processes of a running attempt until `resume` is called; the time does not count."""
        self._tell(attempt, PAUSE)

    def resume(self, attempt: int) -> None:
        """Let a paused attempt continue."""
        self._tell(attempt, CONTINUE)

    def available(self) -> dict[int, float]:
        """Return how much memory there is left, if that was not read just now."""
        now = time.monotonic()
        if now < self._next_available:
            return {}
        self._next_available = now + _AVAILABLE_PAUSE
        return {0: self._memory.available()}

    def _tell(self, attempt: int, what: str) -> None:
        minder = self._running.get(attempt)
        if minder is not None:
            self._send(minder, frame((what, attempt)))

    def watch_also(self, descriptor: int) -> None:
        """Make `wait` return also when this descriptor becomes readable."""
        self._others.add(descriptor)
        self._epoll.register(descriptor, select.EPOLLIN)

    def wait(self, seconds: float | None = None) -> list[Answer | Seen]:
        """Return what has arrived, as soon as there is something or after a timeout; at once if nothing can arrive."""
        deadline = None if seconds is None else time.monotonic() + seconds
        woken = False
        while True:
            if deadline is None and not self._running and not self._others:
                deadline = 0.0
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            for descriptor, event in self._epoll.poll(0 if self._found else left):
                if descriptor in self._minders:
                    self._attend(self._minders[descriptor], event)
                elif self._fork_server is not None and descriptor == self._fork_server.control.fileno():
                    self._hear_fork_server(self._fork_server)
                woken = woken or descriptor in self._others
            if self._found or woken or (deadline is not None and time.monotonic() >= deadline):
                found, self._found = self._found, []
                return found

    def close(self) -> None:
        """End all processes, including those of running attempts, and wait until they are gone."""
        for minder in list(self._minders.values()):
            if self._send(minder, frame(None)) and minder.fork_server is not self._fork_server:
                _wait_for_end(minder.socket)
            minder.socket.close()
        if self._fork_server is not None:
            self._fork_server.close()
        self._epoll.close()
        self._minders, self._numbered, self._running, self._idle, self._fork_server = {}, {}, {}, [], None
        shutil.rmtree(self._folder / SLOTS, ignore_errors=True)

    def _open_fork_server(self) -> _ForkServer:
        if self._fork_server is None:
            self._fork_server = _ForkServer(self._folder, self._held)
            self._epoll.register(self._fork_server.control, select.EPOLLIN)
        return self._fork_server

    def _new_minder(self) -> _Minder:
        self._next_number += 1
        try:
            fork_server = self._open_fork_server()
            connection = fork_server.fork(self._next_number)
        except ConnectionError:  # it was just killed
            self._forget_fork_server(fork_server)
            fork_server = self._open_fork_server()
            connection = fork_server.fork(self._next_number)
        minder = _Minder(self._next_number, fork_server, connection)
        self._minders[connection.fileno()] = self._numbered[minder.number] = minder
        self._epoll.register(connection, select.EPOLLIN)
        return minder

    def _send(self, minder: _Minder, message: bytes) -> bool:
        """Send a message, or as much of it as possible now; return whether the minder is still there."""
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
        """Process what a minder has sent; return whether it may send more."""
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
            self._found.append(self._judged(Answer.of(message)))
            del self._running[message["attempt"]]
            minder.attempt = None
            if minder.fork_server is not self._fork_server or message["unkilled"]:
                return False  # it gets no more orders
            self._idle.append(minder)
        return bool(piece)

    def _judged(self, answer: Answer) -> Answer:
        """Find out whether an attempt failed because the kernel had no more memory and killed one of its processes."""
        if not answer.status or answer.stopped_because:
            return answer
        killed = answer.status in _KILLED
        return replace(answer, out_of_memory=self._memory.explains_end(answer.started or 0.0, killed=killed))

    def _forget(self, minder: _Minder) -> None:
        """Close the socket to a minder that has ended or is no longer used."""
        if self._minders.pop(minder.socket.fileno(), None) is None:
            return
        self._epoll.unregister(minder.socket)
        minder.socket.close()
        if minder in self._idle:
            self._idle.remove(minder)
        if minder.fork_server is not self._fork_server:
            self._settle(minder)  # otherwise the fork server reports when all of its processes are gone

    def _settle(self, minder: _Minder) -> None:
        """Find out how the attempt of a minder that has ended came to its end."""
        self._numbered.pop(minder.number, None)
        if minder.attempt is not None:
            result = result_of(self._folder, minder.attempt)
            self._found.append(result or Answer(minder.attempt, ended=time.time(), lost=True))
            del self._running[minder.attempt]
            minder.attempt = None

    def _hear_fork_server(self, fork_server: _ForkServer) -> None:
        numbers = fork_server.ended()
        if numbers is None:
            self._forget_fork_server(fork_server)
            return
        for minder in filter(None, map(self._numbered.get, numbers)):
            while minder.socket.fileno() in self._minders:
                if not self._hear(minder):  # it may have answered before it ended
                    self._forget(minder)
            self._settle(minder)

    def _forget_fork_server(self, fork_server: _ForkServer) -> None:
        """Continue without a fork server that was killed: its minders stop what they run, and answer."""
        self._epoll.unregister(fork_server.control)
        self._fork_server = None
        fork_server.close()
        for minder in list(self._numbered.values()):
            if minder.attempt is None:
                self._forget(minder)
            elif minder.socket.fileno() not in self._minders:
                self._settle(minder)


def left_results(folder: Path) -> dict[int, Answer]:
    """Return the answers that minders wrote to files because the engine was killed; unreadable files are ignored."""
    try:
        attempts = [int(path.name) for path in (folder / RESULTS).iterdir() if path.name.isdecimal()]
    except OSError:
        return {}
    return {attempt: answer for attempt in attempts if (answer := result_of(folder, attempt)) is not None}


def result_of(folder: Path, attempt: int) -> Answer | None:
    """Return the answer that was written to a file for one attempt; None if there is none, or it cannot be read."""
    try:
        answer = Answer.of(json.loads((folder / RESULTS / str(attempt)).read_bytes()))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return answer if answer.attempt == attempt else None


def forget_results(folder: Path) -> None:
    """Remove results that are stored elsewhere; no engine may be running in this folder."""
    shutil.rmtree(folder / RESULTS, ignore_errors=True)


def _wait_for_end(connection: socket.socket) -> None:
    """Wait until the other side closes its end."""
    connection.settimeout(_UNTIL_ALL_IS_KILLED)
    try:
        while connection.recv(_PIECE):
            pass
    except OSError:
        pass
