"""Disk use of a command: what it adds below a folder, plus files that are deleted but still open.

A folder may hold a million files, so it is scanned in pieces between samples, and scanned again only when the file
system's free space has changed or some time has passed.
"""

import os
from stat import S_ISREG
from time import monotonic, process_time, time

from tonnage.watch.sampling import Credit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonnage.watch.proc import Process

__all__ = ["Disk", "NoDisk"]

_BLOCK = 512  # st_blocks counts these, whatever the file system's own blocks are
_BEFORE_START = 0.010  # seconds of scanning that may delay the command
_FOR_EVER = float("inf")
_PIECE = 0.005  # seconds of scanning between two samples
_AT_THE_END = 0.1  # the final scan is skipped if it would take longer than this,
_PART_AT_THE_END = 0.02  # or than this fraction of the wall time
_STEP = 256  # folder entries between two chances to pause
_LITTLE = 2**20
_PRICE = 200  # without a sign of change, scans take at most 1/200 of the time
_NOT_ON_DISK = ("/memfd:", "/dev/shm/", "/SYSV", "/dev/zero")  # noqa: S108 (names of shared memory, not of temporary files)


class NoDisk:
    """Measures no disk use, at no cost: every figure is None, for unknown."""

    now: "int | None" = None
    peak: "int | None" = None
    peak_at: "float | None" = None
    files: "int | None" = None  # peak number of files and folders below the folder
    files_at: "float | None" = None
    open_files: "int | None" = None
    open_files_at: "float | None" = None
    at_start: "int | None" = None
    exact = False

    @property
    def scanning(self) -> bool:
        """Whether a scan is in progress."""
        return False

    def see(self, at: float, processes: "list[Process]") -> None:
        """Scan again if something may have changed."""

    def see_the_end(self, at: float) -> None:
        """Scan once more, after the last process has ended."""


class Disk(NoDisk):
    """Tracks the disk use of one command."""

    def __init__(self, folder: str, *, at_once: bool = True) -> None:
        """Record what is in the folder before the command starts; `at_once` delays the start only briefly.

        If that is too short to see everything, files changed since the start count as added, and `exact` is false.
        """
        self._folder = folder
        self._start = time()
        self._credit = Credit(0.05, 0.02)
        self._free = _free_space(folder)
        self._next = 0.0
        self._cost = 0.0
        self._scan: _Scan | None = None
        self._deleted = 0
        before = _Scan(folder, self._start)
        self.exact = before.work(_BEFORE_START if at_once else _FOR_EVER)
        if self.exact:
            self.at_start = before.size

    @property
    def scanning(self) -> bool:
        """Whether a scan is in progress."""
        return self._scan is not None

    def see(self, at: float, processes: "list[Process]") -> None:
        """Scan again if something may have changed, for a few milliseconds at most."""
        if self._scan is None:
            if not self._worth_a_look(at):
                return
            self._begin(at, processes)
        self._work(at, _PIECE)

    def see_the_end(self, at: float) -> None:
        """Scan once more, after the last process has ended."""
        self._deleted = 0
        if self._scan is None:
            if self._cost > _AT_THE_END:
                return
            self._begin(at, [])
        self._work(at, max(_AT_THE_END, _PART_AT_THE_END * at))

    def _worth_a_look(self, at: float) -> bool:
        if at >= self._next:
            return True
        # Less free space or more: other programs may delete files while the command writes.
        return abs(_free_space(self._folder) - self._free) >= _LITTLE and self._credit.available()

    def _begin(self, at: float, processes: "list[Process]") -> None:
        begin = process_time()
        self._free = _free_space(self._folder)
        self._scan = _Scan(self._folder, self._start)
        opened, self._deleted = _open_files(processes)
        if processes and (self.open_files is None or opened > self.open_files):
            self.open_files, self.open_files_at = opened, at
        self._cost = process_time() - begin
        self._credit.spend(self._cost)

    def _work(self, at: float, seconds: float) -> None:
        begin = process_time()
        scan = self._scan
        done = scan is not None and scan.work(seconds)
        spent = process_time() - begin
        self._cost += spent
        self._credit.spend(spent)
        if scan is None or not done:
            return
        self._scan = None
        if not scan.readable:
            return
        self._next = at + max(1.0, _PRICE * self._cost)
        if self.at_start is None:
            # There was no time for a scan before the start: files unchanged since then were there before.
            self.at_start = scan.size_before
        self.now = max(0, scan.size - self.at_start) + self._deleted
        if self.peak is None or self.now > self.peak:
            self.peak, self.peak_at = self.now, at
        if self.files is None or scan.entries > self.files:
            self.files, self.files_at = scan.entries, at


class _Scan:
    """One pass over a folder and everything below it on the same file system, in as many pieces as needed."""

    def __init__(self, folder: str, start: float) -> None:
        self.size = 0
        self.size_before = 0  # of files unchanged since `start`
        self.entries = 0
        self.readable = True
        self._start = start
        self._linked: set[int] = set()  # files with several names count once
        self._device = _device(folder)
        self._steps = self._walk([folder])

    def work(self, seconds: float) -> bool:
        """Continue for a while; return whether the scan is complete."""
        deadline = monotonic() + seconds
        return all(monotonic() < deadline for _ in self._steps)

    def _walk(self, folders: "list[str]") -> "Iterator[None]":
        """Scan the folders, with a chance to pause after each and within large ones."""
        for folder in folders:  # grows during the loop
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        self._count(entry, folders)
                        if self.entries % _STEP == 0:
                            yield
            except OSError:  # gone, or not readable
                self.readable = self.readable and folder != folders[0]
            yield

    def _count(self, entry: "os.DirEntry[str]", folders: "list[str]") -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if status.st_dev != self._device:
            return
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
        elif status.st_nlink > 1:
            if status.st_ino in self._linked:
                return
            self._linked.add(status.st_ino)
        size = status.st_blocks * _BLOCK
        self.entries += 1
        self.size += size
        if status.st_ctime < self._start:
            self.size_before += size


def _open_files(processes: "list[Process]") -> "tuple[int, int]":
    """Return the number of open files, and the disk use of those that were deleted."""
    opened = 0
    deleted: dict[tuple[int, int], int] = {}
    for process in processes:
        folder = f"/proc/{process.pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        opened += len(names)
        for name in names:
            try:
                status = os.stat(f"{folder}/{name}")
                if status.st_nlink or not status.st_blocks or not S_ISREG(status.st_mode):
                    continue
                if not os.readlink(f"{folder}/{name}").startswith(_NOT_ON_DISK):
                    deleted[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK
            except OSError:
                continue
    return opened, sum(deleted.values())


def _device(folder: str) -> "int | None":
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None  # the command removed it


def _free_space(folder: str) -> int:
    try:
        status = os.statvfs(folder)
        return status.f_bfree * status.f_frsize
    except OSError:
        return 0
