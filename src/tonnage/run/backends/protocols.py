"""What whoever drives an engine needs: hands that carry out orders, and a book in which everything is written."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from tonnage.run.events import Ended, Settled, Start
from tonnage.run.minders import Answer, Order, Seen

__all__ = ["AttemptStarter", "EventWriter"]


class AttemptStarter(Protocol):
    """Run commands: minders on this machine, or agents on several."""

    def start(self, orders: Iterable[Order]) -> None:
        """Carry out orders; what `wait` has returned before is safe by now."""

    def stop(self, attempt: int) -> None:
        """Kill all processes of an attempt that runs; its answer follows."""

    def wait(self, seconds: float | None = None) -> list[Answer | Seen]:
        """Return all that has arrived, as soon as there is something, or after some time."""


class EventWriter(Protocol):
    """Where everything is written before anybody acts on it: a journal, or the ledger of a batch job."""

    def started(self, starts: Sequence[Start], now: float) -> None:
        """Note attempts that are about to start."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """Note the end of an attempt, and what becomes of its task."""

    def refused(self, settled: Settled) -> None:
        """Note a task that was given up without an attempt."""

    def commit(self) -> None:
        """Make certain what was noted since the last time."""
