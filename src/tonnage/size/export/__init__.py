"""Sizes in the words of the tools that run workflows: one module a tool, each a function from sizes to a text."""

from collections.abc import Callable, Sequence

from tonnage.jobs import Decision, Resource
from tonnage.size.export import dagman, makeflow, nextflow, sbatch, snakemake
from tonnage.size.export.sizes import Sizes
from tonnage.size.sizing import Sized

__all__ = ["EXPORTERS", "Sizes", "exported"]

EXPORTERS: dict[str, Callable[[Sequence[Sizes]], str]] = {
    "snakemake": snakemake.export,
    "nextflow": nextflow.export,
    "dagman": dagman.export,
    "makeflow": makeflow.export,
    "sbatch": sbatch.export,
}
"""What writes the whole text of a file, by the name that it has in options."""


def exported(format: str, found: Sequence[Sized]) -> str:
    """Return the text of a file with what was found for each category."""
    decisions: dict[str, dict[Resource, Decision]] = {}
    for one in found:
        decisions.setdefault(one.category, {})[one.decision.resource] = one.decision
    return EXPORTERS[format]([Sizes(category, own) for category, own in decisions.items()])
