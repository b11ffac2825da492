"""Batch queues: clients for real systems, a simulated cluster that replays logs, and snapshots for "what if"."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.batch.registry import POLICIES, REQUESTS
    from tonnage.batch.simulator.cluster import Cluster, Event, Present, replay
    from tonnage.batch.simulator.workload import Workload
    from tonnage.batch.snapshot import Snapshot
else:
    __getattr__ = exports(__name__)

__all__ = ["POLICIES", "REQUESTS", "Cluster", "Event", "Present", "Snapshot", "Workload", "replay"]
