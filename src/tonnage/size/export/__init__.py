"""Sizes in the formats of workflow tools: one module per tool, each with a function from sizes to text."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tonnage.lazy import Deferred, exports

if TYPE_CHECKING:
    from tonnage.jobs import Decision, Resource
    from tonnage.size.export.sizes import Sizes
    from tonnage.size.recommend import Sized
else:
    __getattr__ = exports(__name__)

__all__ = ["EXPORTERS", "Sizes", "exported"]

EXPORTERS: "dict[str, Callable[[Sequence[Sizes]], str]]" = {
    "snakemake": Deferred("tonnage.size.export.snakemake:export"),
    "nextflow": Deferred("tonnage.size.export.nextflow:export"),
    "dagman": Deferred("tonnage.size.export.dagman:export"),
    "makeflow": Deferred("tonnage.size.export.makeflow:export"),
    "sbatch": Deferred("tonnage.size.export.sbatch:export"),
}
"""Functions that write the whole text of a file, by the name used in options."""


def exported(format: str, found: "Sequence[Sized]") -> str:
    """Return the text of a file with the sizes of each category."""
    from tonnage.size.export.sizes import Sizes

    decisions: dict[str, dict[Resource, Decision]] = {}
    for one in found:
        decisions.setdefault(one.category, {})[one.decision.resource] = one.decision
    return EXPORTERS[format]([Sizes(category, own) for category, own in decisions.items()])
