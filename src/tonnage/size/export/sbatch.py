"""Options of Slurm's sbatch: megabytes are 2^20 bytes, times days-hours:minutes:seconds."""

from collections.abc import Callable, Iterator, Sequence

from tonnage.jobs import Resource
from tonnage.size.export.sizes import MIB, Sizes, head, longest, with_unit

__all__ = ["export"]


def _time(minutes: int) -> str:
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"--time={days}-{hour:02}:{minute:02}:00"


_OPTIONS: dict[Resource, tuple[int, Callable[[int], str]]] = {
    Resource.CORES: (1, "--cpus-per-task={}".format),
    Resource.MEMORY: (MIB, lambda megabytes: f"--mem={with_unit(megabytes)}"),
    Resource.WALL_TIME: (60, _time),
    Resource.DISK: (MIB, lambda megabytes: f"--tmp={with_unit(megabytes)}"),
}


def export(sizes: Sequence[Sizes]) -> str:
    """Return a line of options for each category, with those of its retries as comments."""
    lines = [f"# {head('sbatch', 'options of sbatch, one line per category')}"]
    for each in sizes:
        lines += ["", *_section(each)]
    return "\n".join(lines) + "\n"


def _section(sizes: Sizes) -> Iterator[str]:
    yield f"# {sizes.heading}"
    yield from (f"#   {line}" for line in sizes.reasons())
    attempts = list(_attempts(sizes))
    yield from attempts[:1]
    yield from (f"# retry {number}: {options}" for number, options in enumerate(attempts[1:], start=1))


def _attempts(sizes: Sizes) -> Iterator[str]:
    """Yield the options of each attempt; a resource with fewer rungs stays at its last one."""
    ladders = [(option, sizes.rungs(resource, unit)) for resource, (unit, option) in _OPTIONS.items()]
    for number in range(longest(rungs for _, rungs in ladders)):
        yield " ".join(option(rungs[min(number, len(rungs) - 1)]) for option, rungs in ladders if rungs)
