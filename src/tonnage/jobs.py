"""The values shared by all packages: what a job requests and what it uses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from tonnage.units import (
    Bytes,
    Cores,
    Seconds,
    format_bytes,
    format_cores,
    format_seconds,
    parse_bytes,
    parse_cores,
    parse_seconds,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AMOUNTS",
    "EXHAUSTIBLE",
    "GIVEN",
    "HOURS",
    "NOTHING_KNOWN",
    "SHARED",
    "Amounts",
    "Attempt",
    "Decision",
    "History",
    "Outcome",
    "Resource",
]


class Resource(StrEnum):
    """A resource, by its name in options, JSON and database columns."""

    CORES = "cores"
    MEMORY = "memory"
    DISK = "disk"
    WALL_TIME = "wall_time"
    CPU_TIME = "cpu_time"
    PROCESSES = "processes"

    @property
    def unit(self) -> Literal["cores", "bytes", "seconds", "processes"]:
        """The unit in which amounts of it are counted."""
        if self in (Resource.MEMORY, Resource.DISK):
            return "bytes"
        if self in (Resource.WALL_TIME, Resource.CPU_TIME):
            return "seconds"
        return "cores" if self is Resource.CORES else "processes"

    def parse(self, text: str) -> float:
        """Parse an amount as users write it: ``4GB``, ``2h``, ``8``."""
        if self.unit == "bytes":
            return float(parse_bytes(text))
        return float(parse_seconds(text) if self.unit == "seconds" else parse_cores(text))

    def format_amount(self, amount: float, *, binary: bool = False) -> str:
        """Format an amount for people, bytes in powers of 1000 or, with `binary`, of 1024."""
        if self.unit == "bytes":
            return format_bytes(amount, binary=binary)
        return format_seconds(amount) if self.unit == "seconds" else format_cores(amount)


GIVEN = (Resource.CORES, Resource.MEMORY, Resource.DISK, Resource.WALL_TIME)
"""The resources that a job can request and be allocated."""
SHARED = (Resource.CORES, Resource.MEMORY, Resource.DISK)
"""The resources that jobs running on a machine at the same time share."""
EXHAUSTIBLE = (Resource.MEMORY, Resource.DISK)
"""The resources that a job can run out of before its time limit: it is retried with more."""

HOURS = {"bytes": (1e9 * 3600, "GB*h"), "cores": (3600.0, "core*h")}
"""The size and the name of the unit in which an amount times a run time is printed, by the unit of the amount."""

_RESOURCES = tuple(Resource)  # iterating over an enumeration takes several times as long


@dataclass(frozen=True, slots=True)
class Amounts:
    """An amount of each resource, in cores, bytes and seconds; None if unknown."""

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
        """Build amounts from plain numbers in base units: here numbers get their types."""
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
        for resource in _RESOURCES:
            amount: float | None = getattr(self, resource)
            if amount is not None:
                yield resource, amount

    def updated(self, others: "Amounts") -> "Amounts":
        """Return these amounts, with those that are known in `others` replaced."""
        return replace(self, **{str(resource): getattr(others, resource) for resource, _ in others.known()})


NOTHING_KNOWN = Amounts()


AMOUNTS: dict[str, tuple[Literal["used", "requested", "allocated"], Resource]] = {
    **{str(resource): ("used", resource) for resource in Resource},
    **{f"requested_{resource}": ("requested", resource) for resource in GIVEN},
    **{f"allocated_{resource}": ("allocated", resource) for resource in GIVEN},
}
"""All amounts of an attempt, by their names in tables, conditions and database columns."""


class Outcome(StrEnum):
    """How an attempt ended, by its name in options, JSON and database columns."""

    DONE = "done"
    FAILED = "failed"
    EXHAUSTED = "exhausted"
    """It needed more of a resource than it had."""
    PREEMPTED = "preempted"
    LOST = "lost"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a task with one allocation: what it was, how it ended, what it had and what it used.

    Timestamps are seconds since 1970 in UTC; None if unknown.
    """

    native_id: str | None = None
    """Its id in the system that ran it, as globally unique as that system allows: ``slurm:refs8:13:...``."""
    row: str = ""
    """The text that it was read from: distinguishes attempts without a native id."""
    identity: bytes | None = None
    """Its key in the archive that it comes from."""

    run: str | None = None
    workflow: str | None = None
    workflow_checksum: str | None = None
    task: str | None = None
    number: int = 1
    """Which attempt of its task this is, from 1."""
    category: str | None = None
    label: str | None = None
    """The cluster that `discover` assigned it to."""
    command: str | None = None
    executable: str | None = None
    user: str | None = None
    host: str | None = None

    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    outcome: Outcome | None = None
    exhausted: Resource | None = None
    """The resource that was exhausted, if known."""
    exit_status: int | None = None
    signal: int | None = None

    requested: Amounts = NOTHING_KNOWN
    allocated: Amounts = NOTHING_KNOWN
    used: Amounts = NOTHING_KNOWN
    """The peaks of cores, memory, disk and processes, and the seconds of wall and CPU time."""
    memory_method: str | None = None
    """How memory was measured: ``pss``, ``rss``, ``max_rss``, ``cgroup`` and so on."""
    lower_bounds: tuple[str, ...] = ()
    """The resources whose use may have been higher than measured."""
    input_bytes: Bytes | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields set by the user: ``{"project": "atlas"}``."""
    raw: Mapping[str, object] = field(default_factory=dict)
    """Other information in the log, under the log's own names."""

    @property
    def finished(self) -> bool:
        """Whether it got as much as it needed, as far as known."""
        return self.outcome is None or self.outcome is Outcome.DONE


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """What past attempts of one kind used: arrays with one number per attempt, oldest first; NaN if unknown."""

    used: "Mapping[Resource, NDArray[np.float64]]"
    """The peak, or the seconds, of each resource."""
    requested: "Mapping[Resource, NDArray[np.float64]]"
    input_bytes: "NDArray[np.float64]"
    finished: "NDArray[np.bool_]"
    """Whether it got as much as it needed; the peaks of others are cut off at their limits."""
    ran_out: "NDArray[np.int8]"
    """The resource it ran out of, by its position in `Resource`, unless its task finished later; else -1."""
    memory_methods: Mapping[str, int] = field(default_factory=dict)
    """How many attempts had their memory measured by which method, as far as known."""

    def __len__(self) -> int:
        return len(self.finished)


@dataclass(frozen=True, slots=True)
class Decision:
    """How much of a resource an attempt gets, and why."""

    resource: Resource
    ladder: tuple[float, ...]
    """The amounts to try, one after the other, in base units; the last is the most that an attempt can get."""
    strategy: str
    samples: int
    """How many past jobs it is based on."""
    reason: str
    rung: int = 0
    """The rung of the ladder that this attempt gets."""
    expected_waste: float | None = None
    """The fraction of the allocations that will not be used, if future jobs are like past ones."""
    expected_retries: float | None = None
    """The fraction of the jobs that will need more than one attempt."""

    @property
    def amount(self) -> float:
        """How much this attempt gets."""
        return self.ladder[self.rung]
