"""Processes that do one thing for another, and end when that one does."""

import os
import signal
from multiprocessing import parent_process
from threading import Thread

__all__ = ["become_a_child"]


def become_a_child() -> None:
    """Leave Ctrl-C to the process that started this one, and end when it is gone, whatever ended it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses it means the first, which then ends the others
    Thread(target=_end_with_the_first, daemon=True).start()


def _end_with_the_first() -> None:
    first = parent_process()
    if first is not None:
        first.join()
        os._exit(1)
