"""A control group of our own, where this user may make one: the kernel itself then enforces the memory limit.

It counts more than we do (the kernel's own memory, files in memory), so its limit is a little above ours. Ours is what
stops a command; the kernel's is for growth between two looks. Seldom may a user make one: as root, in some containers,
or under ``systemd-run --user --scope``. It is always made inside of the group that we are in, never beside it, so that
the limits which others have set stay in force. Where there is none, commands are measured and limited all the same.
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
        """Make a group inside of `home`, the one that this process is in; raises OSError where it may not."""
        self.version = version
        mark = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._home = home
        self._rest = home  # where this process stays
        self._most = limit + max(_SLACK, limit // _SLACK_PART)
        self._path = os.path.join(home, f"tonnage-{mark}")
        try:
            _check_writable(os.path.join(home, "cgroup.procs"))  # else this process could enter, but never leave
            if version == 2:
                self._make_room(os.path.join(home, f"tonnage-monitor-{mark}"))
            os.mkdir(self._path)
            self._limit()
        except OSError:
            self.remove()
            raise

    @classmethod
    def make(cls, limit: float) -> "Cgroup | None":
        """Make a group; None where that is not allowed."""
        for version, home in _homes():
            try:
                return cls(version, home, int(limit))
            except OSError:
                continue
        return None

    def enter(self) -> bool:
        """Enter the group, so that what is started now belongs to it; whether that worked."""
        return _try(_write, os.path.join(self._path, "cgroup.procs"), os.getpid())

    def leave(self) -> None:
        """Go back; what was started stays.

        Where that fails the limit is lifted: the kernel must not take this process for a part of the command.
        """
        if not _try(_write, os.path.join(self._rest, "cgroup.procs"), os.getpid()):
            self._lift()

    @property
    def killed(self) -> bool:
        """Whether the kernel killed a process at this group's own limit, and not at one further up."""
        if self.version == 1:
            return self._count("memory.oom_control", b"oom_kill") > 0 and (self.peak or 0) >= self._most - _NEAR
        return self._count("memory.events", b"oom_kill") > 0 and self._count("memory.events", b"oom") > 0

    @property
    def peak(self) -> "int | None":
        """The most bytes that the kernel counted."""
        return self._number("memory.max_usage_in_bytes" if self.version == 1 else "memory.peak") or None

    def remove(self) -> None:
        """Remove the group, after its last process, and all that was made with it."""
        _try(os.rmdir, self._path)  # it may be gone already, or hold what could not be killed
        if self._rest == self._home:
            return
        _try(_write, os.path.join(self._home, "cgroup.subtree_control"), "-memory")
        _try(_write, os.path.join(self._home, "cgroup.procs"), os.getpid())
        _try(os.rmdir, self._rest)  # another process of ours may still be in it

    def _make_room(self, place: str) -> None:
        """Let the group of version 2 have groups inside, for which it must hold no processes itself.

        That is done only where there are none but this one: nobody else's are moved.
        """
        if b"memory" in (read(os.path.join(self._home, "cgroup.subtree_control")) or b"").split():
            return  # the root of all groups is exempt
        if (read(os.path.join(self._home, "cgroup.procs")) or b"").split() != [str(os.getpid()).encode()]:
            raise OSError("the group is not ours alone")
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
        for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes"):  # memory with swap is never the lesser
            _try(_write, os.path.join(self._path, name), -1)

    def _count(self, name: str, event: bytes) -> int:
        words = (read(os.path.join(self._path, name)) or b"").split()
        return int(words[words.index(event) + 1]) if event in words else 0

    def _number(self, name: str) -> int:
        return int(read(os.path.join(self._path, name)) or 0)


def _try(action: "Callable[..., None]", *arguments: "int | str") -> bool:
    """Do something that the kernel may not let us do; whether it did."""
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
    """Return the folders of the memory groups that this process is in, with their version."""
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
