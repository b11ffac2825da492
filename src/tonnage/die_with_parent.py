"""Worker processes that end with the process that started them; a separate module because serve and cli use it."""

import os
import signal
from multiprocessing import parent_process
from threading import Thread

__all__ = ["become_a_child"]


def become_a_child() -> None:
    """Leave Ctrl-C to the parent process, and exit when that is gone for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent, which then stops the others
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
