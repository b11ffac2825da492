"""The batch queue: a simulated cluster that replays logs, and snapshots of a queue that answer "what if"."""

from tonnage.batch.cluster import POLICIES, Cluster, Event, Present, RefusedError
from tonnage.batch.replay import replay
from tonnage.batch.snapshot import Snapshot
from tonnage.batch.workload import REQUESTS, Workload

__all__ = ["POLICIES", "REQUESTS", "Cluster", "Event", "Present", "RefusedError", "Snapshot", "Workload", "replay"]
