"""What the kernel tells this process about itself, at next to no cost: before and after each command it is asked."""

import os

from tonnage.watch.proc import Gauge, io_bytes, read

__all__ = ["SelfProc"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


class SelfProc:
    """This process's own files in /proc, held open; to be made after the last fork."""

    def __init__(self) -> None:
        self._memory = Gauge("/proc/self/statm")
        self._moved = Gauge(f"/proc/self/task/{os.getpid()}/io")
        self._moved_by_all = Gauge("/proc/self/io")
        self.swap_exists = (read("/proc/swaps") or b"").count(b"\n") > 1
        """Whether there is anything to swap to."""
        self.moved: tuple[int, int] | None = None
        """What `moved_by_descendants` said last: it says the same until the next child is waited for."""
        self.moved_by_descendants()

    def resident(self) -> int:
        """Return the bytes that this process has resident."""
        words = self._memory.read().split(None, 2)
        return int(words[1]) * _PAGE if words else 0

    def moved_by_descendants(self) -> "tuple[int, int] | None":
        """Return the bytes read and written by all processes that this one has waited for.

        The kernel adds a waited child's bytes to its parent's account; what this process moved itself is subtracted.
        """
        own = io_bytes(self._moved.read())
        everything = io_bytes(self._moved_by_all.read())
        if own is None or everything is None:
            return None
        self.moved = everything[0] - own[0], everything[1] - own[1]
        return self.moved
