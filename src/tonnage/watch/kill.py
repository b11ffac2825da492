"""Stopping a whole tree of processes."""

import os
from _signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from time import monotonic, sleep

from tonnage.watch.tree import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tonnage.watch.proc import Process

__all__ = ["ask_tree_to_end", "kill_tree", "signal_tree"]

_GIVE_UP = 10.0  # seconds without progress: a process of another user, or stuck in the kernel


def kill_tree(reap: "Callable[[], bool]") -> int:
    """Kill every descendant of this process; return how many could not be killed.

    `reap` waits for children that ended and tells whether any are left. All are stopped before any is killed: one
    that sees its children die could otherwise start new ones.
    """
    left, since, pause = -1, monotonic(), 0.0005
    while True:
        living = _stop_all()
        for process in living:
            _signal(process.pid, SIGKILL)
        if not reap():
            return 0
        if len(living) != left:
            left, since = len(living), monotonic()
        elif monotonic() - since > _GIVE_UP:
            return left
        sleep(pause)
        pause = min(0.02, 2 * pause)


def ask_tree_to_end() -> None:
    """Ask every descendant of this process to end by itself."""
    signal_tree(SIGTERM)
    signal_tree(SIGCONT)  # one that is stopped could not hear it


def signal_tree(number: int) -> None:
    """Send a signal to every descendant of this process."""
    for process in _living():
        _signal(process.pid, number)


def _stop_all() -> "list[Process]":
    """Stop every process, and again until no new one is found; return them."""
    stopped: set[tuple[int, int]] = set()
    while True:
        living = _living()
        new = [process for process in living if (process.pid, process.started) not in stopped]
        if not new:
            return living
        for process in new:
            _signal(process.pid, SIGSTOP)
            stopped.add((process.pid, process.started))


def _living() -> "list[Process]":
    return [process for process in descendants() if process.state not in b"ZX"]


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # it ended, or belongs to somebody else
