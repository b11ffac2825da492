"""What the user wants of a run while it goes on: signals that came."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["StopSignals", "heard"]


@dataclass(slots=True)
class StopSignals:
    """What is to be done about running tasks."""

    finish: bool = False
    """Start nothing more, and let them finish."""
    kill: bool = False
    """End them."""
    signal: int | None = None
    """The last signal."""


@contextmanager
def heard(wishes: StopSignals) -> Iterator[None]:
    """Turn signals into wishes: the first Ctrl-C lets running tasks finish, the second ends them, as others do."""

    def hear(number: int, _frame: FrameType | None) -> None:
        wishes.kill = wishes.finish or number != signal.SIGINT
        wishes.finish = True
        wishes.signal = number

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
