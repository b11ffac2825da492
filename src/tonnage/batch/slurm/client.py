"""Runs Slurm's programs in the right environment, and recognises when Slurm is unreachable."""

import os
import re
from collections.abc import Collection, Mapping

from tonnage.batch.programs import SECONDS, Programs, ProgramTraits

__all__ = ["Client"]

_ADDRESSED = ("SLURM_CONF", "SLURM_CONF_SERVER")
"""Variables that locate the cluster; all others change what programs do, print or submit."""
_INHERITED = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS")
"""Variables that choose where jobs run and who pays; tasks that call sbatch themselves need them too."""
_MEANT_FOR_SLURM = re.compile(r"(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SINFO|SACCT|SACCTMGR|SCONTROL|SCANCEL)_\w*")
_PLAIN = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Times in seconds since 1970, and full lists of array elements."""

_SILENCE = re.compile(
    "|".join(
        [
            "Unable to contact slurm controller",
            "Socket timed out",
            "Zero Bytes were transmitted",
            "Communication (connection|shutdown|receive|send) (failure|error)",
            "Connection (refused|reset|timed out)",
            "No route to host|Network is unreachable|Transport endpoint is not connected",
            "backup controller in standby mode",
            "failed to open persistent connection|Problem talking to the database|Unable to connect to database",
            "Munge (encode|decode) failed|[Aa]uthentication (error|credential)",
            "Could not establish a configuration source|Failed to fetch (remote )?config",
            "Unable to establish (control|controller|configuration)",
            "Resource temporarily unavailable",
        ]
    )
)
_TRAITS = ProgramTraits(
    "Slurm",
    _SILENCE,
    hint="run tonnage on a login node of the cluster, or where Slurm's programs are on the PATH",
    hesitation="sleeping and retrying",  # printed by sbatch when the queue is full
)


class Client(Programs):
    """Runs Slurm's programs."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(_TRAITS)
        own = os.environ if environment is None else environment
        kept = {name: value for name, value in own.items() if not _MEANT_FOR_SLURM.fullmatch(name)}
        # A job inherits the environment of sbatch, which should be the user's.
        addressed = kept | {name: own[name] for name in _ADDRESSED if name in own}
        self._theirs = addressed | {name: own[name] for name in _INHERITED if own.get(name)}
        self._ours = addressed | _PLAIN

    def run(self, program: str, *words: str, stdin: str | None = None, seconds: float = SECONDS) -> str:
        """Run a read-only query, and return its output."""
        return self.call(program, words, self._ours, stdin=stdin, seconds=seconds)[0]

    def words(self, program: str, *words: str, stdin: str | None = None, seconds: float = SECONDS) -> str:
        """Run a read-only query, and return what it wrote to standard error."""
        return self.call(program, words, self._ours, stdin=stdin, seconds=seconds)[1]

    def submit(self, *words: str, held: Collection[int] = (), seconds: float = SECONDS) -> str:
        """Run sbatch in the user's own environment, which the job inherits, and return what it printed.

        It keeps the `held` descriptors open for as long as it runs, even if this process is killed.
        """
        return self.call("sbatch", words, self._theirs, seconds=seconds, held=held)[0]
