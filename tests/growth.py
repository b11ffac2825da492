"""Checks that work grows linearly with its input, not quadratically: a ratio, the same on a slow machine."""

from collections.abc import Callable
from time import process_time

__all__ = ["grows_linearly"]

_TIMES = 8  # linear work takes 8 times as long, quadratic work 64 times
_MOST = 24
_NOTHING = 0.005  # seconds of CPU; shorter times are noise


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether eight times the size takes about eight times as long, in CPU seconds."""
    small, large = (min(_seconds(work, one) for _ in range(3)) for one in (size, _TIMES * size))
    return large <= _MOST * max(small, _NOTHING)


def _seconds(work: Callable[[int], object], size: int) -> float:
    begin = process_time()
    work(size)
    return process_time() - begin
