"""Nextflow configurations: megabytes are 2^20 bytes, and closures can use the number of the attempt."""

import re
from collections.abc import Iterator, Sequence

from tonnage.jobs import Resource
from tonnage.size.export.sizes import MIB, Sizes, longest

__all__ = ["export"]

_DIRECTIVES = {
    "cpus": (Resource.CORES, 1, ""),
    "memory": (Resource.MEMORY, MIB, ".MB"),
    "disk": (Resource.DISK, MIB, ".MB"),
    "time": (Resource.WALL_TIME, 60, ".m"),
}
# The exit statuses of processes killed by a scheduler, as in nf-core's pipelines.
_RETRY = "{ task.exitStatus in ((130..145) + 104) ? 'retry' : 'finish' }"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_:]")


def export(sizes: Sequence[Sizes]) -> str:
    """Return a configuration with a `withName` block for each category."""
    lines = ["// Written by `tonnage size`: a configuration, for nextflow run -c FILE.", "process {"]
    for each in sizes:
        lines += [f"    {line}" for line in _block(each)]
    return "\n".join([*lines, "}"]) + "\n"


def _block(sizes: Sizes) -> Iterator[str]:
    yield from (f"// {line}" for line in sizes.comments())
    if not sizes.category:
        yield "//   left out: a process must have a name"
        return
    ladders = {name: sizes.rungs(resource, unit) for name, (resource, unit, _) in _DIRECTIVES.items()}
    yield f"withName: '{_pattern(sizes.category)}' {{"
    for name, rungs in ladders.items():
        if rungs:
            yield f"    {name} = {_value(rungs, _DIRECTIVES[name][2])}"
    attempts = longest(ladders.values())
    if attempts > 1:
        yield f"    errorStrategy = {_RETRY}"
        yield f"    maxRetries = {attempts - 1}"
    yield "}"


def _value(rungs: tuple[int, ...], suffix: str) -> str:
    amounts = [f"{rung}{suffix}" for rung in rungs]
    if len(rungs) == 1:
        return amounts[0]
    return f"{{ [{', '.join(amounts)}][Math.min(task.attempt, {len(rungs)}) - 1] }}"


def _pattern(category: str) -> str:
    """Return the inside of a Groovy string with a regular expression that matches only this name.

    All characters that could have a meaning for Groovy, for the expression or, as a leading ``!``, for Nextflow are
    written as numbers.
    """
    return _NOT_IN_NAMES.sub(lambda sign: rf"\\x{{{ord(sign.group()):x}}}", category)
