"""HTCondor: its command lines, what its programs print, and the files that it is given."""

from tonnage.batch.htcondor.system import HTCondor

__all__ = ["HTCondor"]
