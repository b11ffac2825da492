"""``tonnage size``: recommended resources for the jobs of each category."""

from typing import TYPE_CHECKING, get_args

import click

from tonnage.cli.options import print_json, say
from tonnage.cli.source_options import source_options
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.jobs import GIVEN, HOURS, Resource
from tonnage.option_values import amounts, pairs, part, parts
from tonnage.size.export import EXPORTERS
from tonnage.size.strategies import STRATEGIES, WITH_OBJECTIVE, Objective
from tonnage.wording import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tonnage.job_sources import Reading
    from tonnage.jobs import History
    from tonnage.size import QueueChoice, Sized

__all__ = ["check_share", "size"]

_SHOWN = 40
_RUNGS = 3
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
    "--bucket", metavar="BYTES", help="Round memory and disk up to a multiple of this: 50MB.  [default: exact]"
)
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
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
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
    half_life: float | None,
    attempt_cost: str | None,
    fair_share: bool,
    queues: tuple[str, ...],
    explain: bool,
    form: str,
    as_json: bool,
) -> None:
    """Recommend memory, cores, disk and time for each kind of job.

    A job is tried with the first amount, and with the next one only if it ran out. "wasted" is the fraction of the
    allocations that would not have been used, including failed attempts; "retried" is the fraction of the jobs that
    would have needed more than one attempt; "saved" is relative to the current requests or, if those are unknown, to
    the largest peak for every job.

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
    from tonnage.api import histories_for, sizes_for
    from tonnage.size import Plan
    from tonnage.units import parse_bytes

    form = "json" if as_json else form
    plan = Plan(
        strategy=strategy,
        objective=_check_objective(objective, strategy),
        resources=tuple(Resource(name) for name in resources) or GIVEN,
        machine=amounts(machine, "--machine"),
        declared=amounts(declare, "--declare"),
        share=check_share(percentile),
        buckets=buckets,
        unit=float(parse_bytes(bucket)) if bucket else 0.0,
        attempt_cost=None if attempt_cost is None else part(attempt_cost, "--attempt-cost"),
        half_life=half_life,
        fair_share=fair_share,
    )
    limits = _limits(queues)
    histories = histories_for(reading, texts, by, strategy)
    found = sizes_for(histories, plan)
    choices = _choices(histories, limits)
    if form == "json":
        print_json({"allocations": [one.facts() for one in found], **_queue_facts(choices)})
    elif form == "table":
        _print(found, by)
        _print_queues(choices, by)
        _print_notes(found, explain)
    else:
        _export(found, form)


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


def _print(found: "Sequence[Sized]", by: str) -> None:
    """Print a table for each resource."""
    for number, resource in enumerate(dict.fromkeys(one.decision.resource for one in found)):
        rows = [one for one in found if one.decision.resource == resource]
        if number:
            click.echo()
        # A run time is a promise to the scheduler: a shorter one saves nothing.
        unit = HOURS.get(resource.unit)
        costs = ["wasted", "retried", f"saved {unit[1]}"] if unit else []
        header = [by, "jobs", "requested", "largest", resource, "then", *costs]
        cells = [_row(one, unit) for one in rows[:_SHOWN]]
        right = [name for name in header[1:] if name != "then"]
        print_table(header, cells, right=right, give_way=("jobs", "requested", "largest", "then"))
        if len(rows) > _SHOWN:
            click.echo(f"and {len(rows) - _SHOWN:,} more; use --json to print all")
        if unit:
            against = " and ".join(dict.fromkeys(_AGAINST[one.compared_with] for one in rows))
            total = _rounded(sum(one.saved for one in rows) / unit[0])
            click.echo(f"saved in total: {total} {unit[1]}, compared with {against}")


def _row(one: "Sized", unit: tuple[float, str] | None) -> list[str]:
    decision = one.decision
    shown = decision.resource.format_amount
    first, *others = (shown(rung) for rung in decision.ladder)
    if len(others) > _RUNGS:
        others = [*others[: _RUNGS - 1], "…", others[-1]]
    cells = [printable(one.category) or "(none)", f"{decision.samples:,}"]
    cells += ["" if one.requested is None else shown(one.requested), shown(one.largest), first, " ".join(others)]
    if unit is None:
        return cells
    costs = [f"{part or 0:.1%}" for part in (decision.expected_waste, decision.expected_retries)]
    return [*cells, *costs, _rounded(one.saved / unit[0])]


def _rounded(number: float) -> str:
    """Format a number, without a sign if it rounds to 0."""
    text = f"{number:,.1f}"
    return "0.0" if text == "-0.0" else text


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


def _export(found: "Sequence[Sized]", form: str) -> None:
    from tonnage.size.export import exported

    text = exported(form, found)
    click.echo(text, nl=False)
    left_out = text.count("left out: ")
    if left_out:
        click.echo(f"tonnage: left out categories whose names {form} does not support: {left_out:,}", err=True)
    for one in found:
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
