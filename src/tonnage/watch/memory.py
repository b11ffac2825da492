"""Memory use of a process tree, independent of what else runs on the machine.

The sum of resident memory over processes counts shared pages several times; the kernel's proportional share divides
the pages of a file by all processes that map it, so that a job would look smaller the more copies of it run. Here,
anonymous pages are divided among the processes that have them (a parent and its forked children), and pages of files
or shared memory count once for the tree. That takes a close look, which is expensive, so it is only taken when the
cheap sum shows that the peak or the limit may have been passed.
"""

import os
from time import process_time

from tonnage.watch.proc import Mapping, Process, Share, mapped_files, not_anonymous, program, share
from tonnage.watch.sampling import Credit
from tonnage.watch.tree import Sample

__all__ = ["Memory"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LITTLE = 2**21
# The kernel counts resident pages per CPU and adds them up only occasionally; sums can be off by this much.
_CPUS = os.cpu_count() or 1
_COUNTING_ERROR = _CPUS * max(32, 2 * _CPUS) * _PAGE
_NOWHERE = Mapping(b"", 2**63, 2**63, 0, 0)
_FEW = 2**24
_NEAR = 0.97
_GROWING = 1.02


class _Look:
    """The result of a close look, with the cheap sums at that time."""

    __slots__ = ("faults", "figure", "processes", "resident", "shared")

    def __init__(
        self, processes: "frozenset[tuple[int, int]]", figure: int, resident: int, shared: int, faults: int
    ) -> None:
        self.processes = processes
        self.figure = figure
        self.resident = resident
        self.shared = shared
        self.faults = faults


class Memory:
    """Tracks the memory of one process tree."""

    def __init__(self, limit: "float | None") -> None:
        self.peak = 0
        self.peak_at: float | None = None
        self.method = "rss"
        self.now: int | None = None  # None: not looked at closely, and not above the peak
        self.most = 0  # upper bound of what the tree uses now
        self.beside = 0  # peak resident memory of all but the largest process
        self.largest = 0  # peak resident memory of one process
        self._limit = float("inf") if limit is None else limit
        self._credit = Credit(0.1, 0.03)
        self.latest: int | None = None  # the last figure found
        self.overlooked = 0  # upper bound of the tree's memory when there was no time for a close look
        self._last = _Look(frozenset(), 0, 0, 0, 0)
        self._lowest = 0  # the lowest sum of resident memory since the last close look
        self._faults = 0  # page faults until then
        self._before = 0  # the sum of the last sample
        self._resident_at_peak = 0
        self._near_since = self._near_until = 0.0
        self._files: dict[tuple[int, int], tuple[int, list[Mapping]]] = {}

    @property
    def at_most(self) -> "int | None":
        """What the tree uses now, or an upper bound if there was no time for a close look; None if it is ending."""
        return self.most if self.now is None and self.latest is not None else self.now

    def see(self, sample: Sample, *, closely: bool = False) -> None:
        """Add a sample; look closely if it may show a new peak, or in any case with `closely`."""
        beside = sample.resident - sample.largest
        self.beside = max(self.beside, beside)
        self.largest = max(self.largest, sample.largest)
        self._lowest = min(self._lowest, sample.resident)
        self.most = self._at_most(sample)
        if not sample.processes:
            self.now = self.latest = None
        elif self._sure(sample, beside):
            self._found(sample, sample.resident, "rss")
        elif closely or self.most > self._limit:
            self._found(sample, self._look(sample), "pss")
        elif self.most <= self.peak:
            self.now = None
        else:
            self._see_more(sample)
        if sample.resident >= _NEAR * self._resident_at_peak:
            self._near_until = sample.at
        self._before = sample.resident

    def _see_more(self, sample: Sample) -> None:
        """Add a sample that may show a new peak: while memory grows, there is no time for a close look."""
        growing = sample.resident > self._before * _GROWING
        inferred = self._inferred(sample) if growing or not self._credit.available() else None
        if inferred is not None:
            self._found(sample, inferred, "pss")
        elif self._credit.available():
            self._found(sample, self._look(sample), "pss")
        else:
            self.now = None
            self.overlooked = max(self.overlooked, self.most)

    def _sure(self, sample: Sample, beside: int) -> bool:
        """Whether the sum of resident memory is the figure: one process has nearly all of it, and shares little."""
        if beside + _COUNTING_ERROR > max(_LITTLE, sample.resident // 100):
            return False
        if sample.resident <= max(self.peak, _LITTLE):
            return True
        if sample.resident > self._limit >= sample.resident - _COUNTING_ERROR:
            return False
        other, resident = not_anonymous(max(sample.processes, key=lambda process: process.resident).pid)
        return resident > 0 and other <= max(2 * _LITTLE, resident // 20)  # 0: just ended

    @property
    def lasted(self) -> float:
        """For how many seconds successive samples stayed close to the peak."""
        return self._near_until - self._near_since

    def _at_most(self, sample: Sample) -> int:
        """Return an upper bound: since the last close look, only new and copied pages can have been added."""
        copied = max(0, sample.faults - self._faults) * _PAGE
        return min(sample.resident, self._last.figure + sample.resident - self._lowest + copied)

    def _inferred(self, sample: Sample) -> "int | None":
        """Return the tree's memory inferred from the last close look and what was added since; None if uncertain.

        It is certain while the processes are the same and what was added is new anonymous memory, hence not shared.
        """
        last = self._last
        added = sample.resident - last.resident
        copied = (sample.faults - last.faults) * _PAGE - added
        if not 0 <= added <= last.resident or copied > max(_FEW, added // 2) or _identities(sample) != last.processes:
            return None
        if abs(_shared(sample) - last.shared) > _LITTLE:
            return None
        return last.figure + added

    def _found(self, sample: Sample, figure: int, method: str) -> None:
        self.now = self.most = self.latest = figure
        if figure > self.peak:
            self.peak, self.peak_at, self.method = figure, sample.at, method
            if self._before < _NEAR * sample.resident:
                self._near_since = sample.at
            self._resident_at_peak = sample.resident

    def _look(self, sample: Sample) -> int:
        """Return the tree's memory from a close look: anonymous pages divided among their owners, others once."""
        begin = process_time()
        figure = self._figure(sample.processes)
        shared = _shared(sample)  # before the sums: pages mapped in between then count as a change
        after = {process: now for process in sample.processes if (now := Process.of(process.pid))}
        # If a process ended or executed another program meanwhile, what it shared now belongs to others and may have
        # been counted with both.
        staying = [process for process, now in after.items() if now.resident >= 0.9 * process.resident]
        if len(staying) < len(sample.processes):
            figure = min(figure, self._figure(staying))
        # Use the sums after the look: pages added meanwhile are in the figure.
        resident = sum(now.resident for now in after.values())
        faults = sample.faults + sum(now.faults - process.faults for process, now in after.items())
        self._last = _Look(_identities(sample), figure, resident, shared, faults)
        # Pages added during the look may be missing from the figure, so the bound starts before the look.
        self._lowest, self._faults = sample.resident, sample.faults
        self._credit.spend(process_time() - begin)
        return figure

    def _figure(self, processes: "list[Process]") -> int:
        shares = {process: found for process in processes if (found := _share(process))}
        others = sum(found.other for found in shares.values())
        once = others if others <= _LITTLE else self._once(shares)
        return once + sum(found.anonymous for found in shares.values())

    def _once(self, shares: "dict[Process, Share]") -> int:
        """Return the resident bytes of files and shared memory in the tree, each page counted once."""
        mappings, old, growing = self._mappings(shares)
        doubtful = {
            process
            for group in mappings.values()
            if not old.isdisjoint(process for process, _ in group)
            and _resident(group, steady=True) > _resident(group, steady=False) + _LITTLE
            for process, _ in group
        }
        if doubtful:
            # Processes use different pages of a file, and values read at different times do not add up.
            for process in doubtful:
                del self._files[process.pid, process.started]
            mappings, old, growing = self._mappings(shares)
        return sum(
            _resident(group, steady=not growing and old.isdisjoint(process for process, _ in group))
            for group in mappings.values()
        )

    def _mappings(
        self, shares: "dict[Process, Share]"
    ) -> "tuple[dict[bytes, list[tuple[Process, Mapping]]], set[Process], bool]":
        """Return the mappings of each file, the processes whose mappings were read earlier, and whether any grow.

        Mappings are read again only for processes whose sum has changed since the last look.
        """
        known, self._files = self._files, {}
        alike: dict[object, list[Mapping]] = {}
        mappings: dict[bytes, list[tuple[Process, Mapping]]] = {}
        old, growing = set(), False
        for process, found in shares.items():
            mark = (process.pid, process.started)
            size, mapped = known.get(mark, (-1, []))
            if size == found.other:
                old.add(process)
            else:
                size, mapped = found.other, _mapped(process, found, alike)
                growing = growing or abs(sum(one.resident for one in mapped) - size) > max(_LITTLE, size // 50)
            self._files[mark] = (size, mapped)
            for one in mapped:
                mappings.setdefault(one.file, []).append((process, one))
        return mappings, old, growing


def _mapped(process: Process, found: Share, alike: "dict[object, list[Mapping]]") -> "list[Mapping]":
    """Return a process's mappings; one is read for all that run the same program with no pages of their own."""
    if found.own > _LITTLE // 8:
        return mapped_files(process.folder)
    kind = (program(process.pid), found.other // (_LITTLE // 8))
    if kind not in alike:
        alike[kind] = mapped_files(process.folder)
    return alike[kind]


def _resident(mappings: "list[tuple[Process, Mapping]]", steady: bool) -> int:
    """Return how much of one file is resident, given which process has mapped what.

    Parts that overlap are the same pages. For such a range, both the largest process's resident part and the sum of the
    proportional parts are lower bounds: the first where processes use different pages, the second where processes
    outside the tree use them too. The sum is valid only while nothing changes (`steady`): values of different moments
    do not add up. A process may have mapped a range several times, so the result is capped by the range's length.
    """
    total, end = 0, -1
    start, largest, part = 0, dict[Process | None, int](), 0
    for process, one in [*sorted(mappings, key=lambda entry: entry[1].start), (None, _NOWHERE)]:
        if one.start >= end:
            total += min(end - start, max(max(largest.values(), default=0), part if steady else 0))
            start, largest, part = one.start, {}, 0
        end = max(end, one.end)
        largest[process] = largest.get(process, 0) + one.resident
        part += one.part
    return total


def _share(process: Process) -> "Share | None":
    """Look closely at one process; if it is not readable, its resident memory counts in full."""
    found = share(process.folder)
    if found is not None:
        return found
    still = Process.of(process.pid)
    return Share(still.resident, 0, 0) if still else None


def _identities(sample: Sample) -> "frozenset[tuple[int, int]]":
    return frozenset((process.pid, process.started) for process in sample.processes)


def _shared(sample: Sample) -> int:
    """Return the sum over processes of resident memory that belongs to files or is shared."""
    return sum(not_anonymous(process.pid)[0] for process in sample.processes)
