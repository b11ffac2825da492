"""Stopping a whole tree of processes."""

import os
from _signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from time import monotonic, sleep

from tonnage.watch.proc import Process, children
from tonnage.watch.tree import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container

__all__ = ["ask_tree_to_end", "kill_tree", "signal_tree"]

_GIVE_UP = 10.0  # seconds without progress: a process of another user, or stuck in the kernel


def kill_tree(reap: "Callable[[], bool]", *, spare: "Container[int]" = (), patience: float = _GIVE_UP) -> int:
    """Kill every descendant of this process; return how many could not be killed.

    `reap` waits for children that ended and tells whether any are left. Children to `spare` live on, with all that is
    below them. After so many seconds of `patience` without progress, what is left is given up.
    """
    left, since, pause = -1, monotonic(), 0.0005
    with_priority = _raise_priority()
    while True:
        stopped = _stop_all(spare)
        for pid in stopped:
            _signal(pid, SIGKILL)
        if not reap():
            break
        if len(stopped) != left:
            left, since = len(stopped), monotonic()
        elif monotonic() - since > patience:
            break
        sleep(pause)
        pause = min(0.02, 2 * pause)
    if with_priority is not None:
        os.setpriority(os.PRIO_PROCESS, 0, with_priority)
    return left if reap() else 0


def _raise_priority() -> "int | None":
    """Get in front of a thousand busy processes, where we may; return the priority to go back to."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        return None
    return before


def ask_tree_to_end() -> None:
    """Ask every descendant of this process to end by itself."""
    signal_tree(SIGTERM)
    signal_tree(SIGCONT)  # one that is stopped could not hear it


def signal_tree(number: int) -> None:
    """Send a signal to every descendant of this process."""
    for process in descendants():
        _signal(process.pid, number)


def _stop_all(spare: "Container[int]") -> "list[int]":
    """Stop every living process but those to spare; return them.

    Each is told to stop before its children are listed, so that hardly any can be started behind our back: one way
    through the tree finds nearly all, however fast it grows.
    """
    stopped = []
    waiting = [pid for pid in children(os.getpid()) if pid not in spare]
    for pid in waiting:  # grows while it is gone through
        _signal(pid, SIGSTOP)
        process = Process.of(pid)
        if process is None:
            continue
        if not process.ended:
            stopped.append(pid)
        waiting.extend(children(pid, process.threads))
    return stopped


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # it ended, or belongs to somebody else
