"""What this machine has for tasks: its cores, memory and disk, within the control groups of this process."""

import os
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

from tonnage.batch.registry import SCHEDULERS
from tonnage.run.machines import Machine

__all__ = ["SystemMemory", "this_machine"]

_FOR_THE_SYSTEM = 0.05
_LITTLE = 1e-9
_RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")  # tmpfs and shared memory count as anonymous
_KILLS = "oom_kill"
_REMEMBERED = 1000  # kills
_THRASHING = 0.3  # of the time,
_SPAN = 1.0  # and of this many seconds: shorter waits are usual where much is read from disk
_SOON = 10.0  # seconds in which a command fails one of whose processes was killed
_MEMORY = {  # of a control group: its limit, and what it uses, in versions 2 and 1
    "memory.max": "memory.current",
    "memory.high": "memory.current",  # above it, processes hardly get any further
    "memory.limit_in_bytes": "memory.usage_in_bytes",
}


def this_machine(folder: Path) -> Machine:
    """Return what this process may use within its control groups, minus a little memory for the system.

    Disk is the free space in the file system of `folder`.
    """
    cores = min(float(len(os.sched_getaffinity(0))), _cgroup_cores())
    memory = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    limit = min((limit for _, limit in _limited()), default=inf)
    memory = min(memory, limit if limit < memory else _job_memory())
    free = os.statvfs(folder)
    whole_cores = max(1.0, float(int(cores + _LITTLE)))
    return Machine(whole_cores, float(int(memory * (1 - _FOR_THE_SYSTEM))), float(free.f_bavail * free.f_frsize))


def _job_memory() -> float:
    """Return the memory of the batch job in which this process runs, if there is one, else infinity."""
    return min((system.job_memory() for system in SCHEDULERS.values() if system.job_memory is not None), default=inf)


class SystemMemory:
    """The memory that is left on this machine, and what the kernel did because there was none."""

    def __init__(self) -> None:
        """Find the control groups around this process, and count from now on."""
        self._limited = list(_limited())
        groups = [folder / name for folder in _cgroups() for name in ("memory.events", "memory.oom_control")]
        # The innermost group that counts kills; without one, the whole system.
        self._kills = next((path for path in groups if _KILLS in _values(path)), Path("/proc/vmstat"))
        self._known_kills = self._count_kills()
        self._killed_at: list[float] = []
        """When kills were noticed that nothing was blamed on yet."""
        pressures = [folder / "memory.pressure" for folder in _cgroups()]
        self._pressure = next((path for path in pressures if path.exists()), Path("/proc/pressure/memory"))
        self._stalled, self._looked = self._stall(), time.monotonic()

    def available(self) -> float:
        """Return how much more memory processes could use now, without the system or a control group running out.

        Page cache is available, because the kernel can reclaim it; files on a tmpfs and shared memory are not. If
        processes mostly wait for memory already, none is available.
        """
        self._note_kills()
        if self._is_thrashing():
            return 0.0
        found = _values("/proc/meminfo").get("MemAvailable:", inf) * 1024
        for folder, limit in self._limited:
            used = next((amount for name in _MEMORY.values() if (amount := _number(folder / name)) is not None), 0.0)
            stat = _values(folder / "memory.stat")
            prefix = "total_" if "total_inactive_file" in stat else ""  # version 1 counts the groups inside separately
            cached = sum(stat.get(f"{prefix}{name}", 0.0) for name in _RECLAIMABLE)
            found = min(found, limit - max(0.0, used - cached))
        return max(0.0, found)

    def explains_end(self, began: float, *, killed: bool) -> bool:
        """Whether the kernel killed a process for lack of memory that may be of a command that has just failed.

        The command was `killed`, or it failed because one of its processes was. Each kill explains only one end.
        """
        self._note_kills()
        since = began if killed else max(began, time.time() - _SOON)
        found = next((moment for moment in self._killed_at if moment >= since), None)
        if found is not None:
            self._killed_at.remove(found)
        return found is not None

    def _note_kills(self) -> None:
        count = self._count_kills()
        self._killed_at += [time.time()] * int(count - self._known_kills)
        del self._killed_at[:-_REMEMBERED]
        self._known_kills = count

    def _count_kills(self) -> float:
        return _values(self._kills).get(_KILLS, 0.0)

    def _is_thrashing(self) -> bool:
        """Whether all processes waited for memory for much of the last second, if the kernel tells."""
        stalled, now = self._stall(), time.monotonic()
        passed = now - self._looked
        thrashing = stalled - self._stalled > _THRASHING * max(passed, _SPAN)
        if thrashing or passed >= _SPAN:
            self._stalled, self._looked = stalled, now
        return thrashing

    def _stall(self) -> float:
        """Return the seconds for which all processes have waited for memory so far."""
        full = [line for line in _text(self._pressure).splitlines() if line.startswith("full ")]
        return int(full[0].rpartition("total=")[2]) / 1e6 if full else 0.0


def _limited() -> Iterator[tuple[Path, float]]:
    """Yield the control groups around this process that limit its memory, with their limits."""
    for folder in _cgroups():
        for name in _MEMORY:
            limit = _number(folder / name)
            if limit is not None and limit < 2**62:  # version 1 says nearly 2^63 if there is none
                yield folder, limit


def _cgroup_cores() -> float:
    """Return the number of cores that the control groups of this process allow."""
    most = inf
    for folder in _cgroups():
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0] != "max":
            most = min(most, int(words[0]) / int(words[1]))
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota and period and quota > 0:
            most = min(most, quota / period)
    return most


def _cgroups() -> list[Path]:
    """Return the folders of this process's control groups, up to the root, as far as they are visible."""
    found = []
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        base = Path("/sys/fs/cgroup", controllers) if controllers else Path("/sys/fs/cgroup")
        path = base / group.lstrip("/")
        found += [one for one in (path, *path.parents) if one.is_relative_to(base)]
    return found


def _values(path: Path | str) -> dict[str, float]:
    """Return the numbers in a file with one name and number on each line."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) >= 2 and row[1].isdecimal()}


def _number(path: Path) -> float | None:
    text = _text(path).strip()
    return float(text) if text.lstrip("-").isdecimal() else None


def _text(path: Path | str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""  # not provided by this kernel or container
