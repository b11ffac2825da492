"""Waits for a condition, however long that takes on a busy machine."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.deadlines import HANGS

__all__ = ["until"]

_Found = TypeVar("_Found")


def until(look: Callable[[], _Found | None]) -> _Found:
    """Call `look` repeatedly until it finds something, and return that."""
    deadline = time.monotonic() + HANGS
    while not (found := look()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)
    return found
