"""How the literature replays jobs, by the names that the command line has for it.

A protocol says in which order jobs come, what is known at the beginning, how large a machine is, and how a published
rule is applied. `auto` and `regression` are the same as in `tonnage size` and `tonnage run`, to the last setting.
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
    """How recorded jobs are played to a strategy."""

    resources: tuple[Resource, ...] = (Resource.MEMORY,)
    """What is looked at."""
    limiting: tuple[Resource, ...] = ()
    """What a job can run out of; by default what is looked at, one at a time."""
    machine: Machine | None = None
    """How much there is; by default the largest peak."""
    online: bool = True
    """Whether a strategy learns job by job, or knows all jobs beforehand."""
    retry_at_largest: bool = False
    """Whether a job that failed gets the largest peak of all categories."""
    cold_start: int = 0
    """How many jobs get the whole machine first, with a strategy that learns."""
    converge: int | None = None
    """How many jobs of a category get the whole machine before it is sized, and after each surprise."""
    history: float = 0.0
    """The part of the jobs that is known at the beginning; with it, jobs come in random order."""
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
    """What users declare, as a multiple of the largest peak of memory."""
    buckets: int = 1
    half_life: float | None = None
    share: float = 0.95
    width: float = 0.0
    """How wide a bucket of a published rule's histogram is."""
    growth: float = 2.0
    """How many times more a job gets that exceeds all peaks that a published rule has seen."""
    refit: float = 0.05
    """By which part jobs must have become more before a published rule is applied again."""


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
"""What is known of how others replay jobs (docs/replay.md)."""
