"""How a workflow is to be run, as the user says."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.batch.htcondor import HTCondor
from tonnage.batch.scheduler import Scheduler
from tonnage.jobs import Resource
from tonnage.run.events import Rules

__all__ = ["ClusterOptions", "Options", "PoolOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """To which cluster tasks are sent, and how."""

    scheduler: Scheduler
    pack: str = "per-task"
    max_running: int | None = None
    max_submitted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How tasks are sent to an HTCondor pool."""

    system: HTCondor
    most: int | None = None
    """How many jobs are in the queue at most."""
    throttles: Mapping[str, int] = field(default_factory=dict)
    """And how many of a category."""
    commands: tuple[str, ...] = ()
    """More submit commands, for every job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a workflow is to be run."""

    strategy: str = "auto"
    rank: str = "prio"
    machine: Mapping[Resource, float] = field(default_factory=dict)
    """What the machine has, where the user says so."""
    rules: Rules = field(default_factory=Rules)
    sandbox: bool = False
    durable: bool = False
    new: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    archive: str | None = None
    cluster: ClusterOptions | PoolOptions | None = None
    """To which cluster or pool tasks are sent; None: they run on this machine."""
