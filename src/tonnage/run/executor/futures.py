"""What becomes of a task that was submitted: futures that also tell what their tasks were given and what they used."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tonnage.errors import TonnageError
from tonnage.jobs import NOTHING_KNOWN, Amounts, Decision, Outcome
from tonnage.run.events import Ended, Settled, Start, State

__all__ = ["Finished", "TaskFailedError", "TaskFuture", "Tried", "failure", "finished"]

_T = TypeVar("_T")
_TAIL = 2_000  # bytes of what a task complained about that are worth repeating


class TaskFailedError(TonnageError):
    """A task was given up: says why, and what it wrote last to its standard error."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt of a task: what it was given and why, how it ended, what it used."""

    number: int
    """Which attempt of its task this is, from 1."""
    decisions: tuple[Decision, ...]
    allocated: Amounts
    outcome: Outcome
    used: Amounts
    note: str
    """What went wrong."""
    stdout: Path | None
    """The file with what it printed; None where it printed nothing."""
    stderr: Path | None

    @classmethod
    def of(cls, start: Start, end: Ended) -> "Tried":
        """Return an attempt from its start and its end."""
        places = (None if name is None else Path(name) for name in (end.stdout, end.stderr))
        return cls(start.number, start.decisions, start.allocated, end.outcome, end.used, end.note, *places)


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that succeeded."""

    exit_status: int
    stdout: Path | None
    """The file with what it printed; None where it printed nothing."""
    stderr: Path | None

    @property
    def text(self) -> str:
        """What it printed."""
        return "" if self.stdout is None else self.stdout.read_text(encoding="utf-8", errors="replace")


class TaskFuture(Future[_T]):
    """The future of a task: its result, and what is known of its attempts."""

    def __init__(
        self,
        name: str,
        category: str,
        collect: Callable[[Ended, Settled], _T],
        cancelled: "Callable[[TaskFuture[Any]], None]",
    ) -> None:
        """`collect` returns the result or raises why there is none; `cancelled` is called when it is cancelled."""
        super().__init__()
        self.name = name
        """What the task is called in the journal, the archive and `tonnage status`."""
        self.category = category
        self.attempts: tuple[Tried, ...] = ()
        """The attempts that have ended."""
        self._collect = collect
        self._tell = cancelled
        self._attempt: int | None = None

    @property
    def usage(self) -> Amounts:
        """What the last attempt used that has ended: the one that succeeded, if one has."""
        return self.attempts[-1].used if self.attempts else NOTHING_KNOWN

    def running(self) -> bool:
        """Whether an attempt runs at the moment."""
        return self._attempt is not None and not self.done()

    def cancel(self) -> bool:
        """Take the task back: one that waits never starts, and the processes of one that runs are ended.

        Returns whether it had not finished before. That it works while the task runs is more than other executors do.
        """
        if not super().cancel():
            return False
        self._tell(self)
        return True

    # For the run that the task belongs to: only its thread calls these.

    def began(self, start: Start) -> None:
        """Note that an attempt starts."""
        self._attempt = start.attempt

    def tried(self, start: Start, end: Ended) -> None:
        """Note that an attempt has ended."""
        self._attempt = None
        self.attempts = (*self.attempts, Tried.of(start, end))

    def settle(self, end: Ended, settled: Settled) -> None:
        """Set the result, or the reason why there is none."""
        try:
            value = self._collect(end, settled)
        except BaseException as error:
            self.fail(error)
            return
        with self._unless_cancelled():
            self.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Set the reason why there is no result."""
        with self._unless_cancelled():
            self.set_exception(error)

    @contextmanager
    def _unless_cancelled(self) -> Iterator[None]:
        try:
            yield
        except InvalidStateError:  # it was cancelled a moment ago
            self.set_running_or_notify_cancel()


def finished(end: Ended, settled: Settled) -> Finished:
    """Return what a command left behind, or raise why it failed."""
    if settled.state is not State.DONE:
        raise failure(end, settled)
    stdout, stderr = (None if name is None else Path(name) for name in (end.stdout, end.stderr))
    return Finished(end.exit_status or 0, stdout, stderr)


def failure(end: Ended, settled: Settled) -> TaskFailedError:
    """Return why a task was given up."""
    parts = [end.note, "" if settled.reason == "given up" else settled.reason]
    message = "; ".join(part for part in parts if part) or "it was given up"
    tail = "" if end.stderr is None else _tail(Path(end.stderr))
    return TaskFailedError(f"{message}\n{tail}" if tail else message)


def _tail(path: Path) -> str:
    """Return the last lines of a file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return (text if size <= _TAIL else text.partition("\n")[2] or text).rstrip()
