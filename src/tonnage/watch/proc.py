"""Reads what the kernel reports about a process in /proc.

A process may end at any moment; every function then returns None or an empty value instead of failing.
"""

import os

__all__ = [
    "Mapping",
    "Process",
    "SelfProc",
    "Share",
    "children",
    "io_bytes",
    "mapped_files",
    "not_anonymous",
    "program",
    "read",
    "share",
    "swapped",
]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_ENOUGH = 1 << 16
_A_FEW_LINES = 1 << 10
# "7f2a-7f2c r--p 00000000 08:01 1234  /lib/libc.so" (inode 0 is not a file), followed by Rss, Pss and Anonymous
_MAPPING = (
    rb"^(\w+)-(\w+) \S+ (\w+) (\w+:\w+ (?!0 )\w+).*\n(?:[SKM].*\n)*Rss: +(\d+) kB\nPss: +(\d+) kB\n"
    rb"(?:[PSR].*\n)*Anonymous: +(\d+)"
)


def read(path: str) -> "bytes | None":
    """Return a file's contents, or None if it is gone or not readable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    pieces = []
    try:
        while piece := os.read(descriptor, _ENOUGH):  # long files in /proc arrive a page at a time
            pieces.append(piece)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(pieces)


class _Gauge:
    """A short file that is read repeatedly and kept open, because opening takes longer than reading."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor: int | None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None

    def read(self) -> bytes:
        """Return the current first lines, or nothing if the file is not readable."""
        try:
            return b"" if self._descriptor is None else os.pread(self._descriptor, _A_FEW_LINES, 0)
        except OSError:
            return b""


class Process:
    """One process at one moment: times in seconds, memory in bytes."""

    __slots__ = ("cpu", "faults", "folder", "pid", "resident", "started", "state", "threads", "virtual")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = _fields(stat)
        self.pid = pid
        self.folder = f"/proc/{pid}"  # for close looks
        self.state = fields[0]
        self.faults = int(fields[7]) + int(fields[8])
        self.cpu = (int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])) * _TICK
        self.threads = int(fields[17])
        self.started = int(fields[19])
        self.virtual = int(fields[20])
        self.resident = int(fields[21]) * _PAGE

    @property
    def ended(self) -> bool:
        """Whether it has ended and only waits to be reaped."""
        return self.state in b"ZX"

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """Read one process; return None if it is gone."""
        stat = _line(f"/proc/{pid}/stat")
        if not stat:
            return None
        process = cls(pid, stat)
        if process.ended and process.threads > 1:
            process._look_at_another_thread()
        return process

    def _look_at_another_thread(self) -> None:
        """Read another thread: the first has ended, which makes the process look as if it had."""
        for folder in _threads(self.pid):
            fields = _fields(_line(f"{folder}/stat") or b") Z")
            if fields[0] not in b"ZX":
                self.folder = folder
                self.state = fields[0]
                self.virtual = int(fields[20])
                self.resident = int(fields[21]) * _PAGE
                return


def _fields(stat: bytes) -> "list[bytes]":
    # The program's name, in parentheses, may contain anything; the numbers follow the last parenthesis.
    return stat[stat.rindex(b")") + 2 :].split()


def _line(path: str) -> "bytes | None":
    """Return a one-line file with a single read call, because this is called very often."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _ENOUGH)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _threads(pid: int) -> "list[str]":
    try:
        return [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def children(pid: int, threads: int = 1) -> "list[int]":
    """Return the children of a process; any of its threads may have forked them."""
    folders = [f"/proc/{pid}/task/{pid}"] if threads == 1 else _threads(pid)
    return [int(number) for folder in folders for number in (read(f"{folder}/children") or b"").split()]


class Share:
    """A process's share of memory, in bytes: anonymous pages divided among their owners, others in full."""

    __slots__ = ("anonymous", "other", "own")

    def __init__(self, anonymous: int, other: int, own: int) -> None:
        self.anonymous = anonymous
        self.other = other
        self.own = own  # the part of `other` that no other process has, at least


def share(folder: str) -> "Share | None":
    """Look closely at a process's memory: the kernel walks its page tables, about 10 ms per gigabyte."""
    data = read(f"{folder}/smaps_rollup")
    if not data:
        return None
    kilobytes = {words[0]: int(words[1]) for words in map(bytes.split, data.split(b"\n")[1:]) if len(words) == 3}
    if b"Pss_Anon:" not in kilobytes:  # before Linux 5.4
        return None
    other = kilobytes[b"Rss:"] - kilobytes[b"Anonymous:"]
    own = kilobytes[b"Private_Clean:"] + kilobytes[b"Private_Dirty:"] - kilobytes[b"Anonymous:"]
    return Share(kilobytes[b"Pss_Anon:"] * 1024, other * 1024, own * 1024)


class Mapping:
    """A part of a file or of shared memory that one process has mapped, in bytes."""

    __slots__ = ("end", "file", "part", "resident", "start")

    def __init__(self, file: bytes, start: int, end: int, resident: int, part: int) -> None:
        self.file = file  # device and inode
        self.start = start
        self.end = end
        self.resident = resident
        self.part = part  # resident, divided among all processes that have it mapped


def mapped_files(folder: str) -> "list[Mapping]":
    """Return the mappings of files and shared memory of a process that are at least partly resident."""
    import re  # not at the top: needed late and rarely

    found = []
    for first, last, offset, file, *kilobytes in re.findall(_MAPPING, read(f"{folder}/smaps") or b"", re.MULTILINE):
        resident, part, private = map(int, kilobytes)  # private: copied pages that no longer belong to a file
        if resident > private:
            start = int(offset, 16)
            size = int(last, 16) - int(first, 16)
            shared = max(0, part - private) * 1024
            found.append(Mapping(file, start, start + size, (resident - private) * 1024, shared))
    return found


def program(pid: int) -> "tuple[int, int] | None":
    """Return the device and inode of the program that a process runs."""
    try:
        status = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def not_anonymous(pid: int) -> "tuple[int, int]":
    """Return a process's resident memory that belongs to files or is shared, and its total resident memory."""
    words = (_line(f"/proc/{pid}/statm") or b"0 0 0").split()
    return int(words[2]) * _PAGE, int(words[1]) * _PAGE


def swapped(folder: str) -> int:
    """Return the bytes of a process that are swapped out."""
    for line in (read(f"{folder}/status") or b"").split(b"\n"):
        if line.startswith(b"VmSwap:"):
            return int(line.split()[1]) * 1024
    return 0


def io_bytes(data: "bytes | None") -> "tuple[int, int] | None":
    """Parse the bytes read and written by system calls from the ``io`` file of a process or thread."""
    if not data:
        return None
    words = data.split(None, 4)
    return int(words[1]), int(words[3])


class SelfProc:
    """This process's own files in /proc, kept open because they are read before and after each command.

    Create it after the last fork.
    """

    def __init__(self) -> None:
        self._memory = _Gauge("/proc/self/statm")
        self._moved = _Gauge(f"/proc/self/task/{os.getpid()}/io")
        self._moved_by_all = _Gauge("/proc/self/io")
        self.swap_exists = (read("/proc/swaps") or b"").count(b"\n") > 1
        """Whether there is anything to swap to."""
        self.moved: tuple[int, int] | None = None
        """The last result of `moved_by_descendants`, which stays the same until the next child is reaped."""
        self.moved_by_descendants()

    def resident(self) -> int:
        """Return the resident memory of this process in bytes."""
        words = self._memory.read().split(None, 2)
        return int(words[1]) * _PAGE if words else 0

    def moved_by_descendants(self) -> "tuple[int, int] | None":
        """Return the bytes read and written by all descendants that were reaped.

        The kernel adds the bytes of a reaped child to its parent's; what this process itself moved is subtracted.
        """
        own = io_bytes(self._moved.read())
        everything = io_bytes(self._moved_by_all.read())
        if own is None or everything is None:
            return None
        self.moved = everything[0] - own[0], everything[1] - own[1]
        return self.moved
