"""Snakemake profiles: megabytes are 10^6 bytes, run times minutes, and expressions can use the attempt's number."""

from collections.abc import Iterator, Sequence

from tonnage.jobs import Resource
from tonnage.size.export.sizes import LONGEST_NAME, Sizes, head, longest

__all__ = ["export"]

_UNITS = {Resource.CORES: 1, Resource.MEMORY: 10**6, Resource.DISK: 10**6, Resource.WALL_TIME: 60}
_NAMES = {Resource.MEMORY: "mem_mb", Resource.DISK: "disk_mb", Resource.WALL_TIME: "runtime"}


def export(sizes: Sequence[Sizes]) -> str:
    """Return the config.yaml of a profile."""
    rules = [each for each in sizes if _is_rule(each.category)]
    # A profile has one number of retries for all rules; a rule with fewer rungs repeats its last one.
    attempts = longest(each.rungs(resource, unit) for each in rules for resource, unit in _UNITS.items())
    lines = [
        f"# {head('snakemake', 'the config.yaml of a profile, for snakemake --profile FOLDER')}",
        *_left_out(sizes),
        f"retries: {max(attempts - 1, 0)}",
        *_section("set-threads:", [line for each in rules for line in _threads(each)]),
        *_section("set-resources:", [line for each in rules for line in _resources(each)]),
    ]
    return "\n".join(lines) + "\n"


def _left_out(sizes: Sequence[Sizes]) -> Iterator[str]:
    for each in sizes:
        if not _is_rule(each.category):
            yield f"# {each.heading}"
            yield from (f"#   {line}" for line in each.reasons())
            yield "#   left out: no rule can have this name"


def _is_rule(name: str) -> bool:
    """Whether a rule can have this name; YAML does not accept keys that are much longer."""
    return name.isidentifier() and len(name) <= LONGEST_NAME


def _section(head: str, lines: list[str]) -> list[str]:
    return [head, *lines] if lines else []


def _threads(sizes: Sizes) -> Iterator[str]:
    rungs = sizes.rungs(Resource.CORES)
    if rungs:
        yield from (f"  # {line}" for line in sizes.reasons([Resource.CORES]))
        yield f'  "{sizes.category}": {_value(rungs)}'


def _resources(sizes: Sizes) -> Iterator[str]:
    ladders = {name: sizes.rungs(resource, _UNITS[resource]) for resource, name in _NAMES.items()}
    if any(ladders.values()):
        yield from (f"  # {line}" for line in sizes.reasons(_NAMES))
        # In quotes, because a rule may be called yes or null.
        yield f'  "{sizes.category}":'
        yield from (f"    {name}: {_value(rungs)}" for name, rungs in ladders.items() if rungs)


def _value(rungs: tuple[int, ...]) -> str:
    if len(rungs) == 1:
        return str(rungs[0])
    return f'"[{", ".join(map(str, rungs))}][min(attempt, {len(rungs)}) - 1]"'
