"""Slurm: every command line and parser that Tonnage needs to submit jobs and inspect the queue."""

from tonnage.batch.slurm.scripts import SlurmOptions
from tonnage.batch.slurm.system import Slurm, connect

__all__ = ["Slurm", "SlurmOptions", "connect"]
