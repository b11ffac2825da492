"""``tonnage size``: recommended resources for the jobs of each category."""

from typing import TYPE_CHECKING, get_args

import click

from tonnage.cli.options import print_json, say
from tonnage.cli.source_options import source_options
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.jobs import GIVEN, Resource
from tonnage.option_values import amounts, pairs, part, parts
from tonnage.size.export import EXPORTERS
from tonnage.size.strategies import STRATEGIES, WITH_OBJECTIVE, Objective
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tonnage.job_sources import Reading
    from tonnage.jobs import History
    from tonnage.size import QueueChoice, Sized

__all__ = ["check_share", "size"]

_SHOWN = 40
_RUNGS = 3
_ORDER = (Resource.MEMORY, Resource.CORES, Resource.DISK, Resource.WALL_TIME)
"""The resources, those first that are most often wasted."""
_ROOM_FOR_NAMES = 30
_AGAINST = {"requested": "the current requests", "max-seen": "the largest peak for every job"}


@click.command()
@click.argument("texts", metavar="SOURCE...", nargs=-1, required=True)
@source_options
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="One of the strategies above.",
)
@click.option(
    "--objective",
    type=click.Choice(get_args(Objective)),
    help="What auto and ladder optimise.  [default: waste]",
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    type=click.Choice([one.value for one in GIVEN]),
    help="Size only this resource; can be repeated.",
)
@click.option("--machine", multiple=True, metavar="AMOUNTS", help="Largest machine: cores=16,memory=64GiB,disk=1TB.")
@click.option(
    "--by",
    default="category",
    show_default=True,
    metavar="NAME",
    help="Group jobs by category, label, executable or one of your own fields; none puts all in one group.",
)
@click.option("--declare", multiple=True, metavar="AMOUNTS", help="Amounts for the strategy declared.")
@click.option(
    "--percentile", default=0.95, show_default=True, metavar="SHARE", help="Share of the jobs that percentile covers."
)
@click.option(
    "--buckets",
    type=click.IntRange(1, 1000),
    default=2,
    show_default=True,
    help="Number of buckets for quantized and k-means.",
)
@click.option(
    "--bucket",
    metavar="BYTES",
    help="Round memory and disk up to a multiple of this: 50MB.  [default: as people write them]",
)
@click.option(
    "--minimum",
    multiple=True,
    metavar="AMOUNTS",
    help="The least that a job gets: memory=1GB.  [default: what the tool needs]",
)
@click.option("--headroom", metavar="PERCENT", help="Give jobs so much more than recommended.  [default: 0%]")
@click.option("--half-life", type=float, metavar="JOBS", help="Let a job count half as much after this many others.")
@click.option(
    "--attempt-cost",
    metavar="PERCENT",
    help="Cost of an attempt for auto and ladder, relative to the largest peak.  [default: auto 10%, ladder 0%]",
)
@click.option(
    "--fair-share/--no-fair-share",
    default=True,
    help="Raise amounts if the rest of --machine would be too small for any job.  [default: yes]",
)
@click.option(
    "--queues", multiple=True, metavar="NAME=TIME,...", help="Find the best queue for each category: short=2h,long=3d."
)
@click.option("--explain", is_flag=True, help="Print the reason for each decision.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", *EXPORTERS]),
    default="table",
    show_default=True,
    metavar="FORMAT",
    help="Output format: table, json, or settings for snakemake, nextflow, dagman, makeflow or sbatch.",
)
@click.option("--all", "everything", is_flag=True, help="Also write or print what is not worth changing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with --format TOOL what this tool would get.")
def size(
    texts: tuple[str, ...],
    reading: "Reading",
    strategy: str,
    objective: str | None,
    resources: tuple[str, ...],
    machine: tuple[str, ...],
    by: str,
    declare: tuple[str, ...],
    percentile: float,
    buckets: int,
    bucket: str | None,
    minimum: tuple[str, ...],
    headroom: str | None,
    half_life: float | None,
    attempt_cost: str | None,
    fair_share: bool,
    queues: tuple[str, ...],
    explain: bool,
    form: str,
    everything: bool,
    as_json: bool,
) -> None:
    """Recommend memory, cores, disk and time for each kind of job.

    A job is tried with the amount to give, and with the next one only if it ran out. "asked" is the usual request and
    "used" the largest peak. "wasted" is the fraction of the allocations that would not have been used, including
    failed attempts; "retried" is the fraction of the jobs that would have needed more than one attempt; "saves" is
    relative to the current requests or, if those are unknown, to the largest peak for every job.

    Amounts are rounded as people write them, in the units of the tool that the logs come from or the settings are for,
    and not below what a job needs there. Settings hold what is worth changing, the largest savings first.

    \b
    Strategies:
      auto                    the best ladder, based on past jobs and their inputs
      ladder                  the least waste with any number of retries
      min-waste               the least waste with one retry (Tovar et al., Equation 1)
      min-waste-independent   the same without run times (Equation 2: "min. waste" in the paper's figures)
      min-waste-slots         the same in equal shares of the largest amount
      max-throughput          the most jobs for the resources (Equation 3)
      max-throughput-slots    the same if only a whole number of jobs runs at once
      brute-force-waste, brute-force-throughput    reference results for these equations
      regression              linear in the size of the input
      max-seen, percentile, declared, doubling, whole-machine
      quantized, k-means      buckets (Phung et al.)
      density                 the largest peak of each cluster of similar jobs (Zhang et al.)

    \b
    Example: tonnage size trace.txt --machine cores=16,memory=64GiB
             tonnage size trace.txt --machine memory=64GiB --format nextflow > sizes.config
    """
    from dataclasses import replace

    from tonnage.api import histories_for, sizes_for
    from tonnage.size import Plan
    from tonnage.size.tools import TOOLS
    from tonnage.units import parse_bytes

    limits = _limits(queues)
    plan = Plan(
        strategy=strategy,
        objective=_check_objective(objective, strategy),
        resources=tuple(Resource(name) for name in resources) or GIVEN,
        machine=amounts(machine, "--machine"),
        declared=amounts(declare, "--declare"),
        share=check_share(percentile),
        buckets=buckets,
        unit=float(parse_bytes(bucket)) if bucket else 0.0,
        minimum=amounts(minimum, "--minimum"),
        headroom=part(headroom, "--headroom") if headroom else 0.0,
        attempt_cost=None if attempt_cost is None else part(attempt_cost, "--attempt-cost"),
        half_life=half_life,
        fair_share=fair_share,
    )
    histories, tool = histories_for(reading, texts, by, strategy)
    plan = replace(plan, tool=TOOLS.get(form, tool))
    found = sizes_for(histories, plan)
    choices = _choices(histories, limits)
    if as_json or form == "json":
        print_json({"allocations": [one.facts() for one in found], **_queue_facts(choices)})
    elif form == "table":
        _print(found, by, None if everything else _SHOWN)
        _print_queues(choices, by)
        _print_notes(found, explain)
    else:
        _export(found, form, everything)


def _limits(queues: tuple[str, ...]) -> dict[str, float]:
    """Parse the time limit of each queue."""
    from tonnage.units import parse_seconds

    limits = {name: float(parse_seconds(text)) for name, text in pairs(parts(queues), "--queues").items()}
    if any(seconds == 0 for seconds in limits.values()):
        raise InputError("--queues: the time limit of a queue cannot be 0")
    return limits


def _choices(histories: "Mapping[str, History]", limits: dict[str, float]) -> "dict[str, list[QueueChoice]]":
    from tonnage.size import compare_queues

    found = {}
    for category, history in histories.items() if limits else ():
        seconds = history.used[Resource.WALL_TIME][history.finished]
        seconds = seconds[seconds >= 0]
        if len(seconds):
            found[category] = compare_queues(seconds, limits)
    return found


def _print(found: "Sequence[Sized]", by: str, most: int | None) -> None:
    """Print a table for each resource, with at most this many rows, and then only those that differ from requests."""
    sized = {one.decision.resource for one in found}
    for number, resource in enumerate(one for one in _ORDER if one in sized):
        rows = [one for one in found if one.decision.resource == resource]
        changes = rows if most is None else [one for one in rows if one.requested != one.decision.ladder[0]]
        if number:
            click.echo()
        if not changes:
            click.echo(f"{resource}: {_unchanged(len(rows))}")
            continue
        # A run time is a promise to the scheduler: a shorter one saves nothing.
        unit = rows[0].tool.hours(resource)
        costs = [f"saves {unit[1]}", "wasted", "retried"] if unit else []
        header = [by, "jobs", "asked", "used", "give", *costs, "then"]
        cells = [_row(one, unit) for one in changes[:most]]
        click.echo(f"{resource}:")
        give_way = ("then", "retried", "wasted")
        print_table(header, cells, right=header[1:-1], give_way=give_way, names=_ROOM_FOR_NAMES)
        if len(changes) > len(cells):
            click.echo(f"and {len(changes) - len(cells):,} more; use --all to print all")
        elif len(rows) > len(changes):
            click.echo(f"not shown: {_unchanged(len(rows) - len(changes))}; use --all to print all")
        if unit:
            _print_total(rows, unit)
    if found[0].tool.is_binary and any(one.decision.resource.unit == "bytes" for one in found):
        click.echo(f"\n1 GB is 2^30 bytes here, as in {found[0].tool.name}.")


def _unchanged(categories: int) -> str:
    return "1 category stays as requested" if categories == 1 else f"{categories:,} categories stay as requested"


def _print_total(rows: "Sequence[Sized]", unit: tuple[float, str]) -> None:
    """Print what is saved and what is added, separately for each thing that they are compared with."""
    for against in dict.fromkeys(one.compared_with for one in rows):
        saved, added = (
            _rounded(sum(getattr(one, name) for one in rows if one.compared_with == against) / unit[0])
            for name in ("saved", "added")
        )
        more = "" if added == "0.0" else f"; adds {added} {unit[1]} elsewhere"
        click.echo(f"saves in total: {saved} {unit[1]}, compared with {_AGAINST[against]}{more}")


def _row(one: "Sized", unit: tuple[float, str] | None) -> list[str]:
    decision, shown = one.decision, one.format_amount
    first, *others = (shown(rung) for rung in decision.ladder)
    if len(others) > _RUNGS:
        others = [*others[: _RUNGS - 1], "…", others[-1]]
    cells = [printable(one.category) or "(none)", f"{decision.samples:,}"]
    cells += ["" if one.requested is None else shown(one.requested), "" if one.used is None else shown(one.used), first]
    if unit is not None:
        added = _rounded(one.added / unit[0])
        cells.append(f"adds {added}" if added != "0.0" else _rounded(one.saved / unit[0]))
        cells += [f"{part or 0:.1%}" for part in (decision.expected_waste, decision.expected_retries)]
    return [*cells, ", ".join(others)]


def _rounded(number: float) -> str:
    """Format a number of amounts times run times."""
    return f"{number:,.1f}"


def _print_queues(choices: "Mapping[str, Sequence[QueueChoice]]", by: str) -> None:
    if not choices:
        return
    click.echo()
    rows = []
    for category, queues in choices.items():
        for place, one in enumerate(queues):
            best = "best" if place == 0 and one.throughput else ""
            cells = [one.queue, f"{one.fits:.1%}", f"{one.throughput:.2f}", best]
            rows.append([printable(category) or "(none)", *cells])
    print_table([by, "queue", "finish in time", "throughput", ""], rows, right=["finish in time", "throughput"])


def _print_notes(found: "Sequence[Sized]", explain: bool) -> None:
    """Print warnings, and with `explain` also reasons and notes."""
    for one in found:
        where = f"{printable(one.category) or '(none)'}, {one.decision.resource}"
        for warning in one.warnings:
            click.echo(f"\n{where}: {printable(warning)}")
        if not explain:
            continue
        click.echo(f"\n{where}: {one.decision.reason}")
        for note in one.notes:
            click.echo(f"  {printable(note)}")


def _export(found: "Sequence[Sized]", form: str, everything: bool) -> None:
    from tonnage.size.export import exported, worth_changing

    chosen = found if everything else worth_changing(found)
    text = exported(form, chosen)
    click.echo(text, nl=False)
    if len(chosen) < len(found):
        few = f"{len(found) - len(chosen):,} of {counted(len(found), 'size')}"
        say(f"left out as not worth changing: {few}; --all writes them")
    left_out = text.count("left out: ")
    if left_out:
        click.echo(f"tonnage: left out categories whose names {form} does not support: {left_out:,}", err=True)
    for one in chosen:
        for warning in one.warnings:
            where = f"{one.category or '(none)'}, {one.decision.resource}"
            say(f"{where}: {warning}")


def _queue_facts(choices: "Mapping[str, Sequence[QueueChoice]]") -> dict[str, object]:
    if not choices:
        return {}
    return {
        "queues": [
            {
                "category": category,
                "queue": one.queue,
                "seconds": one.seconds,
                "fits": one.fits,
                "throughput": one.throughput,
                "pays": place == 0 and one.throughput > 0,
            }
            for category, queues in choices.items()
            for place, one in enumerate(queues)
        ]
    }


def check_share(share: float) -> float:
    """Return the share of the jobs that a percentile covers; raises InputError if it is out of range."""
    if not 0 < share <= 1:
        raise InputError(f"--percentile: a share of the jobs must be above 0 and at most 1, not {share:g}")
    return share


def _check_objective(objective: str | None, strategy: str) -> Objective:
    """Return the objective of a strategy; raises InputError if the strategy has its own."""
    if objective is not None and strategy not in WITH_OBJECTIVE:
        raise InputError(
            f"--objective cannot be used with the strategy {strategy}",
            hint=f"it applies to {' and '.join(WITH_OBJECTIVE)}; other strategies have their own objective, or none",
        )
    return "throughput" if objective == "throughput" else "waste"
