"""The values that travel between the rooms: what a job asks for and what it uses."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

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

    cores: float | None = None
    memory: int | None = None
    disk: int | None = None
    wall_time: float | None = None
    cpu_time: float | None = None
    processes: int | None = None

    def known(self) -> Iterator[tuple[Resource, float]]:
        """Yield the resources whose amount is known, in the order of `Resource`."""
        for resource in Resource:
            amount: float | None = getattr(self, resource)
            if amount is not None:
                yield resource, amount


NOTHING_KNOWN = Amounts()
