"""Machines: what each has, and what is free while tasks run on it."""

import re
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf
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
]


_MACHINES = re.compile(r"(?:(\d+)x)?(?=\d)(?:(\d+)c)?(.*)", re.ASCII)
_EVERYTHING = 2.0**60  # bytes: of a machine whose memory is unknown


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

    def find(self, need: Need, but: int | None = None) -> int | None:
        """Return a machine with enough room, except for one; None if there is none."""

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

    def grow(self, machine: int, before: Need, after: Need) -> None:
        """Note that a running attempt occupies more than before, even if that is more than the machine has left."""

    def hold_back(self, machine: int, memory: float) -> None:
        """Keep memory of a machine from new attempts while others run there; an empty machine is never kept empty."""

    def avoid(self, nodes: Sequence[str]) -> frozenset[str]:
        """Start nothing on these nodes from now on, the worst first, except for the last one left; return them."""


class QueueRoom:
    """Room in a batch queue: a number of attempts of any size that fits a machine, which the batch system chooses."""

    def __init__(self, machines: Sequence[Machine], most: int, nodes: Sequence[str] = ()) -> None:
        """Accept up to `most` attempts at a time; `nodes` are the names of the machines, if they are known."""
        self.machines = tuple(dict.fromkeys(machines))
        self._nodes = tuple(nodes)
        self._left = most
        self._gained = False

    def find(self, need: Need, but: int | None = None) -> int | None:  # noqa: ARG002
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

    def grow(self, machine: int, before: Need, after: Need) -> None:
        """Do nothing: the batch system enforces its own limits."""

    def hold_back(self, machine: int, memory: float) -> None:
        """Do nothing: the batch system knows what is free."""

    def avoid(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return the nodes that batch jobs are not to use; the submitter tells the batch system."""
        return _but_the_last(nodes, self._nodes) if self._nodes else frozenset(nodes)


class Room:
    """The free room on some machines."""

    def __init__(self, machines: Sequence[Machine], nodes: Sequence[str] = ()) -> None:
        """Create room on empty machines; `nodes` are their names, if they have any."""
        self.machines = tuple(machines)
        self._numbers = {name: number for number, name in enumerate(nodes)}
        self._kinds = tuple(dict.fromkeys(self.machines))
        self._free: list[Need] = [(one.cores, one.memory, one.disk) for one in machines]
        # Machines by their number of free cores, those with the least free memory first.
        self._rows: dict[float, list[tuple[float, int]]] = {}
        self._reserved: set[int] = set()
        self._lost: set[int] = set()
        self._avoided: set[int] = set()
        self._gained: set[int] = set()
        # How many attempts run on each machine, and the memory that is kept from others while some do.
        self._running = [0] * len(self.machines)
        self._held_back = [0.0] * len(self.machines)
        for number in range(len(machines)):
            self._show(number)

    def find(self, need: Need, but: int | None = None) -> int | None:
        """Return the fullest machine with enough room, except for one; None if there is none."""
        cores, memory, disk = need
        best = None
        for free, row in self._rows.items():
            if free >= cores and row[-1][0] >= memory:
                for place in range(bisect_left(row, (memory, -1)), len(row)):
                    one = row[place]
                    if best is not None and one >= best:
                        break
                    if self._free[one[1]][2] >= disk and one[1] != but:
                        best = one
                        break
        return None if best is None else best[1]

    def take(self, machine: int, need: Need) -> None:
        """Note that an attempt started."""
        self._running[machine] += 1
        first = self._running[machine] == 1
        self._change(machine, -need[0], -need[1] - first * self._held_back[machine], -need[2])

    def give_back(self, machine: int, need: Need) -> None:
        """Note that an attempt ended."""
        self._running[machine] -= 1
        last = self._running[machine] == 0
        self._change(machine, need[0], need[1] + last * self._held_back[machine], need[2])
        self._gained.add(machine)

    def grow(self, machine: int, before: Need, after: Need) -> None:
        """Note that a running attempt occupies more than before, even if that is more than the machine has left."""
        cores, memory, disk = (one - other for one, other in zip(before, after, strict=True))
        self._change(machine, cores, memory, disk)

    def hold_back(self, machine: int, memory: float) -> None:
        """Keep memory of a machine from new attempts while others run there; an empty machine is never kept empty."""
        # Whole bytes, and at most all of it twice: sums stay exact, so that machines end up empty.
        memory = float(int(min(memory, 2 * self.machines[machine].memory, _EVERYTHING)))
        less = self._held_back[machine] - memory
        if not less:
            return
        self._held_back[machine] = memory
        if self._running[machine]:
            self._change(machine, 0.0, less, 0.0)
            if less > 0:
                self._gained.add(machine)

    def gained(self) -> list[Need]:
        """Return the free amounts of machines on which room was freed since the last call."""
        found = [self._free[machine] for machine in self._gained if self._is_shown(machine)]
        self._gained.clear()
        return found

    def reserve(self, need: Need) -> int | None:
        """Hide the machine that lacks least for a need from `find`, and return it; None if no machine qualifies."""
        able = [
            number for number, machine in enumerate(self.machines) if self._is_shown(number) and machine.holds(need)
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
        if machine not in self._avoided:
            self._show(machine)

    def fits_on(self, machine: int, need: Need) -> bool:
        """Whether a machine has enough room, reserved or not."""
        return machine not in self._lost and machine not in self._avoided and _fits(need, self._free[machine])

    def fits_when_empty(self, machine: int, need: Need) -> bool:
        """Whether a machine has enough room when nothing else runs on it."""
        gone = machine in self._lost or machine in self._avoided
        return not gone and self.machines[machine].holds(need)

    def fits_an_empty_machine(self, need: Need) -> bool:
        """Whether an attempt could ever start."""
        return any(one.holds(need) for one in self._kinds)

    def lose(self, machine: int) -> None:
        """Note that a machine was lost: nothing starts there any more."""
        if self._is_shown(machine):
            self._hide(machine)
        self._reserved.add(machine)
        self._lost.add(machine)

    def avoid(self, nodes: Sequence[str]) -> frozenset[str]:
        """Start nothing on these nodes from now on, the worst first, except for the last one left; return them."""
        there = [name for name, number in self._numbers.items() if number not in self._lost]
        names = _but_the_last(nodes, there)
        wanted = {self._numbers[name] for name in names}
        for machine in wanted - self._avoided:
            if self._is_shown(machine):
                self._hide(machine)
            self._avoided.add(machine)
        for machine in self._avoided - wanted:
            self._avoided.remove(machine)
            if self._is_shown(machine):
                self._gained.add(machine)
                self._show(machine)
        return names

    def _is_shown(self, machine: int) -> bool:
        """Whether `find` may return a machine."""
        return machine not in self._reserved and machine not in self._avoided

    def _change(self, machine: int, cores: float, memory: float, disk: float) -> None:
        shown = self._is_shown(machine)
        if shown:
            self._hide(machine)
        free = self._free[machine]
        self._free[machine] = free[0] + cores, free[1] + memory, free[2] + disk
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


def _but_the_last(avoided: Sequence[str], there: Collection[str]) -> frozenset[str]:
    """Return the nodes to avoid of those that are there: never all of them."""
    found = [name for name in avoided if name in there]
    return frozenset(found[: max(0, len(there) - 1)])


def _fits(need: Need, room: Need) -> bool:
    return need[0] <= room[0] and need[1] <= room[1] and need[2] <= room[2]


def _lacking(need: Need, room: Need) -> float:
    """Return the largest shortage among the resources, as a fraction of the need."""
    return max((one - free) / one if one else 0.0 for one, free in zip(need, room, strict=True))


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
