"""HTCondor submit commands for the descriptions of a DAG: megabytes are 2^20 bytes.

There is no file for a whole DAG: DAGMan gives VARS to nodes, which a category does not name, so each section must be
copied, or included, into the submit description named in its heading. HTCondor supports retries with more since 25.2.1
(memory) and 25.10.1 (disk); older versions ignore them. Cores are not increased on retries, and wall time is not
requested.
"""

from collections.abc import Iterator, Sequence

from tonnage.jobs import SHARED, Resource
from tonnage.size.export.sizes import MIB, Sizes, head, with_unit
from tonnage.workflow.dagman.submit import REQUESTS

__all__ = ["export"]


def export(sizes: Sequence[Sizes]) -> str:
    """Return a section of submit commands for each category."""
    lines = [f"# {head('dagman', 'copy each section into the submit description that it names')}"]
    for each in sizes:
        lines += ["", *_section(each)]
    return "\n".join(lines) + "\n"


def _section(sizes: Sizes) -> Iterator[str]:
    yield f"# {sizes.heading}"
    yield from (f"#   {line}" for line in sizes.reasons(SHARED))
    cores = sizes.rungs(Resource.CORES)
    if cores:
        yield f"{REQUESTS['cores']} = {cores[0]}"
    yield from _megabytes("memory", sizes.rungs(Resource.MEMORY, MIB))
    yield from _megabytes("disk", sizes.rungs(Resource.DISK, MIB))


def _megabytes(name: str, rungs: tuple[int, ...]) -> Iterator[str]:
    first, *others = [f"{text[:-1]} {text[-1]}B" for text in map(with_unit, rungs)] or [""]
    if first:
        yield f"{REQUESTS[name]} = {first}"
    if others:
        yield f"retry_{REQUESTS[name]} = {', '.join(others)}"
