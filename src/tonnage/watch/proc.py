"""Reading /proc: what the kernel tells about a process.

A process may end at any moment; every function then returns None or nothing rather than fail.
"""

import os

__all__ = ["Process", "Share", "children", "io_bytes", "mapped_files", "read", "share", "swapped"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_ENOUGH = 1 << 16
# "7f2a-7f2c r--p 00000000 08:01 1234  /lib/libc.so" (an inode of 0 is no file), Rss, Pss and Anonymous below it
_MAPPING = (
    rb"^\w+-\w+ \S+ (\w+ \w+:\w+ (?!0 )\w+).*\n(?:[SKM].*\n)*Rss: +(\d+) kB\nPss: +(\d+) kB\n"
    rb"(?:[PSR].*\n)*Anonymous: +(\d+)"
)


def read(path: str) -> "bytes | None":
    """Return a file's contents; None where it is gone or closed to us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = b""
        while chunk := os.read(descriptor, _ENOUGH):  # long files of /proc come in pieces of a page
            data += chunk
        return data
    except OSError:
        return None
    finally:
        os.close(descriptor)


class Process:
    """One process at one moment: times in seconds, memory in bytes."""

    __slots__ = ("cpu", "faults", "pid", "resident", "started", "state", "threads", "virtual")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The program's name, in parentheses, may hold anything; the numbers follow the last parenthesis.
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pid = pid
        self.state = fields[0]
        self.faults = int(fields[7]) + int(fields[8])
        self.cpu = (int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])) * _TICK
        self.threads = int(fields[17])
        self.started = int(fields[19])
        self.virtual = int(fields[20])
        self.resident = int(fields[21]) * _PAGE

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """Look at one process."""
        try:
            descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return cls(pid, os.read(descriptor, _ENOUGH))  # one line, so one read: this is done a thousand times
        except OSError:
            return None
        finally:
            os.close(descriptor)


def children(pid: int, threads: int = 1) -> "list[int]":
    """Return the children of a process; one with several threads may have forked from any of them."""
    if threads == 1:
        return _numbers(read(f"/proc/{pid}/task/{pid}/children"))
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [child for task in tasks for child in _numbers(read(f"/proc/{pid}/task/{task}/children"))]


def _numbers(data: "bytes | None") -> "list[int]":
    return [int(number) for number in data.split()] if data else []


class Share:
    """A process's part of the memory, in bytes: anonymous pages shared out among their owners, the rest whole."""

    __slots__ = ("anonymous", "other")

    def __init__(self, anonymous: int, other: int) -> None:
        self.anonymous = anonymous
        self.other = other


def share(pid: int) -> "Share | None":
    """Look closely at a process's memory: the kernel walks its page tables, some 10 ms for each gigabyte."""
    data = read(f"/proc/{pid}/smaps_rollup")
    if not data:
        return None
    values = {line.split(b":", 1)[0]: line.split() for line in data.splitlines()[1:]}
    kilobytes = {name: int(words[1]) for name, words in values.items()}
    if b"Pss_Anon" not in kilobytes:  # before Linux 5.4
        return None
    other = kilobytes[b"Rss"] - kilobytes[b"Anonymous"]
    return Share(kilobytes[b"Pss_Anon"] * 1024, other * 1024)


def mapped_files(pid: int) -> "dict[bytes, tuple[int, int]]":
    """Return, for each mapping of a file or of shared memory, its resident bytes: whole, and this process's part.

    A mapping is named by its device, inode and offset, so that processes which map the same can be compared.
    """
    import re  # not at the top: this is needed late, and seldom

    found: dict[bytes, tuple[int, int]] = {}
    for key, *kilobytes in re.findall(_MAPPING, read(f"/proc/{pid}/smaps") or b"", re.MULTILINE):
        resident, part, private = map(int, kilobytes)  # private: pages that were copied and belong to no file any more
        if resident > private:
            whole, mine = found.get(key, (0, 0))
            found[key] = (whole + (resident - private) * 1024, mine + max(0, part - private) * 1024)
    return found


def swapped(pid: int) -> int:
    """Return the bytes of a process that are swapped out."""
    for line in (read(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"VmSwap:"):
            return int(line.split()[1]) * 1024
    return 0


def io_bytes(path: str) -> "tuple[int, int] | None":
    """Return the bytes read and written by system calls, from a process's or a thread's ``io`` file."""
    data = read(path)
    if not data:
        return None
    words = data.split()
    return int(words[1]), int(words[3])
