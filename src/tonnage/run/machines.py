"""Machines: what each has, and what is left of it while tasks run there."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.units import parse_bytes

__all__ = ["SHARED", "Machine", "Room", "parse_machines", "this_machine"]

SHARED = (Resource.CORES, Resource.MEMORY, Resource.DISK)
"""What tasks that run at the same time share."""

_FOR_THE_SYSTEM = 0.05
_MACHINES = re.compile(r"(?:(\d+)x)?(?=\d)(?:(\d+)c)?(.*)", re.ASCII)
_LITTLE = 1e-9


@dataclass(frozen=True, slots=True)
class Machine:
    """How many cores and how many bytes of memory and disk a machine has."""

    cores: float
    memory: float
    disk: float = inf

    def amounts(self) -> dict[Resource, float]:
        """Return what it has, by resource; what is unlimited is left out."""
        found = {Resource.CORES: self.cores, Resource.MEMORY: self.memory, Resource.DISK: self.disk}
        return {resource: amount for resource, amount in found.items() if amount != inf}

    def with_amounts(self, amounts: Mapping[Resource, float]) -> "Machine":
        """Return the machine with some amounts as the user says."""
        own = {str(resource): amounts.get(resource, getattr(self, resource)) for resource in SHARED}
        return Machine(**own)


Need = tuple[float, float, float]
"""Cores, memory and disk that an attempt is given."""


class Room:
    """What is left on some machines."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self._cores = [machine.cores for machine in machines]
        self._memory = [machine.memory for machine in machines]
        self._disk = [machine.disk for machine in machines]
        self._running = [0] * len(self.machines)

    def find(self, need: Need) -> int | None:
        """Return the fullest machine on which there is room, or None."""
        cores, memory, disk = need
        best, least = None, inf
        for number, free in enumerate(self._memory):
            if free < least and free >= memory and self._cores[number] >= cores and self._disk[number] >= disk:
                best, least = number, free
        return best

    def take(self, machine: int, need: Need) -> None:
        """Note that an attempt has started."""
        self._running[machine] += 1
        self._change(machine, need, -1)

    def give_back(self, machine: int, need: Need) -> None:
        """Note that an attempt has ended."""
        self._running[machine] -= 1
        self._change(machine, need, 1)
        if not self._running[machine]:
            # Sums of fractions go astray, and who needs a whole machine would wait for the last bit of it for ever.
            whole = self.machines[machine]
            self._cores[machine], self._memory[machine], self._disk[machine] = whole.cores, whole.memory, whole.disk

    def _change(self, machine: int, need: Need, sign: int) -> None:
        self._cores[machine] += sign * need[0]
        self._memory[machine] += sign * need[1]
        self._disk[machine] += sign * need[2]

    def fits_an_empty_machine(self, need: Need) -> bool:
        """Whether an attempt could ever start."""
        cores, memory, disk = need
        return any(one.cores >= cores and one.memory >= memory and one.disk >= disk for one in self.machines)


def this_machine(folder: Path) -> Machine:
    """Return what this process may use: of its control group's share, less a little for the system itself.

    Disk is what is free where the workflow's files are.
    """
    cores = min(float(len(os.sched_getaffinity(0))), _cgroup_cores())
    memory = min(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")), _cgroup_memory())
    free = os.statvfs(folder)
    whole_cores = max(1.0, float(int(cores + _LITTLE)))
    return Machine(whole_cores, float(int(memory * (1 - _FOR_THE_SYSTEM))), float(free.f_bavail * free.f_frsize))


def _cgroup_cores() -> float:
    """Return how many cores the control groups that we are in allow."""
    most = inf
    for folder in _cgroups():
        words = _words(folder / "cpu.max")
        if len(words) == 2 and words[0] != "max":
            most = min(most, int(words[0]) / int(words[1]))
        quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            most = min(most, int(quota[0]) / int(period[0]))
    return most


def _cgroup_memory() -> float:
    most = inf
    for folder in _cgroups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            words = _words(folder / name)
            if words and words[0] != "max":
                most = min(most, float(words[0]))
    return most


def _cgroups() -> list[Path]:
    """Return the folders of the control groups that this process is in, up to the root, as far as they are visible."""
    found = []
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, group = line.split(":", 2)
        base = Path("/sys/fs/cgroup", controllers) if controllers else Path("/sys/fs/cgroup")
        path = base / group.lstrip("/")
        found += [one for one in (path, *path.parents) if one.is_relative_to(base)]
    return found


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # a kernel or a container without it


def parse_machines(text: str) -> list[Machine]:
    """Return the machines that a text such as ``10x16c64GB`` names: how many, cores, memory; several with a comma."""
    found: list[Machine] = []
    for part in text.split(","):
        matched = _MACHINES.fullmatch(part.strip())
        if matched is None or not matched[2] or not matched[3]:
            raise InputError(f'"{part}" is not a kind of machine', hint="10x16c64GB: ten with 16 cores and 64 GB each")
        number, cores = int(matched[1] or 1), float(matched[2])
        memory, _, disk = matched[3].partition("+")
        machine = Machine(cores, float(parse_bytes(memory)), float(parse_bytes(disk)) if disk else inf)
        if not (0 < number <= 100_000 and cores > 0 and machine.memory > 0):
            raise InputError(f'"{part}": there must be at least one machine, with a core and memory')
        found += [machine] * number
    return found
