"""Futures of submitted tasks, which also know what each attempt was allocated and what it used."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tonnage.errors import TaskFailedError
from tonnage.files import tail
from tonnage.jobs import NOTHING_KNOWN, Amounts, Decision, Outcome
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.failed_tasks import reason_for

__all__ = ["Finished", "TaskFuture", "Tried", "failure", "finished"]

_T = TypeVar("_T")
_TAIL = 2_000  # bytes from the end of a task's standard error that are repeated in an error


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt of a task: what it was allocated and why, how it ended, what it used."""

    number: int
    """Which attempt of its task this is, counted from 1."""
    decisions: tuple[Decision, ...]
    allocated: Amounts
    outcome: Outcome
    used: Amounts
    note: str
    """What went wrong."""
    stdout: Path | None
    """The file with its standard output; None if it printed nothing."""
    stderr: Path | None

    @classmethod
    def of(cls, start: Start, end: Ended) -> "Tried":
        """Combine the start and the end of an attempt."""
        places = (None if name is None else Path(name) for name in (end.stdout, end.stderr))
        return cls(start.number, start.decisions, start.allocated, end.outcome, end.used, end.note, *places)


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that succeeded."""

    exit_status: int
    stdout: Path | None
    """The file with its standard output; None if it printed nothing."""
    stderr: Path | None

    @property
    def text(self) -> str:
        """Its standard output."""
        return "" if self.stdout is None else self.stdout.read_text(encoding="utf-8", errors="replace")


class TaskFuture(Future[_T]):
    """The future of a task: its result, and what is known about its attempts."""

    def __init__(
        self,
        name: str,
        category: str,
        collect: Callable[[Ended, Settled], _T],
        cancelled: "Callable[[TaskFuture[Any]], None]",
    ) -> None:
        """Create a future; `collect` returns the result or raises an error, `cancelled` is called on cancellation."""
        super().__init__()
        self.name = name
        """The name of the task in the journal, the archive and `tonnage status`."""
        self.category = category
        self.attempts: tuple[Tried, ...] = ()
        """The finished attempts."""
        self._collect = collect
        self._on_cancel = cancelled
        self._attempt: int | None = None

    @property
    def usage(self) -> Amounts:
        """What the last finished attempt used: the successful one, if there is one."""
        return self.attempts[-1].used if self.attempts else NOTHING_KNOWN

    def running(self) -> bool:
        """Whether an attempt is running."""
        return self._attempt is not None and not self.done()

    def cancel(self) -> bool:
        """Cancel the task: a waiting one never starts, and the processes of a running one are killed.

        Returns False if the task had already finished. Unlike other executors, this one can cancel running tasks.
        """
        if not super().cancel():
            return False
        self._on_cancel(self)
        return True

    # Called only by the thread of the run that the task belongs to.

    def began(self, start: Start) -> None:
        """Note that an attempt started."""
        self._attempt = start.attempt

    def tried(self, start: Start, end: Ended) -> None:
        """Note that an attempt ended."""
        self._attempt = None
        self.attempts = (*self.attempts, Tried.of(start, end))

    def settle(self, end: Ended, settled: Settled) -> None:
        """Set the result, or the exception if there is none."""
        try:
            value = self._collect(end, settled)
        except BaseException as error:
            self.fail(error)
            return
        with self._unless_cancelled():
            self.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Set the exception."""
        with self._unless_cancelled():
            self.set_exception(error)

    @contextmanager
    def _unless_cancelled(self) -> Iterator[None]:
        try:
            yield
        except InvalidStateError:  # it was cancelled in the meantime
            self.set_running_or_notify_cancel()


def finished(end: Ended, settled: Settled) -> Finished:
    """Return the result of a command; raises TaskFailedError if it failed."""
    if settled.state is not State.DONE:
        raise failure(end, settled)
    stdout, stderr = (None if name is None else Path(name) for name in (end.stdout, end.stderr))
    return Finished(end.exit_status or 0, stdout, stderr)


def failure(end: Ended, settled: Settled) -> TaskFailedError:
    """Return the error of a failed task: why it failed, and the end of its standard error."""
    message = reason_for(end, settled) or "the task failed"
    printed = "" if end.stderr is None else tail(Path(end.stderr), _TAIL).rstrip()
    return TaskFailedError(f"{message}\n{printed}" if printed else message)
