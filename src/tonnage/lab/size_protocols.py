"""The replay protocols of the literature, by their names on the command line.

A protocol defines the order in which jobs arrive, what is known at the beginning, how large the machine is, and how a
published rule is applied. `auto` and `regression` are exactly those of `tonnage size` and `tonnage run`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from tonnage.jobs import SHARED, Resource

__all__ = ["PROTOCOLS", "Machine", "Protocol"]

Machine = Mapping[Resource, float]

_MB, _GB = 1e6, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How recorded jobs are replayed to a strategy."""

    resources: tuple[Resource, ...] = (Resource.MEMORY,)
    """The resources that are sized."""
    limiting: tuple[Resource, ...] = ()
    """The resources that a job can run out of; by default the sized ones, one at a time."""
    machine: Machine | None = None
    """The size of the machine; by default the largest peak."""
    online: bool = True
    """Whether a strategy learns job by job; otherwise it knows all jobs beforehand."""
    retry_at_largest: bool = False
    """Whether a failed job is retried with the largest peak of all categories."""
    cold_start: int = 0
    """How many jobs get the whole machine at the beginning, with a strategy that learns."""
    converge: int | None = None
    """How many jobs of a category get the whole machine before it is sized, and after each surprise."""
    history: float = 0.0
    """The share of jobs known at the beginning; if it is not 0, jobs arrive in random order."""
    fewest: int = 0
    """Categories with fewer jobs are left out."""
    only_timed: bool = False
    """Whether categories with a job that took no time are left out."""
    drop_untimed: bool = False
    """Whether jobs that took no time are left out."""
    drop_last: bool = False
    grow_all: bool = False
    """Whether every resource grows when one was exhausted."""
    overdeclared: float = 1.0
    """The declared memory, as a multiple of the largest peak."""
    buckets: int = 1
    half_life: float | None = None
    share: float = 0.95
    width: float = 0.0
    """The width of a bucket in a published rule's histogram."""
    growth: float = 2.0
    """The factor by which a published rule grows the allocation of a job that exceeds every peak seen so far."""
    refit: float = 0.05
    """The relative growth of the number of jobs after which a published rule is applied again."""


_PHUNG_MACHINE = {Resource.CORES: 16.0, Resource.MEMORY: 64_000 * _MB, Resource.DISK: 64_000 * _MB}

PROTOCOLS: dict[str, Protocol] = {
    "tovar": Protocol(online=False, retry_at_largest=True, drop_untimed=True, growth=inf, width=50 * _MB),
    "tovar-online": Protocol(converge=25, drop_untimed=True, growth=inf, width=50 * _MB),
    "phung": Protocol(
        limiting=SHARED,
        machine=_PHUNG_MACHINE,
        cold_start=10,
        drop_last=True,
        grow_all=True,
        overdeclared=1.05,
        growth=inf,
        refit=0.0,
    ),
    "sizey": Protocol(machine={Resource.MEMORY: 128 * _GB}, history=0.3, fewest=34, only_timed=True),
}
"""The protocols by name; docs/replay.md says where each comes from."""
