"""The values that travel between the rooms: what a job asks for and what it uses."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tonnage.units import Bytes, Cores, Seconds

__all__ = ["NOTHING_KNOWN", "Amounts", "Resource"]


class Resource(StrEnum):
    """A resource by the name it has in options, JSON and database columns."""

    CORES = "cores"
    MEMORY = "memory"
    DISK = "disk"
    WALL_TIME = "wall_time"
    CPU_TIME = "cpu_time"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of each resource, in cores, bytes and seconds; None is unknown."""

    cores: Cores | None = None
    memory: Bytes | None = None
    disk: Bytes | None = None
    wall_time: Seconds | None = None
    cpu_time: Seconds | None = None
    processes: int | None = None

    @classmethod
    def of(
        cls,
        *,
        cores: float | None = None,
        memory: float | None = None,
        disk: float | None = None,
        wall_time: float | None = None,
        cpu_time: float | None = None,
        processes: int | None = None,
    ) -> "Amounts":
        """Return amounts from plain numbers in base units: the border where numbers get their units."""
        return cls(
            cores=None if cores is None else Cores(float(cores)),
            memory=None if memory is None else Bytes(round(memory)),
            disk=None if disk is None else Bytes(round(disk)),
            wall_time=None if wall_time is None else Seconds(float(wall_time)),
            cpu_time=None if cpu_time is None else Seconds(float(cpu_time)),
            processes=processes,
        )

    def known(self) -> Iterator[tuple[Resource, float]]:
        """Yield the resources whose amount is known, in the order of `Resource`."""
        for resource in Resource:
            amount: float | None = getattr(self, resource)
            if amount is not None:
                yield resource, amount


NOTHING_KNOWN = Amounts()
