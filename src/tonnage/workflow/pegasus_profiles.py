"""What both of Pegasus' formats say in the same words: profiles (what a job asks for) and redirections."""

from collections.abc import Mapping

from tonnage.jobs import Amounts
from tonnage.workflow.dagman import submit

__all__ = ["REDIRECTIONS", "amounts_from_profiles"]

REDIRECTIONS = {"stdin": "<", "stdout": ">", "stderr": "2>"}
"""How a shell does what the element or key of this name says."""


def amounts_from_profiles(profiles: Mapping[tuple[str, str], str]) -> tuple[Amounts, float | None]:
    """Return what (namespace, key) profiles request, and the run time in seconds that they expect, where known.

    Pegasus counts memory and diskspace in MB of 2^20 bytes; the condor namespace holds HTCondor's own settings.
    """
    condor = submit.amounts({key: value for (namespace, key), value in profiles.items() if namespace == "condor"}, {})

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
    return request, seconds
