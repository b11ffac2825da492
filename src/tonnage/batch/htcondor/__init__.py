"""HTCondor: its command lines, the parsers for its output, and the files written for it."""

from tonnage.batch.htcondor.system import HTCondor

__all__ = ["HTCondor"]
