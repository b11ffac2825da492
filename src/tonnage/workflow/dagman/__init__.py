"""DAGMan input files (HTCondor 25), with the submit descriptions that they use."""

from tonnage.workflow.dagman.reader import read, recognises
from tonnage.workflow.dagman.writer import render

__all__ = ["read", "recognises", "render"]
