"""Slurm: every command line and parser that Tonnage needs to submit jobs and inspect the queue."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.batch.slurm.scripts import SlurmOptions
    from tonnage.batch.slurm.system import Slurm, connect
else:
    __getattr__ = exports(__name__)

__all__ = ["Slurm", "SlurmOptions", "connect"]
