"""What both of Pegasus' formats say in the same words: profiles (what a job asks for) and redirections."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from tonnage.jobs import Amounts
from tonnage.workflow.dagman import submit

__all__ = ["REDIRECTIONS", "Asked", "asked_in_profiles"]

REDIRECTIONS = {"stdin": "<", "stdout": ">", "stderr": "2>"}
"""How a shell does what the element or key of this name says."""


class Asked(NamedTuple):
    """What profiles say about a job."""

    request: Amounts
    gpus: int
    seconds: float | None
    """The run time that they expect, where known."""


def asked_in_profiles(profiles: Mapping[tuple[str, str], str]) -> Asked:
    """Return what (namespace, key) profiles request and expect.

    Pegasus counts memory and diskspace in MB of 2^20 bytes; the condor namespace holds HTCondor's own settings.
    """
    settings = {key: value for (namespace, key), value in profiles.items() if namespace == "condor"}
    condor = submit.amounts(settings, {})

    def pegasus(key: str) -> float | None:
        return submit.amount(profiles.get(("pegasus", key), ""), 1)

    def in_bytes(key: str) -> int | None:
        value = submit.amount(profiles.get(("pegasus", key), ""), 2**20)
        return None if value is None else round(value)

    seconds = pegasus("runtime")
    minutes = pegasus("maxwalltime")
    cores, memory, disk = pegasus("cores"), in_bytes("memory"), in_bytes("diskspace")
    request = Amounts.of(
        cores=condor.cores if cores is None else cores,
        memory=condor.memory if memory is None else memory,
        disk=condor.disk if disk is None else disk,
        wall_time=condor.wall_time if minutes is None else minutes * 60,
    )
    gpus = pegasus("gpus")
    return Asked(request, submit.gpus(settings, {}) if gpus is None else math.ceil(gpus), seconds)
