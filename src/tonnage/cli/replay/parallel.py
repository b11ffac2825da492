"""Run long replays on all cores, with a progress bar."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

__all__ = ["all_cores", "on_all_cores", "progress"]

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def all_cores() -> "Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]":
    """Yield a `map` that spreads its work over all cores; with a single core it is the built-in one."""
    from tonnage.die_with_parent import become_a_child

    with _pool(become_a_child) as pool:
        yield map if pool is None else pool.map


@contextmanager
def on_all_cores(function: "Callable[[T], R]") -> "Iterator[Callable[[Iterable[T]], Iterable[R]]]":
    """Yield a `map` of one function, which can hold a lot of data: it is sent to each process only once."""
    with _pool(_keep, function) as pool:
        yield partial(map, function) if pool is None else partial(pool.map, _kept)


@contextmanager
def _pool(initializer: "Callable[..., None]", *values: object) -> "Iterator[ProcessPoolExecutor | None]":
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    pool = ProcessPoolExecutor(cores, mp_context=get_context("spawn"), initializer=initializer, initargs=values)
    try:
        yield pool
    except BaseException:
        for child in active_children():
            child.terminate()  # rather than wait for results that will not be used
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_functions: "list[Callable[[Any], Any]]" = []
"""The function that this worker process was started for."""


def _keep(function: "Callable[[Any], Any]") -> None:
    from tonnage.die_with_parent import become_a_child

    become_a_child()
    _functions.append(function)


def _kept(value: Any) -> Any:  # noqa: ANN401 (what the function takes and returns)
    return _functions[-1](value)


@contextmanager
def progress(steps: int) -> "Iterator[Callable[[], None]]":
    """Show a progress bar if standard error is a terminal; yield the function that advances it."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("Simulating", total=steps)
        yield lambda: shown.advance(task)
