"""Background jobs that a page can wait for: one at a time, in a separate process, with progress.

They need a separate process because Python runs one thread at a time: importing a million rows would block every page.
"""

import logging
import queue
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock, Thread
from typing import Any

from tonnage.die_with_parent import become_a_child
from tonnage.errors import ServerBusyError, TonnageError

__all__ = [
    "BackgroundJob",
    "BackgroundJobs",
    "State",
    "Tell",
]

Tell = Callable[[int, int, str], None]
"""Reports progress: steps done, steps in total (0 if unknown), and what is being done."""
Function = Callable[..., Mapping[str, object]]
"""The job itself: takes a `Tell` and its arguments; must be a top-level function, since another process calls it."""

_WAITING = 20  # jobs at most; beyond that, clients retry later
_KEPT = 200
_log = logging.getLogger(__name__)


class State(StrEnum):
    """The state of a background job."""

    WAITING = "waiting"
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """A background job at one moment."""

    id: str
    kind: str
    state: State = State.WAITING
    done: int = 0
    total: int = 0
    """Steps; 0 if unknown."""
    doing: str = ""
    result: Mapping[str, object] | None = None
    error: str | None = None
    hint: str | None = None

    @property
    def ended(self) -> bool:
        """Whether it will not change any more."""
        return self.state in (State.DONE, State.FAILED, State.STOPPED)


@dataclass(frozen=True, slots=True)
class _Order:
    piece: str
    function: Function
    arguments: tuple[object, ...]
    afterwards: Callable[[], None]


@dataclass
class BackgroundJobs:
    """Accepts jobs, runs them one after the other, and keeps the latest results."""

    _pieces: OrderedDict[str, BackgroundJob] = field(default_factory=OrderedDict)
    _orders: "queue.Queue[_Order | None]" = field(default_factory=lambda: queue.Queue(_WAITING))
    _lock: Lock = field(default_factory=Lock)
    _process: Any = None
    _thread: Thread | None = None
    _closed: bool = False

    def take(
        self, kind: str, function: Function, *arguments: object, afterwards: Callable[[], None] = lambda: None
    ) -> BackgroundJob:
        """Queue a job; `afterwards` is called when it ends, however it ends."""
        piece = BackgroundJob(secrets.token_urlsafe(12), kind)
        with self._lock:
            if self._closed:
                raise ServerBusyError("the server is shutting down")
            try:
                self._orders.put_nowait(_Order(piece.id, function, arguments, afterwards))
            except queue.Full:
                raise ServerBusyError("too many background jobs are waiting", hint="try again in a minute") from None
            self._pieces[piece.id] = piece
            self._forget()
            if self._thread is None:
                self._thread = Thread(target=self._work, name="background_jobs", daemon=True)
                self._thread.start()
        return piece

    def piece(self, id: str) -> BackgroundJob | None:
        """Return a job; None if the id is unknown or the job ended long ago."""
        with self._lock:
            return self._pieces.get(id)

    def stop(self, id: str) -> BackgroundJob | None:
        """Stop a job; what it has done so far is kept."""
        with self._lock:
            piece = self._pieces.get(id)
            if piece is None or piece.ended:
                return piece
            working = piece.state is State.WORKING
            self._pieces[id] = stopped = replace(piece, state=State.STOPPED, doing="")
            if working and self._process is not None:
                self._process.terminate()
            return stopped

    def close(self) -> None:
        """Stop all jobs, and accept no more."""
        with self._lock:
            self._closed = True
            open_ones = [piece.id for piece in self._pieces.values() if not piece.ended]
        for id in open_ones:
            self.stop(id)
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join(timeout=10)

    def _forget(self) -> None:
        """Drop the oldest jobs that have ended."""
        ended = [id for id, piece in self._pieces.items() if piece.ended]
        for id in ended[: max(0, len(self._pieces) - _KEPT)]:
            del self._pieces[id]

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                self._do(order)
            except Exception:
                _log.exception("background job failed")
                self._change(order.piece, state=State.FAILED, error="the job could not be run", doing="")
            finally:
                order.afterwards()

    def _do(self, order: _Order) -> None:
        context = get_context("spawn")  # a fork of a process with threads may hang
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(theirs, order.function, order.arguments), daemon=True)
        with self._lock:
            if self._pieces[order.piece].ended:
                return
            process.start()
            self._process = process
            self._pieces[order.piece] = replace(self._pieces[order.piece], state=State.WORKING)
        theirs.close()
        try:
            self._listen(order.piece, ours)
        finally:
            process.join()
            ours.close()
            self._process = None
        self._change(order.piece, state=State.FAILED, error="it ended unexpectedly", hint="was there enough memory?")

    def _listen(self, id: str, connection: Connection) -> None:
        while True:
            try:
                changes: dict[str, Any] = connection.recv()
            except (EOFError, OSError):
                return
            self._change(id, **changes)

    def _change(self, id: str, **changes: Any) -> None:  # noqa: ANN401 (fields of a piece)
        """Update a job, unless it has ended."""
        with self._lock:
            piece = self._pieces[id]
            if not piece.ended:
                self._pieces[id] = replace(piece, **changes)


def _child(connection: Connection, function: Function, arguments: tuple[object, ...]) -> None:
    become_a_child()

    def tell(done: int, total: int, doing: str) -> None:
        connection.send({"done": done, "total": total, "doing": doing})

    try:
        result = function(tell, *arguments)
        connection.send({"state": State.DONE, "result": result, "doing": ""})
    except TonnageError as error:
        connection.send({"state": State.FAILED, "error": str(error), "hint": error.hint, "doing": ""})
    except MemoryError:
        connection.send({"state": State.FAILED, "error": "there is not enough memory", "doing": ""})
    except BrokenPipeError:
        return  # the server has ended
