"""HTCondor submit commands for the descriptions of a DAG: megabytes are 2^20 bytes.

There is no file for a whole DAG: DAGMan gives VARS to nodes, which a category does not name, so each section must be
copied, or included, into the submit description named in its heading. HTCondor supports retries with more since 25.2.1
(memory) and 25.10.1 (disk); older versions ignore them. Cores are not increased on retries, and wall time is not
requested.
"""

from collections.abc import Iterator, Sequence

from tonnage.jobs import SHARED, Resource
from tonnage.size.export.sizes import MIB, Sizes
from tonnage.workflow.dagman.submit import REQUESTS

__all__ = ["export"]


def export(sizes: Sequence[Sizes]) -> str:
    """Return a section of submit commands for each category."""
    lines = ["# Written by `tonnage size`: copy each section into the submit description that it names."]
    for each in sizes:
        lines += ["", *_section(each)]
    return "\n".join(lines) + "\n"


def _section(sizes: Sizes) -> Iterator[str]:
    yield from (f"# {line}" for line in sizes.comments(SHARED))
    cores = sizes.rungs(Resource.CORES)
    if cores:
        yield f"{REQUESTS['cores']} = {cores[0]}"
    yield from _megabytes("memory", sizes.rungs(Resource.MEMORY, MIB))
    yield from _megabytes("disk", sizes.rungs(Resource.DISK, MIB))


def _megabytes(name: str, rungs: tuple[int, ...]) -> Iterator[str]:
    if rungs:
        yield f"{REQUESTS[name]} = {rungs[0]} MB"
    if len(rungs) > 1:
        yield f"retry_{REQUESTS[name]} = {', '.join(f'{rung} MB' for rung in rungs[1:])}"
