"""Sizes in the words of the tools that run workflows: one module a tool, each a function from sizes to a text."""

from collections.abc import Callable, Sequence

from tonnage.size.export import dagman, makeflow, nextflow, sbatch, snakemake
from tonnage.size.export.sizes import Sizes

__all__ = ["EXPORTERS", "Sizes"]

EXPORTERS: dict[str, Callable[[Sequence[Sizes]], str]] = {
    "snakemake": snakemake.export,
    "nextflow": nextflow.export,
    "dagman": dagman.export,
    "makeflow": makeflow.export,
    "sbatch": sbatch.export,
}
"""What writes the whole text of a file, by the name that it has in options."""
