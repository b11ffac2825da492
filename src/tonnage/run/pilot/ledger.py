"""The ledger of a packed batch job: one line for each event, written by its pilot for the engine that submitted it.

One process appends to the file, and nothing but its end ever changes. It can therefore be read on another machine at
any time, and after its writer was killed.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tonnage.errors import TonnageError
from tonnage.jobs import Decision
from tonnage.run.events import Action, Adjustment, Ended, Settled, Start, State
from tonnage.run.serialisation import plain_decision, plain_ended, plain_start, restore_ended, restore_start

__all__ = [
    "AttemptAdjusted",
    "AttemptEnded",
    "AttemptStarted",
    "Entry",
    "Ledger",
    "LedgerReader",
    "MachineLost",
    "PilotFinished",
    "TaskRefused",
]

_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt is about to start; the numbers of task and machine are those of the batch job's own engine."""

    task: str
    node: str
    time: float
    start: Start


@dataclass(frozen=True, slots=True)
class AttemptAdjusted:
    """A running attempt grows, is paused, continues or is about to be stopped."""

    time: float
    change: Adjustment


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An attempt ended, and what happens to its task."""

    task: str
    end: Ended
    settled: Settled


@dataclass(frozen=True, slots=True)
class TaskRefused:
    """A task failed without an attempt."""

    task: str
    settled: Settled


@dataclass(frozen=True, slots=True)
class MachineLost:
    """A node no longer answers; nothing starts there."""

    node: str
    time: float


@dataclass(frozen=True, slots=True)
class PilotFinished:
    """The pilot has finished: nothing follows, unless the cluster restarts the batch job."""

    reason: str
    time: float


Entry: TypeAlias = AttemptStarted | AttemptAdjusted | AttemptEnded | TaskRefused | MachineLost | PilotFinished


class Ledger:
    """Appends to a ledger; `commit` writes everything since the last commit as complete lines."""

    def __init__(self, path: Path, tasks: Sequence[str], nodes: Sequence[str]) -> None:
        """Open or create a ledger; `tasks` and `nodes` are the names for the engine's numbers."""
        self.path = path
        self._tasks = tasks
        self._nodes = nodes
        self._lines: list[str] = []
        self._decisions: dict[int, tuple[Decision, str]] = {}
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                self._lines.append("")  # the writer was killed within the last line, which is thereby terminated
        except OSError as error:
            raise self._error(error) from None

    def started(self, starts: Sequence[Start], now: float) -> None:
        """Record attempts that are about to start."""
        for start in starts:
            facts = {"task": self._tasks[start.task], "node": self._nodes[start.machine], "time": now}
            begin = json.dumps({"event": "started", **facts, "start": plain_start(start)})
            decisions = ", ".join([self._written(one) for one in start.decisions])
            self._lines.append(f'{begin[:-1]}, "decisions": [{decisions}]}}')

    def adjusted(self, changes: Sequence[Adjustment], now: float) -> None:
        """Record changes to running attempts that are about to take effect."""
        for change in changes:
            self._note("adjusted", time=now, change=asdict(change))

    def ended(self, end: Ended, settled: Settled) -> None:
        """Record the end of an attempt, and what happens to its task."""
        self._note("ended", task=self._tasks[settled.task], end=plain_ended(end), settled=_plain_settled(settled))

    def refused(self, settled: Settled) -> None:
        """Record a task that failed without an attempt."""
        self._note("refused", task=self._tasks[settled.task], settled=_plain_settled(settled))

    def machine_lost(self, machine: int, now: float) -> None:
        """Record that a machine was lost."""
        self._note("machine lost", node=self._nodes[machine], time=now)

    def finish(self, reason: str, now: float) -> None:
        """Record that the pilot has finished, and sync the file to disk."""
        self._note("bye", reason=reason, time=now)
        self.commit()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._error(error) from None

    def commit(self) -> None:
        """Write everything since the last commit."""
        if not self._lines:
            return
        data = "".join([f"{line}\n" for line in self._lines]).encode()
        self._lines.clear()
        try:
            while data:  # one call writes all of it, unless the disk is full
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise self._error(error) from None

    def close(self) -> None:
        """Close the file, discarding what was not committed."""
        os.close(self._descriptor)

    def _note(self, event: str, **facts: object) -> None:
        self._lines.append(json.dumps({"event": event, **facts}))

    def _written(self, decision: Decision) -> str:
        """Return a decision as JSON, cached because many attempts share a few."""
        known = self._decisions.get(id(decision))
        if known is None:
            if len(self._decisions) >= _REMEMBERED:
                self._decisions.clear()
            known = decision, json.dumps(plain_decision(decision))
            self._decisions[id(decision)] = known  # the decision is kept alive, so that no other object gets its id
        return known[1]

    def _error(self, error: OSError) -> TonnageError:
        return TonnageError(f"{self.path}: the ledger cannot be written: {error.strerror or error}")


class LedgerReader:
    """Reads a ledger, even while it is being written or before it exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        """The number of unreadable lines, which are incomplete because a writer was killed."""
        self._offset = 0

    def new(self) -> list[Entry]:
        """Return the entries that were completed since the last call."""
        try:
            with self.path.open("rb") as file:  # reopened, so that a network file system shows current content
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TonnageError(f"{self.path}: the ledger cannot be read: {error.strerror or error}") from None
        complete = data.rpartition(b"\n")[0]
        if not complete and not data.startswith(b"\n"):
            return []
        self._offset += len(complete) + 1
        entries = [self._entry(line) for line in complete.split(b"\n") if line]
        return [entry for entry in entries if entry is not None]

    def _entry(self, line: bytes) -> Entry | None:
        try:
            facts = json.loads(line)
            return _READERS[facts["event"]](facts)
        except (ValueError, TypeError, KeyError, RecursionError):
            self.skipped += 1
            return None


def _plain_settled(settled: Settled) -> list[object]:
    return [settled.task, int(settled.state), settled.reason]


def _settled(plain: list[Any]) -> Settled:
    task, state, reason = plain
    return Settled(task, State(state), reason)


_READERS: dict[str, Callable[[dict[str, Any]], Entry]] = {
    "started": lambda one: AttemptStarted(
        one["task"], one["node"], one["time"], restore_start(one["start"], one["decisions"])
    ),
    "adjusted": lambda one: AttemptAdjusted(
        one["time"], Adjustment(**{**one["change"], "action": Action(one["change"]["action"])})
    ),
    "ended": lambda one: AttemptEnded(one["task"], restore_ended(one["end"]), _settled(one["settled"])),
    "refused": lambda one: TaskRefused(one["task"], _settled(one["settled"])),
    "machine lost": lambda one: MachineLost(one["node"], one["time"]),
    "bye": lambda one: PilotFinished(one["reason"], one["time"]),
}
