"""Sizes in the formats of workflow tools: one module per tool, each with a function from sizes to text."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tonnage.lazy import Deferred, exports

if TYPE_CHECKING:
    from tonnage.size.export.sizes import Sizes
    from tonnage.size.recommend import Sized
else:
    __getattr__ = exports(__name__)

__all__ = ["EXPORTERS", "Sizes", "exported", "worth_changing"]

EXPORTERS: "dict[str, Callable[[Sequence[Sizes]], str]]" = {
    "snakemake": Deferred("tonnage.size.export.snakemake:export"),
    "nextflow": Deferred("tonnage.size.export.nextflow:export"),
    "dagman": Deferred("tonnage.size.export.dagman:export"),
    "makeflow": Deferred("tonnage.size.export.makeflow:export"),
    "sbatch": Deferred("tonnage.size.export.sbatch:export"),
}
"""Functions that write the whole text of a file, by the name used in options."""

_NOTICED = 0.01
"""A change that saves less than this fraction of all that is saved is not worth the trouble."""


def exported(format: str, found: "Sequence[Sized]") -> str:
    """Return the text of a file with the sizes of each category, those that save most first."""
    from tonnage.size.export.sizes import Sizes, comment

    by_category: dict[str, list[Sized]] = {}
    for one in found:
        by_category.setdefault(one.category, []).append(one)
    sizes = [
        Sizes(
            category,
            {one.decision.resource: one.decision for one in own},
            {one.decision.resource: comment(one) for one in own},
        )
        for category, own in sorted(by_category.items(), key=lambda item: _savings(item[1]))
    ]
    return EXPORTERS[format](sizes)


def _savings(found: "Sequence[Sized]") -> list[float]:
    """Return a key that sorts categories by what they save: of memory, else of disk, else of cores."""
    saved = {str(one.decision.resource): one.saved for one in found}
    return [-saved.get(resource, 0.0) for resource in ("memory", "disk", "cores")]


def worth_changing(found: "Sequence[Sized]") -> "list[Sized]":
    """Return the sizes that save a noticeable amount, whose jobs ran out, or whose requests are unknown.

    Run times save nothing: they are worth changing if jobs ran out of them, or if no requests are known at all.
    """
    guessed = all(one.requested is None for one in found)
    total: dict[str, float] = {}
    for one in found:
        total[one.decision.resource] = total.get(one.decision.resource, 0.0) + one.saved
    return [
        one
        for one in found
        if one.ran_out
        or (one.requested is None and (guessed or one.costs))
        or 0 < one.saved >= _NOTICED * total[one.decision.resource]
    ]
