"""A Slurm batch job seen from inside: its variables, its nodes, and how to start a command on one of them."""

import os
from collections.abc import Mapping, Sequence

from tonnage.batch.scheduler import JobVariable
from tonnage.batch.slurm.host_lists import expanded
from tonnage.errors import TonnageError

__all__ = ["VARIABLES", "SlurmJob"]

VARIABLES = {
    JobVariable.ELEMENT: '"${SLURM_ARRAY_TASK_ID:-0}"',
    JobVariable.HOST: '"$SLURMD_NODENAME"',
    JobVariable.RESTARTS: '"${SLURM_RESTART_COUNT:-0}"',
}
"""How each JobVariable is written in Slurm's batch scripts."""
_NODES = "SLURM_JOB_NODELIST"
# The batch job's variables that srun needs; the rest are options of the batch job, and some would break srun.
_FOR_SRUN = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JWT")


class SlurmJob:
    """The batch job in which this process runs."""

    def nodes(self) -> list[str]:
        """Return the names of its nodes."""
        listed = os.environ.get(_NODES)
        if not listed:
            raise TonnageError(f"not inside a Slurm batch job: {_NODES} is not set")
        return list(expanded(listed))

    def launcher(self, node: str) -> Sequence[str]:
        """Return the srun prefix for a node: with everything the job has there, shared with other steps."""
        return (
            *("srun", "--overlap", "--mem=0", "--kill-on-bad-exit=0", "--export=ALL"),
            *("--nodes=1", "--ntasks=1", f"--nodelist={node}"),
        )

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for `launcher`, without variables that would pass the job's options to srun."""
        unwanted = ("SLURM_", "SRUN_")
        return {name: value for name, value in ours.items() if name in _FOR_SRUN or not name.startswith(unwanted)}
