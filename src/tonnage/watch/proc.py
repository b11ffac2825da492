"""Reading /proc: what the kernel tells about a process.

A process may end at any moment; every function then returns None or nothing rather than fail.
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
# "7f2a-7f2c r--p 00000000 08:01 1234  /lib/libc.so" (an inode of 0 is no file), Rss, Pss and Anonymous below it
_MAPPING = (
    rb"^(\w+)-(\w+) \S+ (\w+) (\w+:\w+ (?!0 )\w+).*\n(?:[SKM].*\n)*Rss: +(\d+) kB\nPss: +(\d+) kB\n"
    rb"(?:[PSR].*\n)*Anonymous: +(\d+)"
)


def read(path: str) -> "bytes | None":
    """Return a file's contents; None where it is gone or closed to us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    pieces = []
    try:
        while piece := os.read(descriptor, _ENOUGH):  # long files of /proc come in pieces of a page
            pieces.append(piece)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(pieces)


class _Gauge:
    """A short file that is read again and again: to open it would take longer than to read it."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor: int | None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None

    def read(self) -> bytes:
        """Return the first lines as they are now; nothing where the file is closed to us."""
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
        self.folder = f"/proc/{pid}"  # where to look closely
        self.state = fields[0]
        self.faults = int(fields[7]) + int(fields[8])
        self.cpu = (int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])) * _TICK
        self.threads = int(fields[17])
        self.started = int(fields[19])
        self.virtual = int(fields[20])
        self.resident = int(fields[21]) * _PAGE

    @property
    def ended(self) -> bool:
        """Whether it only waits to be waited for."""
        return self.state in b"ZX"

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """Look at one process."""
        stat = _line(f"/proc/{pid}/stat")
        if not stat:
            return None
        process = cls(pid, stat)
        if process.ended and process.threads > 1:
            process._look_at_another_thread()
        return process

    def _look_at_another_thread(self) -> None:
        """See what the other threads see: the first has ended, and seems to be the end of the process."""
        for folder in _threads(self.pid):
            fields = _fields(_line(f"{folder}/stat") or b") Z")
            if fields[0] not in b"ZX":
                self.folder = folder
                self.state = fields[0]
                self.virtual = int(fields[20])
                self.resident = int(fields[21]) * _PAGE
                return


def _fields(stat: bytes) -> "list[bytes]":
    # The program's name, in parentheses, may hold anything; the numbers follow the last parenthesis.
    return stat[stat.rindex(b")") + 2 :].split()


def _line(path: str) -> "bytes | None":
    """Return a file of one line: with one read, because this is done a thousand times."""
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
    """Return the children of a process; one with several threads may have forked from any of them."""
    folders = [f"/proc/{pid}/task/{pid}"] if threads == 1 else _threads(pid)
    return [int(number) for folder in folders for number in (read(f"{folder}/children") or b"").split()]


class Share:
    """A process's part of the memory, in bytes: anonymous pages shared out among their owners, the rest whole."""

    __slots__ = ("anonymous", "other", "own")

    def __init__(self, anonymous: int, other: int, own: int) -> None:
        self.anonymous = anonymous
        self.other = other
        self.own = own  # of the other pages, what no other process has, at least


def share(folder: str) -> "Share | None":
    """Look closely at a process's memory: the kernel walks its page tables, some 10 ms for each gigabyte."""
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
    """A part of a file, or of shared memory, as one process has it mapped; in bytes."""

    __slots__ = ("end", "file", "part", "resident", "start")

    def __init__(self, file: bytes, start: int, end: int, resident: int, part: int) -> None:
        self.file = file  # device and inode
        self.start = start
        self.end = end
        self.resident = resident
        self.part = part  # resident, shared out among all processes that have it mapped


def mapped_files(folder: str) -> "list[Mapping]":
    """Return the files, and the shared memory, that a process has mapped and in part resident."""
    import re  # not at the top: this is needed late, and seldom

    found = []
    for first, last, offset, file, *kilobytes in re.findall(_MAPPING, read(f"{folder}/smaps") or b"", re.MULTILINE):
        resident, part, private = map(int, kilobytes)  # private: pages that were copied and belong to no file any more
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
    """Return how much of a process's resident memory is of files, or shared, and how much is resident in all."""
    words = (_line(f"/proc/{pid}/statm") or b"0 0 0").split()
    return int(words[2]) * _PAGE, int(words[1]) * _PAGE


def swapped(folder: str) -> int:
    """Return the bytes of a process that are swapped out."""
    for line in (read(f"{folder}/status") or b"").split(b"\n"):
        if line.startswith(b"VmSwap:"):
            return int(line.split()[1]) * 1024
    return 0


def io_bytes(data: "bytes | None") -> "tuple[int, int] | None":
    """Return the bytes read and written by system calls, from what a process's or a thread's ``io`` file says."""
    if not data:
        return None
    words = data.split(None, 4)
    return int(words[1]), int(words[3])


class SelfProc:
    """This process's own files in /proc, held open: they are read before and after each command.

    To be made after the last fork.
    """

    def __init__(self) -> None:
        self._memory = _Gauge("/proc/self/statm")
        self._moved = _Gauge(f"/proc/self/task/{os.getpid()}/io")
        self._moved_by_all = _Gauge("/proc/self/io")
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
