"""What Python programs call, next to `read`, `write`, `measure` and `Executor`: the verbs that decide, as functions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import chain
from os import PathLike, fspath

from tonnage.errors import InputError
from tonnage.job_sources import Reading
from tonnage.jobs import GIVEN, Attempt, History, Resource
from tonnage.option_values import amounts_given
from tonnage.rank import rank
from tonnage.size import STRATEGIES, Plan, Records, Sized, collect, size
from tonnage.size.discover import by_density
from tonnage.size.export import EXPORTERS, exported, worth_changing
from tonnage.size.tools import OWN, TOOLS, Tool, tool_of
from tonnage.wording import counted
from tonnage.workflow import Workflow

__all__ = ["Recommendations", "histories_for", "prioritise", "read_jobs", "recommend", "sizes_for"]

_HEADER = ("category", "jobs", "resource", "asked", "used", "give", "if that is too little")


def read_jobs(
    *sources: str | PathLike[str],
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    timezone: str | None = None,
    where: Sequence[str] = (),
) -> list[Attempt]:
    """Read what past jobs used from any log that Tonnage knows, from folders of such, or from an archive.

    :param format: the format of the sources; by default it is recognised.
    :param columns: what a table's columns are called, such as ``{"memory": "rss"}``.
    :param units: the units of a table's columns, such as ``{"memory": "KiB"}``.
    :param timezone: the time zone of times without one; by default this machine's.
    :param where: conditions that jobs must satisfy, such as ``"memory>4GB"``.
    """
    reading = Reading(format, columns or {}, units or {}, timezone, where=tuple(where))
    opened = reading.sources([fspath(source) for source in sources])
    return list(chain.from_iterable(reading.attempts(source) for source in opened))


def recommend(
    *sources: str | PathLike[str] | Iterable[Attempt],
    strategy: str = "auto",
    machine: Mapping[str, str | float] | None = None,
    resources: Sequence[str] = GIVEN,
    by: str = "category",
    minimum: Mapping[str, str | float] | None = None,
    headroom: float = 0.0,
) -> "Recommendations":
    """Recommend memory, cores, disk and time for each kind of job, from what past jobs used.

    :param sources: logs, folders of logs or an archive; or jobs, as `read_jobs` returns them.
    :param strategy: one of the strategies of ``tonnage size``.
    :param machine: the largest machine, such as ``{"cores": 16, "memory": "64GB"}``.
    :param resources: what to recommend, of ``memory``, ``cores``, ``disk`` and ``wall_time``.
    :param by: what a kind of job is: ``category``, ``label``, ``executable``, one of your fields, or ``none``.
    :param minimum: the least that any job gets, such as ``{"memory": "1GB"}``; by default what the tool needs that the
        logs come from or the settings are for.
    :param headroom: how much more than recommended jobs get, as a fraction.
    """
    if strategy not in STRATEGIES:
        raise InputError(f'"{strategy}" is not a strategy', hint=f"one of {', '.join(STRATEGIES)}")
    unknown = [name for name in resources if name not in GIVEN]
    if unknown:
        raise InputError(f'"{unknown[0]}" cannot be recommended', hint=f"one of {', '.join(GIVEN)}")
    paths = [fspath(one) for one in sources if isinstance(one, str | PathLike)]
    jobs = [one for one in sources if not isinstance(one, str | PathLike)]
    if paths and jobs:
        raise InputError("the sources are files and jobs", hint="read the files with tonnage.read_jobs first")
    if jobs:
        histories, tool = _by_strategy(collect(chain.from_iterable(jobs), by), strategy), OWN
    else:
        histories, tool = histories_for(Reading(), paths, by, strategy)
    plan = Plan(
        strategy=strategy,
        machine=dict(amounts_given(machine or {}, GIVEN).known()),
        resources=tuple(Resource(name) for name in resources),
        tool=tool,
        minimum=dict(amounts_given(minimum or {}, GIVEN).known()),
        headroom=headroom,
    )
    return Recommendations(tuple(sizes_for(histories, plan)), histories, plan)


def prioritise(workflow: Workflow, method: str = "prio") -> Workflow:
    """Return the same workflow with priorities, the highest for the task that should run first.

    :param method: one of the methods of ``tonnage rank``.
    """
    order = rank(workflow, method).tolist()
    names = (workflow.tasks[number].name for number in order)
    return workflow.with_priorities({name: len(workflow) - place for place, name in enumerate(names)})


def histories_for(
    reading: Reading, sources: Sequence[str], by: str, strategy: str
) -> tuple[Mapping[str, History], Tool]:
    """Return the histories that a strategy sizes, and the tool that they come from.

    They are those of the groups of jobs or, for ``density``, of clusters in them.
    """
    formats: set[str] = set()
    reading = replace(reading, opened=formats.add)
    if strategy != "density":
        return reading.histories(sources, by), tool_of(formats)
    return _by_strategy(reading.records(sources, by), strategy), tool_of(formats)


def _by_strategy(records: Records, strategy: str) -> Mapping[str, History]:
    return (by_density(records) if strategy == "density" else records).histories()


def sizes_for(histories: Mapping[str, History], plan: Plan) -> list[Sized]:
    """Size the jobs of each category; raises InputError if nothing is known about any of them."""
    found = size(histories, plan)
    if found:
        return found
    jobs = sum(len(history) for history in histories.values())
    if not jobs:
        raise InputError("the sources contain no jobs that ran")
    done = sum(int(history.finished.sum()) for history in histories.values())
    what = ", ".join(plan.resources)
    raise InputError(f"{done:,} of {counted(jobs, 'job')} finished, but none has measurements of {what}")


@dataclass(frozen=True, slots=True)
class Recommendations:
    """What the jobs of each category should be given, each with its reason; a notebook shows them as a table."""

    sizes: tuple[Sized, ...]
    _histories: Mapping[str, History] = field(repr=False, compare=False)
    _plan: Plan = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[Sized]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def settings(self, tool: str, *, everything: bool = False) -> str:
        """Return them as settings for a tool: snakemake, nextflow, dagman, makeflow or sbatch.

        The amounts are in the tool's own units, and at least what it needs. Only what is worth changing is written,
        unless `everything` is asked for.
        """
        if tool not in EXPORTERS:
            raise InputError(f'there are no settings for "{tool}"', hint=f"one of {', '.join(EXPORTERS)}")
        found = sizes_for(self._histories, replace(self._plan, tool=TOOLS[tool]))
        return exported(tool, found if everything else worth_changing(found))

    def __str__(self) -> str:
        rows = [_HEADER, *map(_row, self.sizes)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in _HEADER)
        body = "".join(_html_row(one) for one in self.sizes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(one: Sized) -> tuple[str, ...]:
    decision, shown = one.decision, one.format_amount
    first, *others = map(shown, decision.ladder)
    requested = "" if one.requested is None else shown(one.requested)
    used = "" if one.used is None else shown(one.used)
    sizes = requested, used, first, ", ".join(others)
    return one.category or "(none)", f"{decision.samples:,}", str(decision.resource), *sizes


def _html_row(one: Sized) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in _row(one))
    return f'<tr title="{escape(one.decision.reason)}">{cells}</tr>'
