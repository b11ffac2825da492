"""How much memory a tree of processes takes, whoever else uses the machine.

The sum of what each process has resident counts shared pages several times; the kernel's proportional share divides
the pages of a file by all processes that map it, so that a job would look smaller the more copies of it run. Here
anonymous pages are shared out among the processes that have them (parent and forked children), and the pages of a
file or of shared memory count once for the tree. That takes a close look, which is costly, so it is taken only when
the cheap sum shows that the peak, or the limit, may have been passed.
"""

import os
from time import process_time

from tonnage.watch.pace import Credit
from tonnage.watch.proc import Process, Share, mapped_files, share
from tonnage.watch.tree import Sample

__all__ = ["Memory"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LITTLE = 2**21
_NEAR = 0.97


class Memory:
    """Follows the memory of one tree."""

    def __init__(self, limit: "float | None") -> None:
        self.peak = 0
        self.peak_at: float | None = None
        self.method = "rss"
        self.now: int | None = None  # None: not looked at closely, and not above the peak
        self.most = 0  # what the tree takes now, at most
        self.beside = 0  # the most that was resident beside the largest process
        self._limit = float("inf") if limit is None else limit
        self._credit = Credit(0.1, 0.03)
        self._last = (0, 0, 0)  # the figure, the sum of resident memory and the faults of the last close look
        self._before: tuple[float, int] = (0.0, 0)  # time and sum of the last sample
        self._resident_at_peak = 0
        self._near_since = self._near_until = 0.0
        self._files: dict[tuple[int, int], tuple[int, dict[bytes, tuple[int, int]]]] = {}

    def see(self, sample: Sample, *, closely: bool = False) -> None:
        """Take in a sample; look closer where it may show a new peak or, in any case, if `closely`."""
        beside = sample.resident - sample.largest
        self.beside = max(self.beside, beside)
        self.most = self._at_most(sample)
        if beside <= max(_LITTLE, sample.resident // 100):
            self._found(sample, sample.resident, "rss")
        elif closely or self.most > self._limit or (self.most > self.peak and self._credit.available()):
            self._found(sample, self._look(sample), "pss")
        else:
            self.now = None
        if sample.resident >= _NEAR * self._resident_at_peak:
            self._near_until = sample.at
        self._before = (sample.at, sample.resident)

    @property
    def lasted(self) -> float:
        """For how many seconds samples in a row were about as high as the peak."""
        return self._near_until - self._near_since

    def _at_most(self, sample: Sample) -> int:
        """Return what the tree can have at most: since the last close look, only new and copied pages were added."""
        figure, resident, faults = self._last
        added = max(0, sample.resident - resident) + max(0, sample.faults - faults) * _PAGE
        return min(sample.resident, figure + added)

    def _found(self, sample: Sample, figure: int, method: str) -> None:
        self.now = self.most = figure
        if figure > self.peak:
            self.peak, self.peak_at, self.method = figure, sample.at, method
            if self._before[1] < _NEAR * sample.resident:
                self._near_since = sample.at
            self._resident_at_peak = sample.resident

    def _look(self, sample: Sample) -> int:
        """Return the tree's memory, looked at closely: anonymous pages shared out, others once."""
        begin = process_time()
        shares = {process: found for process in sample.processes if (found := _share(process))}
        figure = sum(found.anonymous for found in shares.values())
        others = [found.other for found in shares.values()]
        little = sum(others) - max(others, default=0) <= _LITTLE
        figure += sum(others) if little else self._once(shares)
        self._last = (figure, sample.resident, sample.faults)
        self._credit.spend(process_time() - begin)
        return figure

    def _once(self, shares: "dict[Process, Share]") -> int:
        """Return the bytes of files and of shared memory that the tree has resident, each counted once.

        Both the largest process's part of a mapping and the sum of the proportional parts are below the truth:
        the first where processes use different pages of a file, the second where processes of others use them too.
        """
        known, self._files = self._files, {}
        largest: dict[bytes, int] = {}
        parts: dict[bytes, int] = {}
        steady = True
        for process, found in shares.items():
            mark = (process.pid, process.started)
            size, mappings = known.get(mark, (-1, {}))
            if size != found.other:
                size, mappings = found.other, mapped_files(process.pid)
                # While mappings grow, the parts of processes that are read one after the other do not fit together.
                steady = steady and abs(sum(whole for whole, _ in mappings.values()) - size) <= max(_LITTLE, size // 50)
            else:
                steady = False
            self._files[mark] = (size, mappings)
            for key, (whole, part) in mappings.items():
                largest[key] = max(largest.get(key, 0), whole)
                parts[key] = parts.get(key, 0) + part
        return sum(max(whole, parts[key] if steady else 0) for key, whole in largest.items())


def _share(process: Process) -> "Share | None":
    """Look closely at one process; the resident memory of one that is closed to us counts in full."""
    found = share(process.pid)
    if found is not None:
        return found
    still = Process.of(process.pid)
    return Share(still.resident, 0) if still else None
