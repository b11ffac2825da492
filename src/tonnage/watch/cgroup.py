"""A control group of our own, where this user may make one: the kernel itself then enforces the memory limit.

It counts more than we do (the kernel's own memory, files in memory), so its limit is a little above ours. Ours is what
stops a command; the kernel's is for growth between two looks. Seldom may a user make one: as root, in some containers,
or under ``systemd-run --user --scope``.
"""

import os

from tonnage.watch.proc import read

__all__ = ["Cgroup"]

_SLACK = 2**24
_SLACK_PART = 16


class Cgroup:
    """A memory control group for one command."""

    def __init__(self, version: int, home: str, base: str, limit: int) -> None:
        """Make a group below `base`; `home` is the group that this process is in. Raises OSError where it may not."""
        self.version = version
        self._home = home
        self._path = os.path.join(base, f"tonnage-{os.getpid()}-{os.urandom(4).hex()}")
        most = limit + max(_SLACK, limit // _SLACK_PART)
        os.mkdir(self._path)
        try:
            if version == 1:
                self._set("memory.limit_in_bytes", most)
                self._set("memory.memsw.limit_in_bytes", most, needed=False)  # there may be no swap accounting
            else:
                self._set("memory.max", most)
                self._set("memory.swap.max", 0, needed=False)
                self._set("memory.oom.group", 1, needed=False)
            _write(os.path.join(self._path, "cgroup.procs"), os.getpid())
        except OSError:
            os.rmdir(self._path)
            raise

    @classmethod
    def enter(cls, limit: float) -> "Cgroup | None":
        """Make a group and enter it; None where that is not allowed. What is started now belongs to it."""
        for version, home in _homes():
            for base in (home, os.path.dirname(home)):
                try:
                    return cls(version, home, base, int(limit))
                except OSError:
                    continue
        return None

    def leave(self) -> None:
        """Go back to where this process was; what it started stays."""
        _write(os.path.join(self._home, "cgroup.procs"), os.getpid())

    @property
    def killed(self) -> bool:
        """Whether the kernel killed a process at the limit."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        words = (read(os.path.join(self._path, name)) or b"").split()
        return b"oom_kill" in words and int(words[words.index(b"oom_kill") + 1]) > 0

    @property
    def peak(self) -> "int | None":
        """The most bytes that the kernel counted."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        data = read(os.path.join(self._path, name))
        return int(data) if data else None

    def remove(self) -> None:
        """Remove the group, after its last process."""
        try:
            os.rmdir(self._path)
        except OSError:
            pass  # something could not be killed

    def _set(self, name: str, value: int, *, needed: bool = True) -> None:
        try:
            _write(os.path.join(self._path, name), value)
        except OSError:
            if needed:
                raise


def _write(path: str, value: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _homes() -> "list[tuple[int, str]]":
    """Return the folders of the memory groups that this process is in, with their version."""
    groups = {}
    for line in (read("/proc/self/cgroup") or b"").decode().splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            groups[2] = group
        elif "memory" in controllers.split(","):
            groups[1] = group
    found = []
    for line in (read("/proc/self/mountinfo") or b"").decode("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        root, place = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        version = 2 if kind == "cgroup2" else 1 if kind == "cgroup" and "memory" in options.split(",") else 0
        if version in groups and groups[version].startswith(root.rstrip("/")):
            found.append((version, place + groups[version].removeprefix(root.rstrip("/"))))
    return found
