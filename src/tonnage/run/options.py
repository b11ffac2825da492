"""The user's choices for a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tonnage.jobs import Resource
from tonnage.run.retry_rules import Rules

if TYPE_CHECKING:
    from tonnage.batch.htcondor import HTCondor
    from tonnage.batch.scheduler import Scheduler

__all__ = ["ClusterOptions", "Options", "PoolOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The cluster that tasks are submitted to, and how."""

    scheduler: "Scheduler"
    pack: str = "per-task"
    max_running: int | None = None
    max_submitted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How tasks are submitted to an HTCondor pool."""

    system: "HTCondor"
    most: int | None = None
    """The maximum number of jobs in the queue."""
    throttles: Mapping[str, int] = field(default_factory=dict)
    """The maximum number of jobs of each category."""
    commands: tuple[str, ...] = ()
    """Additional submit commands for every job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a workflow is run."""

    strategy: str = "auto"
    rank: str = "prio"
    machine: Mapping[Resource, float] = field(default_factory=dict)
    """Amounts of the machine that the user has set."""
    rules: Rules = field(default_factory=Rules)
    sandbox: bool = False
    durable: bool = False
    new: bool = False
    """Whether everything is done, even what earlier runs have done."""
    rerun: tuple[str, ...] = ()
    """Tasks and categories that run even if they are up to date."""
    outputs: tuple[str, ...] = ()
    """The outputs to make; empty for all."""
    fields: Mapping[str, str] = field(default_factory=dict)
    overridden: frozenset[str] | None = frozenset()
    """The categories whose tasks may be given less than they request; None for all."""
    history: bool = True
    """Whether sizes are learnt from the archive."""
    learn_from: tuple[str, ...] = ()
    """Jobs to learn from before those of this workflow: workflows, or filters for an archive."""
    archive: str | None = None
    cluster: ClusterOptions | PoolOptions | None = None
    """The cluster or pool that tasks are submitted to; None for this machine."""
