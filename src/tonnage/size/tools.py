"""Tools that recommendations go to: their units, and the least that makes sense there."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf

from tonnage.jobs import HOURS, Resource
from tonnage.size.rounding import LEAST_BYTES, rounded_bytes, rounded_down, rounded_time
from tonnage.units import format_bytes

__all__ = ["OWN", "TOOLS", "Tool", "tool_of"]

_MIB = 2.0**20
_DECIMAL, _BINARY = 1000, 1024
_LEAST = rounded_bytes(LEAST_BYTES, _DECIMAL)
_SNAKEMAKE = 150e6
"""What Snakemake's own process takes in a job that runs elsewhere."""
_SEVERAL_GB = 10
"""Fewer of a binary unit, if not whole, are shown in the next smaller one: 4700 MB has no short form in GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """How a tool counts bytes, and what a job needs there beside its own use."""

    name: str
    base: int = _BINARY
    """A MB is this to the power of 2: 1000 or 1024."""
    least: float = 256 * _MIB
    """The least memory that a job gets: containers and shells need theirs before the job begins."""
    beside: float = 0.0
    """How much memory the tool's own process takes beside the job."""
    whole: bool = True
    """Whether amounts are whole MB, and times whole minutes."""
    logs: frozenset[str] = frozenset()
    """The formats of the logs that it writes."""

    @property
    def megabyte(self) -> int:
        """How many bytes it calls a MB."""
        return self.base**2

    @property
    def is_binary(self) -> bool:
        """Whether its units are powers of 1024."""
        return self.base == _BINARY

    def least_of(self, resource: Resource) -> float:
        """Return the least of a resource that a job gets."""
        if resource is Resource.MEMORY:
            return self.least
        return rounded_bytes(LEAST_BYTES, self.base) if resource.unit == "bytes" else 0.0

    def beside_of(self, resource: Resource) -> float:
        """Return how much of a resource the tool takes beside each job."""
        return self.beside if resource is Resource.MEMORY else 0.0

    def rounded(self, resource: Resource, amount: float, most: float = inf) -> float:
        """Round an amount up as people write it there, but not beyond `most`."""
        if resource.unit == "bytes":
            return self.limited(resource, rounded_bytes(amount, self.base), most)
        if resource.unit == "seconds":
            return self.limited(resource, rounded_time(amount), most)
        return min(float(ceil(amount)), most)

    def limited(self, resource: Resource, amount: float, most: float = inf) -> float:
        """Return an amount in whole units of the tool, rounded up, but not beyond `most`."""
        step = {"bytes": self.megabyte, "seconds": 60}.get(resource.unit, 1)
        if not self.whole or most < step:
            return min(amount, most)
        up = float(ceil(amount / step) * step)
        return up if up <= most else most // step * step

    def rounded_down(self, amount: float) -> float:
        """Round bytes down as people write them there."""
        return rounded_down(amount, self.base)

    def hours(self, resource: Resource) -> tuple[float, str] | None:
        """Return the size and the name of the unit of amounts times run times; None if they cost nothing."""
        return (self.base**3 * 3600.0, "GB*h") if resource.unit == "bytes" else HOURS.get(resource.unit)

    def format_amount(self, resource: Resource, amount: float) -> str:
        """Format an amount for people, as the tool would write it."""
        if resource.unit != "bytes" or not self.is_binary:
            return resource.format_amount(amount)
        gigabytes, megabytes = amount / self.base**3, amount / self.base**2
        if gigabytes >= 1 and gigabytes == int(gigabytes):
            return f"{gigabytes:.0f} GB"
        if 1 <= gigabytes < _SEVERAL_GB:
            return f"{megabytes:.0f} MB"
        return format_bytes(amount, binary=True).replace("KiB", "kB").replace("iB", "B")


OWN = Tool(name="Tonnage", base=_DECIMAL, least=_LEAST, whole=False)
"""For jobs that Tonnage runs, where they may outgrow what they are given, and for logs of no tool or of several."""

TOOLS = {
    "snakemake": Tool(
        name="Snakemake",
        base=_DECIMAL,
        least=rounded_bytes(LEAST_BYTES + _SNAKEMAKE, _DECIMAL),
        beside=_SNAKEMAKE,
        logs=frozenset(["snakemake"]),
    ),
    "nextflow": Tool(name="Nextflow", logs=frozenset(["nextflow"])),
    "dagman": Tool(name="HTCondor", logs=frozenset(["htcondor", "htcondor-log"])),
    "makeflow": Tool(name="Makeflow"),
    "sbatch": Tool(name="Slurm", logs=frozenset(["sacct", "sacct-json"])),
}
"""The tools that settings are written for, by the names of the exporters."""


def tool_of(formats: Iterable[str]) -> Tool:
    """Return the tool that wrote logs of these formats, if it is the same one."""
    found = set(formats) - {"other"}
    return next((tool for tool in TOOLS.values() if found and found <= tool.logs), OWN)
