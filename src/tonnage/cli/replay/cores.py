"""Long replays: shared among all cores, and with a sign of how far they are."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["all_cores", "progress"]


@contextmanager
def all_cores() -> "Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]":
    """Share work among all cores; a single one does it itself."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    # Whoever presses Ctrl-C means this process, which then ends the others.
    ignored = (signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(cores, mp_context=get_context("spawn"), initializer=signal.signal, initargs=ignored)
    try:
        yield pool.map
    except BaseException:
        for child in active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def progress(steps: int) -> "Iterator[Callable[[], None]]":
    """Show how many steps are done, where somebody is looking."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("Simulating", total=steps)
        yield lambda: shown.advance(task)
