"""A whole log, simulated: when each job would have started."""

import numpy as np
from numpy.typing import NDArray

from tonnage.batch.simulator.cluster import Cluster
from tonnage.batch.simulator.workload import Workload

__all__ = ["replay"]


def replay(
    workload: Workload,
    *,
    nodes: int | None = None,
    requests: str = "accurate",
    policy: str = "conservative",
    contiguous: bool = False,
) -> NDArray[np.int64]:
    """Return when each job of a log starts on a cluster that has nothing else to do."""
    starts = np.full(len(workload), -1, np.int64)
    cluster = Cluster(
        nodes or workload.machine_nodes,
        workload,
        requests=requests,
        policy=policy,
        contiguous=contiguous,
        starts=starts,
    )
    cluster.advance()
    return starts
