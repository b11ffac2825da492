"""Makeflow categories: megabytes are 2^20 bytes.

A category has one size, so it gets the first rung and a comment lists the others. Makeflow treats quotes as part of a
name, so names are written without them.
"""

from collections.abc import Iterator, Sequence

from tonnage.jobs import Resource
from tonnage.size.export.sizes import LONGEST_NAME, MIB, Sizes, head
from tonnage.workflow.formats.makeflow_syntax import escaped

__all__ = ["export"]

_VARIABLES = {"CORES": (Resource.CORES, 1), "MEMORY": (Resource.MEMORY, MIB), "DISK": (Resource.DISK, MIB)}


def export(sizes: Sequence[Sizes]) -> str:
    """Return the categories, to be placed above the rules of a workflow."""
    lines = [f"# {head('makeflow', 'put this above the rules of a Makeflow')}"]
    for each in sizes:
        lines += ["", *_block(each)]
    # Rules that name no category would otherwise belong to the last one.
    return "\n".join([*lines, "", "CATEGORY=default"]) + "\n"


def _block(sizes: Sizes) -> Iterator[str]:
    yield f"# {sizes.heading}"
    yield from (f"#   {line}" for line in sizes.reasons(resource for resource, _ in _VARIABLES.values()))
    if not _can_be_written(sizes.category):
        yield "#   left out: Makeflow does not support this name"
        return
    yield f"CATEGORY={escaped(sizes.category)}"
    for name, (resource, unit) in _VARIABLES.items():
        rungs = sizes.rungs(resource, unit)
        if rungs:
            yield f"{name}={rungs[0]}"
        if len(rungs) > 1:
            yield f"#   if that is not enough: {', '.join(f'{name}={rung}' for rung in rungs[1:])}"


def _can_be_written(category: str) -> bool:
    return category.isprintable() and category.strip() == category != "" and len(category) <= LONGEST_NAME
