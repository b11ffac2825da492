"""Slurm: every command line and every parser that Tonnage needs to submit to it, and to look at its queue."""

from tonnage.batch.slurm.scripts import SlurmOptions
from tonnage.batch.slurm.system import Slurm, connect

__all__ = ["Slurm", "SlurmOptions", "connect"]
