"""What Python programs call, next to `read`, `write`, `measure` and `Executor`: the verbs that decide, as functions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from tonnage.size.export import EXPORTERS, exported
from tonnage.wording import counted
from tonnage.workflow import Workflow

__all__ = ["Recommendations", "histories_for", "prioritise", "read_jobs", "recommend", "sizes_for"]

_HEADER = ("category", "jobs", "resource", "requested", "largest", "recommended", "if that is too little")


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
) -> "Recommendations":
    """Recommend memory, cores, disk and time for each kind of job, from what past jobs used.

    :param sources: logs, folders of logs or an archive; or jobs, as `read_jobs` returns them.
    :param strategy: one of the strategies of ``tonnage size``.
    :param machine: the largest machine, such as ``{"cores": 16, "memory": "64GB"}``.
    :param resources: what to recommend, of ``memory``, ``cores``, ``disk`` and ``wall_time``.
    :param by: what a kind of job is: ``category``, ``label``, ``executable``, one of your fields, or ``none``.
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
        histories = _by_strategy(collect(chain.from_iterable(jobs), by), strategy)
    else:
        histories = histories_for(Reading(), paths, by, strategy)
    plan = Plan(
        strategy=strategy,
        machine=dict(amounts_given(machine or {}, GIVEN).known()),
        resources=tuple(Resource(name) for name in resources),
    )
    return Recommendations(tuple(sizes_for(histories, plan)))


def prioritise(workflow: Workflow, method: str = "prio") -> Workflow:
    """Return the same workflow with priorities, the highest for the task that should run first.

    :param method: one of the methods of ``tonnage rank``.
    """
    order = rank(workflow, method).tolist()
    names = (workflow.tasks[number].name for number in order)
    return workflow.with_priorities({name: len(workflow) - place for place, name in enumerate(names)})


def histories_for(reading: Reading, sources: Sequence[str], by: str, strategy: str) -> Mapping[str, History]:
    """Return the histories that a strategy sizes: of the groups of jobs or, for ``density``, of clusters in them."""
    if strategy != "density":
        return reading.histories(sources, by)
    return _by_strategy(reading.records(sources, by), strategy)


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

    def __iter__(self) -> Iterator[Sized]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def settings(self, tool: str) -> str:
        """Return them as settings for a tool: snakemake, nextflow, dagman, makeflow or sbatch."""
        if tool not in EXPORTERS:
            raise InputError(f'there are no settings for "{tool}"', hint=f"one of {', '.join(EXPORTERS)}")
        return exported(tool, self.sizes)

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
    decision, shown = one.decision, one.decision.resource.format_amount
    first, *others = map(shown, decision.ladder)
    requested = "" if one.requested is None else shown(one.requested)
    sizes = requested, shown(one.largest), first, ", ".join(others)
    return one.category or "(none)", f"{decision.samples:,}", str(decision.resource), *sizes


def _html_row(one: Sized) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in _row(one))
    return f'<tr title="{escape(one.decision.reason)}">{cells}</tr>'
