"""The agent of one node in a packed batch job: carries out the pilot's orders with minders of its own.

``python -P -u -m tonnage.run.pilot.agent FOLDER NAME TOKEN PATIENCE`` reads lines of JSON from standard input and
writes lines of JSON to standard output, which srun transfers between the nodes:

    to the agent      {"order": ...}  {"stop": attempt}  {"pause": attempt}  {"resume": attempt}
                      {"ping": 0, "heard": answers}  {"bye": 0, "heard": answers}
    from the agent    {"answer": ...}  {"seen": ...}  {"available": memory}  {"pong": 0}  {"bye": 0}

When the pilot is gone, everything that runs here is killed, because it may be started again elsewhere. Answers that
the pilot may not have received are written as results to FOLDER/agents/NAME, as minders do.
"""

import json
import os
import select
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

from tonnage.errors import TonnageError
from tonnage.run.marked_processes import end_orphans
from tonnage.run.minders import Answer, Minders, Order, Seen
from tonnage.watch.order import TERMINATED, leave_result

__all__ = ["AGENTS", "ShutdownSignal", "agent_folder", "main"]

AGENTS = "agents"
_TICK = 1.0
_MEMORY_TICK = 0.1
_NOTABLE = 0.01  # of the memory that is left: a smaller change is not reported
_MOMENT = 0.2  # seconds until a signal to a batch job has reached all of its processes
_TO_KILL = 5.0
_PIECE = 1 << 16


class ShutdownSignal:
    """Records the signal that asks this process to end; `descriptor` becomes readable, which wakes up a poll."""

    def __init__(self) -> None:
        """Install signal handlers permanently."""
        self.signal: int | None = None
        self.descriptor, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._record)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def received(self) -> bool:
        """Whether a signal has arrived; `descriptor` becomes readable again only after the next one."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        return self.signal is not None

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number


def agent_folder(folder: Path, name: str) -> Path:
    """Return the folder of a node's agent in the folder of the batch job."""
    return folder / AGENTS / name


def main(arguments: list[str]) -> None:
    """Run tasks on this node until the pilot job shuts down."""
    folder, name, token, patience = arguments
    own = agent_folder(Path(folder), name)
    shutdown = ShutdownSignal()
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # all cores of the job: some clusters pin a step to one core
    with Minders(own) as minders:
        minders.watch_also(0)
        minders.watch_also(shutdown.descriptor)
        agent = _Agent(minders, own, name, token, shutdown)
        agent.serve(float(patience))
        agent.end()


class _Agent:
    """Communicates with the pilot, and lets minders carry out its orders."""

    def __init__(self, minders: Minders, folder: Path, name: str, token: str, shutdown: ShutdownSignal) -> None:
        self._minders = minders
        self._folder = folder
        self._name = name
        self._token = token
        self._shutdown = shutdown
        self._running: set[int] = set()
        self._growing = False
        """Whether attempts may outgrow their allocations, so that the pilot needs to know what is left."""
        self._available = inf
        self._unheard: deque[Answer] = deque()
        """Answers that were sent, but that the pilot may not have recorded."""
        self._heard = 0
        self._held: list[tuple[float, Answer]] = []
        """Answers of attempts that just failed or were lost, perhaps because the batch job is being terminated."""
        self._line = b""
        self._bye = False
        self._last = time.monotonic()

    def serve(self, patience: float) -> None:
        """Carry out orders until the pilot says good-bye, is gone, or is silent for too long."""
        while not self._shutdown.received() and not self._bye and time.monotonic() - self._last < patience:
            for one in self._minders.wait(self._tick):
                self._take(one)
            self._report_available()
            if not self._listen():
                return
            self._release(time.monotonic() - _MOMENT)

    @property
    def _tick(self) -> float:
        if self._growing and self._running:
            return _MEMORY_TICK
        return _MOMENT if self._held else _TICK

    def _report_available(self) -> None:
        """Report how much memory is left if that has changed."""
        if not self._growing:
            return
        for memory in self._minders.available().values():
            if abs(memory - self._available) > _NOTABLE * memory:
                self._available = memory
                self._send({"available": memory})

    def end(self) -> None:
        """Kill everything that runs, and report how it ended, or write that to files if the pilot is gone."""
        self._send({"bye": 0})  # immediately, so that nothing more is started here
        for attempt in self._running:
            self._minders.stop(attempt)
        deadline = time.monotonic() + _TO_KILL
        while self._running and time.monotonic() < deadline:
            for one in self._minders.wait(_TICK):
                if isinstance(one, Answer):
                    self._running.discard(one.attempt)
                    self._answer(_terminated(one))
        ended = self._bye or self._shutdown.received()
        for _, answer in self._held:
            self._answer(_terminated(answer) if ended else answer)
        for answer in self._unheard:
            if answer.stopped_because != TERMINATED and not answer.lost:
                self._leave(answer)

    def _take(self, one: Answer | Seen) -> None:
        if isinstance(one, Seen):
            self._send({"seen": asdict(one)})
            return
        self._running.discard(one.attempt)
        if one.lost:
            end_orphans(
                self._token, one.attempt
            )  # nothing else does if both its minder and the fork server were killed
        if one.lost or (one.status and not one.stopped_because):
            self._held.append((time.monotonic(), one))
        else:
            self._answer(one)

    def _release(self, before: float) -> None:
        """Send answers that were held back for long enough: the batch job was not terminated."""
        while self._held and self._held[0][0] <= before:
            self._answer(self._held.pop(0)[1])

    def _answer(self, answer: Answer) -> None:
        answer = replace(answer, host=self._name)
        self._unheard.append(answer)
        self._send({"answer": answer.message()})

    def _leave(self, answer: Answer) -> None:
        with suppress(TonnageError, OSError):  # the folder is gone, or its disk is full: it cannot be reported
            leave_result(str(self._folder), answer.message())

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            self._bye = True  # the pilot is gone

    def _listen(self) -> bool:
        """Process what the pilot has sent; return whether it is still there."""
        while select.select([0], [], [], 0)[0]:
            piece = os.read(0, _PIECE)
            if not piece:
                return False
            *lines, self._line = (self._line + piece).split(b"\n")
            self._obey([json.loads(line) for line in lines])
        return True

    def _obey(self, messages: list[dict[str, Any]]) -> None:
        self._last = time.monotonic()
        orders = [Order(**one["order"]) for one in messages if "order" in one]
        self._running.update(order.attempt for order in orders)
        self._growing = self._growing or any(order.report_growth is not None for order in orders)
        self._minders.start(orders)
        for one in messages:
            if "stop" in one:
                self._minders.stop(one["stop"])
            if "pause" in one:
                self._minders.pause(one["pause"])
            if "resume" in one:
                self._minders.resume(one["resume"])
            if "heard" in one:
                self._forget(one["heard"])
            if "ping" in one:
                self._send({"pong": 0})
            self._bye = self._bye or "bye" in one

    def _forget(self, heard: int) -> None:
        """Drop answers that the pilot has recorded; `heard` is their total number."""
        while self._heard < heard and self._unheard:
            self._unheard.popleft()
            self._heard += 1


def _terminated(answer: Answer) -> Answer:
    """Mark an answer as that of an attempt that ended with its batch job: whether it had finished is unknown."""
    return replace(answer, stopped_because=TERMINATED)


if __name__ == "__main__":
    main(sys.argv[1:])
