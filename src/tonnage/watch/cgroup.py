"""A memory control group for the command, where the user may create one: the kernel then enforces the limit too.

The kernel counts more than the monitor does (its own memory, files in memory), so its limit is set slightly higher.
Usually the monitor stops the command; the kernel's limit catches growth between two samples. Users can rarely create
a group: as root, in some containers, or under ``systemd-run --user --scope``. It is always created inside the
monitor's own group, never beside it, so that limits set by others stay in force. Without one, commands are measured
and limited all the same.
"""

import os

from tonnage.watch.proc import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cgroup"]

_SLACK = 2**24
_SLACK_PART = 16
_NEAR = 2**20


class Cgroup:
    """A memory control group for one command."""

    def __init__(self, version: int, home: str, limit: int) -> None:
        """Create a group inside `home`, this process's own group; raises OSError where that is not permitted."""
        self.version = version
        mark = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._home = home
        self._rest = home  # where this process stays
        self._most = limit + max(_SLACK, limit // _SLACK_PART)
        self._path = os.path.join(home, f"tonnage-{mark}")
        try:
            _check_writable(os.path.join(home, "cgroup.procs"))  # otherwise this process could enter but never leave
            if version == 2:
                self._make_room(os.path.join(home, f"tonnage-monitor-{mark}"))
            os.mkdir(self._path)
            self._limit()
        except OSError:
            self.remove()
            raise

    @classmethod
    def make(cls, limit: float) -> "Cgroup | None":
        """Create a group; return None where that is not permitted."""
        for version, home in _homes():
            try:
                return cls(version, home, int(limit))
            except OSError:
                continue
        return None

    def enter(self) -> bool:
        """Enter the group, so that processes started now belong to it; return whether that worked."""
        return _try(_write, os.path.join(self._path, "cgroup.procs"), os.getpid())

    def leave(self) -> None:
        """Return to the previous group; processes that were started stay.

        If that fails, the limit is lifted: the kernel must not treat this process as part of the command.
        """
        if not _try(_write, os.path.join(self._rest, "cgroup.procs"), os.getpid()):
            self._lift()

    @property
    def killed(self) -> bool:
        """Whether the kernel killed a process at this group's own limit, not at one of a parent group."""
        if self.version == 1:
            return self._count("memory.oom_control", b"oom_kill") > 0 and (self.peak or 0) >= self._most - _NEAR
        return self._count("memory.events", b"oom_kill") > 0 and self._count("memory.events", b"oom") > 0

    @property
    def peak(self) -> "int | None":
        """The kernel's peak figure, in bytes."""
        return self._number("memory.max_usage_in_bytes" if self.version == 1 else "memory.peak") or None

    def remove(self) -> None:
        """Remove the group, after its last process has ended, and everything created with it."""
        _try(os.rmdir, self._path)  # it may be gone already, or hold processes that could not be killed
        if self._rest == self._home:
            return
        _try(_write, os.path.join(self._home, "cgroup.subtree_control"), "-memory")
        _try(_write, os.path.join(self._home, "cgroup.procs"), os.getpid())
        _try(os.rmdir, self._rest)  # another of our processes may still be in it

    def _make_room(self, place: str) -> None:
        """Allow the version 2 group to have child groups, for which it must hold no processes itself.

        Only done where this process is the only one: no other process is ever moved.
        """
        if b"memory" in (read(os.path.join(self._home, "cgroup.subtree_control")) or b"").split():
            return  # the root group is exempt
        if (read(os.path.join(self._home, "cgroup.procs")) or b"").split() != [str(os.getpid()).encode()]:
            raise OSError("the group has other processes")
        os.mkdir(place)
        self._rest = place
        _write(os.path.join(place, "cgroup.procs"), os.getpid())
        _write(os.path.join(self._home, "cgroup.subtree_control"), "+memory")

    def _limit(self) -> None:
        if self.version == 1:
            _write(os.path.join(self._path, "memory.limit_in_bytes"), self._most)
            further = {"memory.memsw.limit_in_bytes": self._most}
        else:
            _write(os.path.join(self._path, "memory.max"), self._most)
            further = {"memory.swap.max": 0, "memory.oom.group": 1}
        for name, value in further.items():  # not every kernel has these
            _try(_write, os.path.join(self._path, name), value)

    def _lift(self) -> None:
        if self.version == 2:
            _try(_write, os.path.join(self._path, "memory.max"), "max")
            return
        for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes"):  # memory plus swap must not be the lower
            _try(_write, os.path.join(self._path, name), -1)

    def _count(self, name: str, event: bytes) -> int:
        words = (read(os.path.join(self._path, name)) or b"").split()
        return int(words[words.index(event) + 1]) if event in words else 0

    def _number(self, name: str) -> int:
        return int(read(os.path.join(self._path, name)) or 0)


def _try(action: "Callable[..., None]", *arguments: "int | str") -> bool:
    """Try something that the kernel may refuse; return whether it worked."""
    try:
        action(*arguments)
    except OSError:
        return False
    return True


def _check_writable(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))


def _write(path: str, value: "int | str") -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _homes() -> "list[tuple[int, str]]":
    """Return the version and folder of each memory group that this process is in."""
    groups = {}
    for line in (read("/proc/self/cgroup") or b"").decode("utf-8", "surrogateescape").splitlines():
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
        root = root.rstrip("/")
        if version in groups and f"{groups[version]}/".startswith(f"{root}/"):
            found.append((version, (place + groups[version].removeprefix(root)).rstrip("/")))
    return found
