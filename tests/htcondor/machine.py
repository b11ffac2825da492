"""The machines of the stand-in, and what jobs ask of them."""

from dataclasses import dataclass

__all__ = ["Machine", "Requests"]


@dataclass(frozen=True, slots=True)
class Requests:
    """What a job asks for, or a machine has: cores, MiB of memory, KiB of disk."""

    cpus: int
    memory: int
    disk: int


@dataclass(slots=True)
class Machine:
    """A machine of the pool, and what of it is free."""

    name: str
    total: Requests
    free: Requests
    slots: int = 0

    def has_room(self, wanted: Requests) -> bool:
        """Whether a job fits into what is free."""
        free = self.free
        return wanted.cpus <= free.cpus and wanted.memory <= free.memory and wanted.disk <= free.disk

    def take(self, wanted: Requests, sign: int = 1) -> None:
        """Give room to a job, or take it back."""
        free = self.free
        self.free = Requests(
            free.cpus - sign * wanted.cpus, free.memory - sign * wanted.memory, free.disk - sign * wanted.disk
        )
