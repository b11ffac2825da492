"""Worker processes that end when the process that started them does; apart because both serve and cli use it."""

import os
import signal
from multiprocessing import parent_process
from threading import Thread

__all__ = ["become_a_child"]


def become_a_child() -> None:
    """Leave Ctrl-C to the process that started this one, and end when it is gone, whatever ended it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the first process, which then ends the others
    Thread(target=_end_with_the_first, daemon=True).start()


def _end_with_the_first() -> None:
    first = parent_process()
    if first is not None:
        first.join()
        os._exit(1)
