"""Hot loops: one plain Python function each, compiled by numba where the input is large.

Importing numba and loading a compiled kernel takes most of a second, so a small input runs the function as it is.
"""

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar, cast

__all__ = ["COMPILE_FROM", "fast"]

COMPILE_FROM = 10_000
"""From this many tasks on, compiling pays."""

P = ParamSpec("P")
R = TypeVar("R")


def fast(function: Callable[P, R], size: int) -> Callable[P, R]:
    """Return `function` itself for a small input, its compiled twin for a large one."""
    return function if size < COMPILE_FROM else cast(Callable[P, R], _compiled(function))


@cache
def _compiled(function: Callable[..., object]) -> Callable[..., object]:
    import numba

    try:
        compiled = numba.njit(cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's can be written to
        compiled = numba.njit(function)
    return cast(Callable[..., object], compiled)
