"""Every fork and exit of the command's processes, from the kernel's own records.

Sampling /proc misses processes that live between two samples. The kernel's performance events have a record for each
fork and each exit, and users may read those of their own descendants. The records gather in memory shared with the
kernel, where checking for new ones costs next to nothing, so the monitor soon notices that something is happening.
(A notification for each record would make every fork slower by a tenth.)
"""

import fcntl
import os
from mmap import PAGESIZE, mmap
from struct import Struct

from tonnage.watch.system import open_fork_records

__all__ = ["ForkEvents"]

_EXIT, _FORK, _LOST = 4, 7, 2
_POSITIONS = Struct("=QQ")  # how far the kernel wrote and how far we read, in the ring's first page
_POSITIONS_AT = 1024
_READ = Struct("=Q")  # the second of them: the only one that we may write
_READ_AT = 1032
_SETTLING = 1_000_000  # nanoseconds
_FOR_EVER = 2**63
_PAGES = (max(1, 2**15 // PAGESIZE), 1)
_MOST_CPUS = 64
_RECORD = Struct("=IHHIIIIQ")  # kind, flags, size, process, its parent, thread, its parent, time


class ForkEvents:
    """Counts the processes that this process and its descendants start.

    `complete` turns false when the kernel had to drop records; `total` is then a lower bound.
    """

    def __init__(self) -> None:
        """Start recording; raises OSError where that is not permitted."""
        self._rings: list[tuple[int, mmap]] = []
        try:
            for cpu in sorted(_cpus()):
                self._open(cpu)
        except OSError:
            self.close()
            raise OSError("fork records are not available") from None
        self.restart()

    def restart(self) -> None:
        """Reset all counts for the next command."""
        self._records()
        self._unordered: list[tuple[int, int]] = []
        self.complete = True
        self.total = 0
        self.most_living = 0
        self._living = 0

    def count(self, *, last: bool = False) -> bool:
        """Read the records that have arrived; return whether there were any. With `last`, no more will follow."""
        new = self._records()
        self.total += sum(kind == _FORK for _, kind in new)
        self._follow(new, last=last)
        if last and self._living != 0:
            self.complete = False  # records are missing: lost at the end, or of a more privileged program
        return bool(new)

    def _follow(self, new: "list[tuple[int, int]]", *, last: bool) -> None:
        """Track how many processes are alive.

        A process may start on one CPU and end on another, so the newest records are held back until those that belong
        between them have been read from the other rings.
        """
        records = sorted(self._unordered + new)
        until = records[-1][0] - _SETTLING if new and not last else _FOR_EVER
        self._unordered = [record for record in records if record[0] > until]
        for time, kind in records:
            if time > until:
                break
            self._living += 1 if kind == _FORK else -1
            if self._living > self.most_living and self.complete:  # otherwise exits are missing among the records
                self.most_living = self._living

    def close(self) -> None:
        """Stop recording."""
        for descriptor, ring in self._rings:
            ring.close()
            os.close(descriptor)
        self._rings = []

    def _open(self, cpu: int) -> None:
        descriptor = open_fork_records(cpu, PAGESIZE // 2)
        ring = _map_ring(descriptor)
        self._rings.append((descriptor, ring))
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)

    def _records(self) -> "list[tuple[int, int]]":
        """Return the time and kind of each fork and exit of a process, and free their space in the rings."""
        found = []
        for _, ring in self._rings:
            head, tail = _POSITIONS.unpack_from(ring, _POSITIONS_AT)
            if head == tail:
                continue
            records = _unpacked(_between(ring, tail, head))
            _READ.pack_into(ring, _READ_AT, head)
            # Skip threads: their fork names their own process as the parent, their exit a thread that is not the first.
            found += [
                (time, kind)
                for kind, _, _, process, parent, thread, _, time in records
                if (kind == _FORK and process != parent) or (kind == _EXIT and process == thread)
            ]
            if any(record[0] == _LOST for record in records):
                self.complete = False
        return found


def _between(ring: mmap, tail: int, head: int) -> bytes:
    """Return the bytes that the kernel has written since we last read."""
    size = len(ring) - PAGESIZE
    start, end = PAGESIZE + tail % size, PAGESIZE + head % size
    return ring[start:end] if start < end else ring[start:] + ring[PAGESIZE:end]


def _unpacked(data: bytes) -> "list[tuple[int, ...]]":
    """Parse records from bytes; forks and exits have the same size, and other kinds may be in between."""
    if len(data) % _RECORD.size == 0:
        records = list(_RECORD.iter_unpack(data))
        if all(record[2] == _RECORD.size for record in records):
            return records
    records, at = [], 0
    while at < len(data):
        records.append(_RECORD.unpack_from(data + bytes(_RECORD.size), at))
        at += records[-1][2]
    return records


def _map_ring(descriptor: int) -> mmap:
    """Map as large a ring as permitted: the memory for all rings of one user is small."""
    for pages in _PAGES:
        try:
            return mmap(descriptor, (1 + pages) * PAGESIZE)
        except OSError:
            continue
    os.close(descriptor)
    raise OSError("no ring could be mapped")


def _cpus() -> "set[int]":
    """Return the CPUs on which our descendants may run.

    Each process inherits an event on each of them, which slows its start: by a third with hundreds of CPUs. An
    inherited event can also be opened to write into the ring of another, but CPUs that write into one ring at the same
    time overwrite each other's records (we tried: half of them were lost).
    """
    cpus = os.sched_getaffinity(0)
    if len(cpus) > _MOST_CPUS:
        raise OSError("too many CPUs")
    return cpus
