"""Nextflow configurations: megabytes are 2^20 bytes, and closures can use the number of the attempt."""

import re
from collections.abc import Callable, Iterator, Sequence

from tonnage.jobs import Resource
from tonnage.size.export.sizes import MIB, Sizes, head, longest, with_unit

__all__ = ["export"]


def _bytes(megabytes: int) -> str:
    text = with_unit(megabytes)
    return f"{text[:-1]}.{text[-1]}B"


_DIRECTIVES: dict[str, tuple[Resource, int, Callable[[int], str]]] = {
    "cpus": (Resource.CORES, 1, str),
    "memory": (Resource.MEMORY, MIB, _bytes),
    "disk": (Resource.DISK, MIB, _bytes),
    "time": (Resource.WALL_TIME, 60, "{}.m".format),
}
# The exit statuses of processes killed by a scheduler, as in nf-core's pipelines.
_RETRY = "{ task.exitStatus in ((130..145) + 104) ? 'retry' : 'finish' }"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_:]")


def export(sizes: Sequence[Sizes]) -> str:
    """Return a configuration with a `withName` block for each category."""
    lines = [f"// {head('nextflow', 'a configuration, for nextflow run -c FILE')}", "process {"]
    for each in sizes:
        lines += [f"    {line}" for line in _block(each)]
    return "\n".join([*lines, "}"]) + "\n"


def _block(sizes: Sizes) -> Iterator[str]:
    pattern = _pattern(sizes.category)
    if pattern != sizes.category or not pattern:
        yield f"// {sizes.heading}"
    yield from (f"// {line}" for line in sizes.reasons())
    if not pattern:
        yield "//   left out: a process must have a name"
        return
    ladders = {name: sizes.rungs(resource, unit) for name, (resource, unit, _) in _DIRECTIVES.items()}
    yield f"withName: '{pattern}' {{"
    for name, rungs in ladders.items():
        if rungs:
            yield f"    {name} = {_value(rungs, _DIRECTIVES[name][2])}"
    attempts = longest(ladders.values())
    if attempts > 1:
        yield f"    errorStrategy = {_RETRY}"
        yield f"    maxRetries = {attempts - 1}"
    yield "}"


def _value(rungs: tuple[int, ...], written: Callable[[int], str]) -> str:
    amounts = [written(rung) for rung in rungs]
    if len(rungs) == 1:
        return amounts[0]
    return f"{{ [{', '.join(amounts)}][Math.min(task.attempt, {len(rungs)}) - 1] }}"


def _pattern(category: str) -> str:
    """Return the inside of a Groovy string with a regular expression that matches only this name.

    All characters that could have a meaning for Groovy, for the expression or, as a leading ``!``, for Nextflow are
    written as numbers.
    """
    return _NOT_IN_NAMES.sub(lambda sign: rf"\\x{{{ord(sign.group()):x}}}", category)
