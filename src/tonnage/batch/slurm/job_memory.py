"""The memory of the Slurm batch job in which this process runs.

It has a module of its own because every run on this machine asks for it, and none should load the rest for that.
"""

import os
from math import inf

__all__ = ["memory_of_job"]

_MIB = 2**20


def memory_of_job() -> float:
    """Return how much memory of this node belongs to the batch job in which this process runs; infinity if unlimited.

    Slurm enforces it by a control group on most clusters, but not on all.
    """
    per_node, per_core, cores = map(_number, ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE"))
    mebibytes = per_node or per_core * cores
    return float(mebibytes * _MIB) if mebibytes else inf


def _number(variable: str) -> int:
    """Return the value of a variable; 0 if it is not set, which is also how Slurm says that there is no limit."""
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else 0
