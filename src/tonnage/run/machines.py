"""Machines: what each has, and what is free while tasks run on it."""

import os
import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf
from pathlib import Path
from typing import Protocol

from tonnage.errors import InputError
from tonnage.jobs import SHARED, Decision, Resource
from tonnage.units import parse_bytes

__all__ = [
    "Machine",
    "Need",
    "QueueRoom",
    "Room",
    "Space",
    "largest",
    "need_of",
    "parse_machines",
    "this_machine",
]


_FOR_THE_SYSTEM = 0.05
_MACHINES = re.compile(r"(?:(\d+)x)?(?=\d)(?:(\d+)c)?(.*)", re.ASCII)
_LITTLE = 1e-9


@dataclass(frozen=True, slots=True)
class Machine:
    """The cores, and bytes of memory and disk, of a machine."""

    cores: float
    memory: float
    disk: float = inf

    def amounts(self) -> dict[Resource, float]:
        """Return what it has by resource, without those that are unlimited."""
        found = {Resource.CORES: self.cores, Resource.MEMORY: self.memory, Resource.DISK: self.disk}
        return {resource: amount for resource, amount in found.items() if amount != inf}

    def holds(self, need: "Need") -> bool:
        """Whether an attempt with this need fits on the empty machine."""
        return _fits(need, (self.cores, self.memory, self.disk))

    def with_amounts(self, amounts: Mapping[Resource, float]) -> "Machine":
        """Return the machine with some amounts replaced by those of the user."""
        own = {str(resource): amounts.get(resource, getattr(self, resource)) for resource in SHARED}
        return Machine(**own)


def largest(machines: Iterable[Machine]) -> dict[Resource, float]:
    """Return the largest amount of each resource on any machine."""
    found: dict[Resource, float] = {}
    for machine in set(machines):
        for resource, amount in machine.amounts().items():
            found[resource] = max(amount, found.get(resource, 0.0))
    return found


Need = tuple[float, float, float]
"""Cores, memory and disk that an attempt is allocated."""


def need_of(decisions: tuple[Decision, ...]) -> Need:
    """Return the need of some decisions, in whole bytes: their sums are exact, so that machines end up empty."""
    given = {one.resource: float(floor(one.amount)) for one in decisions}
    return given.get(Resource.CORES, 0.0), given.get(Resource.MEMORY, 0.0), given.get(Resource.DISK, 0.0)


class Space(Protocol):
    """Where attempts find room: on our own machines, or in the queue of a batch system."""

    machines: tuple[Machine, ...]

    def find(self, need: Need) -> int | None:
        """Return a machine with enough room, or None."""

    def take(self, machine: int, need: Need) -> None:
        """Note that an attempt started."""

    def give_back(self, machine: int, need: Need) -> None:
        """Note that an attempt ended."""

    def gained(self) -> list[Need]:
        """Return the free amounts of machines on which room was freed since the last call."""

    def reserve(self, need: Need) -> int | None:
        """Hide a machine from `find` until it has room for a need, and return it; None if no machine qualifies."""

    def release(self, machine: int) -> None:
        """Let `find` return a reserved machine again."""

    def fits_on(self, machine: int, need: Need) -> bool:
        """Whether a machine has enough room, reserved or not."""

    def fits_when_empty(self, machine: int, need: Need) -> bool:
        """Whether a machine has enough room when nothing else runs on it."""

    def fits_an_empty_machine(self, need: Need) -> bool:
        """Whether an attempt could ever start."""

    def lose(self, machine: int) -> None:
        """Note that a machine was lost: nothing starts there any more."""


class QueueRoom:
    """Room in a batch queue: a number of attempts of any size that fits a machine, which the batch system chooses."""

    def __init__(self, machines: Sequence[Machine], most: int) -> None:
        self.machines = tuple(dict.fromkeys(machines))
        self._left = most
        self._gained = False

    def find(self, need: Need) -> int | None:
        """Return 0 if the queue accepts more and the attempt fits on a machine."""
        return 0 if self._left > 0 and self.fits_an_empty_machine(need) else None

    def take(self, machine: int, need: Need) -> None:  # noqa: ARG002 (as Space has it)
        """Note that an attempt was submitted."""
        self._left -= 1

    def give_back(self, machine: int, need: Need) -> None:  # noqa: ARG002
        """Note that an attempt ended."""
        self._left += 1
        self._gained = True

    def gained(self) -> list[Need]:
        """Return what the machines have if room in the queue was freed since the last call."""
        gained, self._gained = self._gained, False
        return [(one.cores, one.memory, one.disk) for one in self.machines] if gained and self._left > 0 else []

    def reserve(self, need: Need) -> int | None:  # noqa: ARG002
        """Return None: in the queue, the attempt that waits longest is first anyway."""
        return None

    def release(self, machine: int) -> None:
        """Do nothing: nothing is ever reserved."""

    def fits_on(self, machine: int, need: Need) -> bool:  # noqa: ARG002
        """Whether the queue accepts more."""
        return self.find(need) is not None

    def fits_when_empty(self, machine: int, need: Need) -> bool:  # noqa: ARG002
        """Whether a machine of the cluster is large enough."""
        return self.fits_an_empty_machine(need)

    def fits_an_empty_machine(self, need: Need) -> bool:
        """Whether a machine of the cluster is large enough."""
        return any(one.holds(need) for one in self.machines)

    def lose(self, machine: int) -> None:
        """Do nothing: the batch system knows its machines."""


class Room:
    """The free room on some machines."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self._kinds = tuple(dict.fromkeys(self.machines))
        self._free: list[Need] = [(one.cores, one.memory, one.disk) for one in machines]
        # Machines by their number of free cores, those with the least free memory first.
        self._rows: dict[float, list[tuple[float, int]]] = {}
        self._reserved: set[int] = set()
        self._lost: set[int] = set()
        self._gained: set[int] = set()
        for number in range(len(machines)):
            self._show(number)

    def find(self, need: Need) -> int | None:
        """Return the fullest machine with enough room, or None."""
        cores, memory, disk = need
        best = None
        for free, row in self._rows.items():
            if free >= cores and row[-1][0] >= memory:
                for place in range(bisect_left(row, (memory, -1)), len(row)):
                    one = row[place]
                    if best is not None and one >= best:
                        break
                    if self._free[one[1]][2] >= disk:
                        best = one
                        break
        return None if best is None else best[1]

    def take(self, machine: int, need: Need) -> None:
        """Note that an attempt started."""
        self._change(machine, need, -1)

    def give_back(self, machine: int, need: Need) -> None:
        """Note that an attempt ended."""
        self._change(machine, need, 1)
        self._gained.add(machine)

    def gained(self) -> list[Need]:
        """Return the free amounts of machines on which room was freed since the last call."""
        found = [self._free[machine] for machine in self._gained if machine not in self._reserved]
        self._gained.clear()
        return found

    def reserve(self, need: Need) -> int | None:
        """Hide the machine that lacks least for a need from `find`, and return it; None if no machine qualifies."""
        able = [
            number
            for number, machine in enumerate(self.machines)
            if number not in self._reserved and machine.holds(need)
        ]
        if not able:
            return None
        best = min(able, key=lambda number: _lacking(need, self._free[number]))
        self._hide(best)
        self._reserved.add(best)
        return best

    def release(self, machine: int) -> None:
        """Let `find` return a reserved machine again."""
        if machine in self._lost:
            return
        self._reserved.remove(machine)
        self._gained.add(machine)
        self._show(machine)

    def fits_on(self, machine: int, need: Need) -> bool:
        """Whether a machine has enough room, reserved or not."""
        return machine not in self._lost and _fits(need, self._free[machine])

    def fits_when_empty(self, machine: int, need: Need) -> bool:
        """Whether a machine has enough room when nothing else runs on it."""
        return machine not in self._lost and self.machines[machine].holds(need)

    def fits_an_empty_machine(self, need: Need) -> bool:
        """Whether an attempt could ever start."""
        return any(one.holds(need) for one in self._kinds)

    def lose(self, machine: int) -> None:
        """Note that a machine was lost: nothing starts there any more."""
        if machine not in self._reserved:
            self._hide(machine)
            self._reserved.add(machine)
        self._lost.add(machine)

    def _change(self, machine: int, need: Need, sign: int) -> None:
        shown = machine not in self._reserved
        if shown:
            self._hide(machine)
        cores, memory, disk = self._free[machine]
        self._free[machine] = cores + sign * need[0], memory + sign * need[1], disk + sign * need[2]
        if shown:
            self._show(machine)

    def _show(self, machine: int) -> None:
        cores, memory, _ = self._free[machine]
        insort(self._rows.setdefault(cores, []), (memory, machine))

    def _hide(self, machine: int) -> None:
        cores, memory, _ = self._free[machine]
        row = self._rows[cores]
        del row[bisect_left(row, (memory, machine))]
        if not row:
            del self._rows[cores]


def _fits(need: Need, room: Need) -> bool:
    return need[0] <= room[0] and need[1] <= room[1] and need[2] <= room[2]


def _lacking(need: Need, room: Need) -> float:
    """Return the largest shortage among the resources, as a fraction of the need."""
    return max((one - free) / one if one else 0.0 for one, free in zip(need, room, strict=True))


def this_machine(folder: Path) -> Machine:
    """Return what this process may use within its control groups, minus a little memory for the system.

    Disk is the free space in the file system of `folder`.
    """
    cores = min(float(len(os.sched_getaffinity(0))), _cgroup_cores())
    memory = min(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")), _cgroup_memory())
    free = os.statvfs(folder)
    whole_cores = max(1.0, float(int(cores + _LITTLE)))
    return Machine(whole_cores, float(int(memory * (1 - _FOR_THE_SYSTEM))), float(free.f_bavail * free.f_frsize))


def _cgroup_cores() -> float:
    """Return the number of cores that the control groups of this process allow."""
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
    """Return the folders of this process's control groups, up to the root, as far as they are visible."""
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
        return ""  # not provided by this kernel or container


def parse_machines(text: str) -> list[Machine]:
    """Parse machines such as ``10x16c64GB`` (number, cores, memory); kinds are separated by commas."""
    found: list[Machine] = []
    for part in text.split(","):
        matched = _MACHINES.fullmatch(part.strip())
        if matched is None or not matched[2] or not matched[3]:
            raise InputError(f'"{part}" does not name machines', hint="10x16c64GB: ten with 16 cores and 64 GB each")
        number, cores = int(matched[1] or 1), float(matched[2])
        memory, _, disk = matched[3].partition("+")
        machine = Machine(cores, float(parse_bytes(memory)), float(parse_bytes(disk)) if disk else inf)
        if not (0 < number <= 100_000 and cores > 0 and machine.memory > 0):
            raise InputError(f'"{part}": expected at least one machine with cores and memory')
        found += [machine] * number
    return found
