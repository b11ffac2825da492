"""Waits for a condition, however long that takes on a busy machine."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.deadlines import HANGS
from tonnage.errors import TonnageError

__all__ = ["until", "written"]

_Found = TypeVar("_Found")


def until(look: Callable[[], _Found | None], what: str = "it") -> _Found:
    """Call `look` repeatedly until it finds something, and return that.

    What is still being written may not be readable yet: an error of Tonnage means that there is nothing so far.
    """
    deadline, error = time.monotonic() + HANGS, None
    while True:
        try:
            if found := look():
                return found
        except TonnageError as problem:
            error = problem
        assert time.monotonic() < deadline, f"{what} does not happen{f': {error}' if error else ''}"
        time.sleep(0.01)


def written(path: Path) -> str:
    """Wait until a file ends with a whole line, and return its text: a file exists before anything is in it."""

    def look() -> str | None:
        text = path.read_text() if path.exists() else ""
        return text if text.endswith("\n") else None

    return until(look, f"a line in {path}")
