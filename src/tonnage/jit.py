"""Hot loops: plain Python functions, compiled by numba if the input is large.

Importing numba and loading a compiled kernel takes most of a second, so small inputs use the plain function. A kernel
can call other plain functions of its module by name: they are compiled with it. numba is an extra (``fast``): without
it, large inputs use the plain functions too, which is slow, and a warning is logged once.
"""

import logging
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

__all__ = ["COMPILE_FROM", "compiled"]

COMPILE_FROM = 10_000
"""From this many tasks on, compiling pays off."""

_log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R], size: int, *, allocates: bool = True) -> Callable[P, R]:
    """Return `function` itself for a small input, or its compiled version for a large one.

    A function that does not allocate arrays is faster with `allocates` false: no references are counted, which
    otherwise dominates if small functions call each other.
    """
    if size < COMPILE_FROM or not _has_numba():
        return function
    return cast("Callable[P, R]", _compiled(function, allocates))


@cache
def _has_numba() -> bool:
    try:
        import numba  # noqa: F401
    except ImportError:
        _log.warning("large workflows and queues are slow without numba: pip install 'tonnage[fast]'")
        return False
    return True


@cache
def _compiled(function: Callable[..., object], allocates: bool) -> Callable[..., object]:
    import numba

    options: dict[str, Any] = {} if allocates else {"_nrt": False}
    whole = _with_compiled_helpers(function, allocates)
    try:
        compiled = numba.njit(cache=True, **options)(whole)
    except RuntimeError:  # neither the package's folder nor the user's is writable
        compiled = numba.njit(whole, **options)
    return cast(Callable[..., object], compiled)


def _with_compiled_helpers(function: Callable[..., object], allocates: bool) -> Callable[..., object]:
    """Return a copy of a function that calls compiled versions of its module's other functions."""
    code, names = function.__code__, function.__globals__
    called = {name: names.get(name) for name in code.co_names}
    helpers = {
        name: _compiled(other, allocates)
        for name, other in called.items()
        if isinstance(other, FunctionType) and other.__module__ == function.__module__ and other is not function
    }
    if not helpers:
        return function
    twin = FunctionType(code, {**names, **helpers}, function.__name__, function.__defaults__, function.__closure__)
    twin.__qualname__ = function.__qualname__
    return twin
