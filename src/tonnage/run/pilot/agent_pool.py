"""The pilot's side of the agents of a packed batch job: sends orders, receives answers, and detects lost nodes.

All pipes are handled by the one thread that calls `Agents.wait`. Another thread only pings, so that agents know that
the pilot is alive while it waits for a slow disk. `tonnage.run.pilot.agent` describes the messages.
"""

import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tonnage.batch.scheduler import InsideJob
from tonnage.errors import TonnageError
from tonnage.run.minders import Answer, Order, Seen, left_results, result_of
from tonnage.run.pilot.agent import AGENTS, agent_folder
from tonnage.watch.order import MACHINE_LOST, TERMINATED

__all__ = ["Agents", "Here", "undelivered"]

_TICK = 1.0
_CHECK = 0.25
_PIECE = 1 << 16
_log = logging.getLogger(__name__)

_BEATS = 12  # pings in the time after which a node that does not answer counts as lost
_SILENCE = 2 / 3  # of that time, after which an agent that receives nothing ends: before it counts as lost
_TO_END = 10.0


class Here:
    """A batch job without a batch system, whose nodes are all this machine."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = list(nodes)

    def nodes(self) -> list[str]:
        """Return the names of its nodes."""
        return self._nodes

    def launcher(self, node: str) -> Sequence[str]:  # noqa: ARG002 (as InsideJob has it)
        """Return an empty prefix: no launcher is needed."""
        return ()

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return our variables unchanged."""
        return dict(ours)


def undelivered(folder: Path) -> dict[int, Answer]:
    """Return the answers that agents of a batch job could not deliver because the pilot was gone."""
    found: dict[int, Answer] = {}
    for own in (folder / AGENTS).glob("*"):
        found |= left_results(own)
    return found


class _Node:
    """The agent of one node, as the pilot sees it."""

    def __init__(self, number: int, name: str, process: "subprocess.Popen[bytes]") -> None:
        pipes = (process.stdin, process.stdout)
        self.stdin, self.stdout = (-1 if pipe is None else pipe.fileno() for pipe in pipes)
        self.number = number
        self.name = name
        self.process = process
        self.there = True
        self.leaving = False
        """Whether nothing more may be started there."""
        self.running: set[int] = set()
        self.answers = 0
        self.safe = 0
        """The number of answers that are recorded in the ledger."""
        self.heard_at = time.monotonic()
        self.line, self.unsent = b"", b""
        os.set_blocking(self.stdin, False)

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Agents:
    """One agent on each node; the machine of an order selects the agent.

    An agent keeps its answers until `start` is called again, and writes them to files if the pilot dies before that:
    see `undelivered`. What `wait` has returned must therefore be stored safely before `start` is called.
    """

    def __init__(
        self, folder: Path, nodes: Sequence[str], token: str, *, job: InsideJob, patience: float = 60.0
    ) -> None:
        """Start agents on the nodes of our batch job; one that is silent for `patience` seconds counts as lost."""
        self._folder = folder.absolute()
        self._patience = patience
        self._epoll = select.epoll()
        self._others: set[int] = set()
        self._found: list[Answer | Seen] = []
        self._lost: list[int] = []
        self._available: dict[int, float] = {}
        self._next_check = 0.0
        self._end_by: float | None = None
        self._closed = threading.Event()
        self._sending = threading.Lock()
        self._where: dict[int, _Node] = {}  # by attempts
        self._nodes = [self._begin(number, name, token, job) for number, name in enumerate(nodes)]
        self._pipes = {node.stdout: node for node in self._nodes} | {node.stdin: node for node in self._nodes}
        self._pinging = threading.Thread(target=self._ping, daemon=True)
        self._pinging.start()

    def __enter__(self) -> "Agents":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> int:
        """The number of attempts that were started and not yet answered."""
        return len(self._where)

    @property
    def there(self) -> int:
        """The number of nodes that are not lost."""
        return sum(node.there for node in self._nodes)

    def lost_machines(self) -> list[int]:
        """Return the nodes that were lost since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def start(self, orders: Iterable[Order]) -> None:
        """Send each order to its node; earlier answers are stored safely by now."""
        for node in self._nodes:
            node.safe = node.answers
        for order in orders:
            node = self._nodes[order.machine]
            self._where[order.attempt] = node
            node.running.add(order.attempt)
            if node.there:
                self._say(node, {"order": order.message()})
            else:
                self._answer_for(node)

    def stop(self, attempt: int) -> None:
        """Kill all processes of a running attempt; its answer follows."""
        node = self._where.get(attempt)
        if node is not None and node.there:
            self._say(node, {"stop": attempt})

    def pause(self, attempt: int) -> None:
        """Stop all processes of a running attempt until `resume` is called; the time does not count."""
        self._tell(attempt, "pause")

    def resume(self, attempt: int) -> None:
        """Let a paused attempt continue."""
        self._tell(attempt, "resume")

    def _tell(self, attempt: int, what: str) -> None:
        node = self._where.get(attempt)
        if node is not None and node.there:
            self._say(node, {what: attempt})

    def available(self) -> dict[int, float]:
        """Return how much memory nodes have left, as far as they have reported it since the last call."""
        found, self._available = self._available, {}
        return found

    def watch_also(self, descriptor: int) -> None:
        """Make `wait` return also when this descriptor becomes readable."""
        self._others.add(descriptor)
        self._epoll.register(descriptor, select.EPOLLIN)

    def wait(self, seconds: float | None = None) -> list[Answer | Seen]:
        """Return what has arrived, as soon as there is something or after the timeout, by default a second."""
        deadline = time.monotonic() + (_TICK if seconds is None else seconds)
        woken = False
        while True:
            left = min(deadline, self._next_check) - time.monotonic()
            for descriptor, event in self._epoll.poll(0 if self._found else max(0.0, left)):
                woken = woken or descriptor in self._others
                node = self._pipes.get(descriptor)
                if node is not None and node.there:
                    self._attend(node, descriptor, event)
            now = time.monotonic()
            if now >= self._next_check:  # after reading the pipes, which may not have happened for a while
                self._check(now)
            ended = self._end_by is not None and not self.there
            if self._found or self._lost or self._available or woken or ended or now >= deadline:
                found, self._found = self._found, []
                return found

    def end(self, seconds: float) -> None:
        """Tell the agents to kill everything that runs; the answers follow within that time."""
        if self._end_by is None:
            self._end_by = time.monotonic() + seconds
            for node in self._nodes:
                if node.there:
                    self._say(node, {"bye": 0, "heard": node.safe})

    def close(self) -> None:
        """End all agents with everything that they run."""
        self.end(_TO_END)
        self._lost.clear()
        deadline = max(self._end_by or 0.0, time.monotonic() + _TICK)
        while self.there and time.monotonic() < deadline:
            self.wait(_TICK)
        self._closed.set()
        self._pinging.join()
        for node in self._nodes:
            node.process.kill()
            node.process.wait()
            node.close()
        self._epoll.close()

    def _begin(self, number: int, name: str, token: str, job: InsideJob) -> _Node:
        silence = self._patience * _SILENCE
        agent = (
            sys.executable,
            "-P",
            "-u",
            "-m",
            "tonnage.run.pilot.agent",
            str(self._folder),
            name,
            token,
            str(silence),
        )
        words, ours = [*job.launcher(name), *agent], job.environment(os.environ)
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(words, bufsize=0, stdin=pipe, stdout=pipe, env=ours)  # noqa: S603 (our program)
        except OSError as error:
            raise TonnageError(f"{name}: the agent cannot be started: {error.filename}: {error.strerror}") from None
        node = _Node(number, name, process)
        self._epoll.register(node.stdout, select.EPOLLIN)
        return node

    def _say(self, node: _Node, message: Mapping[str, Any]) -> None:
        self._send(node, json.dumps(message).encode() + b"\n")

    def _send(self, node: _Node, data: bytes = b"") -> None:
        """Send data, after what could not be sent before; the rest follows when the pipe accepts more."""
        waited = bool(node.unsent)
        with self._sending:
            node.unsent += data
            try:
                while node.unsent:
                    node.unsent = node.unsent[os.write(node.stdin, node.unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                node.unsent = b""  # its end will be noticed when its output is read
        if node.unsent and not waited:
            self._epoll.register(node.stdin, select.EPOLLOUT)
        elif waited and not node.unsent:
            self._epoll.unregister(node.stdin)

    def _ping(self) -> None:
        """Ping all nodes periodically, between messages; a ping is sent completely or not at all."""
        while not self._closed.wait(self._patience / _BEATS):
            for node in self._nodes:
                with self._sending, suppress(OSError):
                    if node.there and not node.unsent:
                        os.write(node.stdin, b'{"ping": 0, "heard": %d}\n' % node.safe)

    def _attend(self, node: _Node, descriptor: int, event: int) -> None:
        if descriptor == node.stdin:
            self._send(node)
            return
        piece = os.read(node.stdout, _PIECE) if event else b""
        if not piece:
            self._lose(node)
            return
        node.heard_at = time.monotonic()
        *lines, node.line = (node.line + piece).split(b"\n")
        for line in lines:
            self._hear(node, line)

    def _hear(self, node: _Node, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            return  # other output of the launcher
        if "answer" in message:
            self._take(node, Answer.of(message["answer"]))
        elif "seen" in message:
            self._found.append(Seen(**message["seen"]))
        elif "available" in message:
            self._available[node.number] = message["available"]
        elif "bye" in message:
            self._note_leaving(node)

    def _take(self, node: _Node, answer: Answer) -> None:
        node.answers += 1
        node.running.discard(answer.attempt)
        if self._where.pop(answer.attempt, None) is not None:
            self._found.append(answer)

    def _check(self, now: float) -> None:
        """Lose nodes that have not answered for too long, and everything that still runs after the deadline."""
        self._next_check = now + _CHECK
        for node in self._nodes:
            if node.there and now - node.heard_at > self._patience:
                self._lose(node)
            if self._end_by is not None and now >= self._end_by:
                self._answer_for(node)

    def _lose(self, node: _Node) -> None:
        """Continue without a node."""
        node.there = False
        self._epoll.unregister(node.stdout)
        if node.unsent:
            self._epoll.unregister(node.stdin)
        node.process.kill()
        self._answer_for(node)
        self._note_leaving(node)

    def _note_leaving(self, node: _Node) -> None:
        """Let nothing more start on a node; if the pilot has not said good-bye, the node counts as lost."""
        if not node.leaving and self._end_by is None:
            _log.warning("node %s was lost", node.name)
            self._lost.append(node.number)
        node.leaving = True

    def _answer_for(self, node: _Node) -> None:
        """Answer in place of an agent that is gone; minders that outlived it may have written results."""
        why = MACHINE_LOST if self._end_by is None else TERMINATED
        for attempt in sorted(node.running):
            answer = result_of(agent_folder(self._folder, node.name), attempt)
            if answer is None or answer.lost:
                answer = Answer(attempt, ended=time.time(), stopped_because=why, lost=why is MACHINE_LOST)
            self._found.append(replace(answer, host=node.name))
            del self._where[attempt]
        node.running.clear()
