"""``tonnage replay run``: compare sizing strategies in simulated runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json
from tonnage.cli.replay.parallel import on_all_cores, progress
from tonnage.cli.source_options import named, source_options
from tonnage.cli.tables import bar, print_table
from tonnage.errors import InputError
from tonnage.rank.methods import METHODS
from tonnage.size.strategies import STRATEGIES
from tonnage.units import format_bytes, format_seconds
from tonnage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tonnage.job_sources import Reading
    from tonnage.jobs import Resource
    from tonnage.lab.run_replay import Result
    from tonnage.lab.simulated_run import Load
    from tonnage.run.machines import Machine

__all__ = ["command"]

_STRATEGIES = tuple(name for name in STRATEGIES if name != "density")  # it must know all jobs beforehand
_USUAL = "auto,max-seen,whole-machine"
_FEW = 20_000  # tasks in total: fewer are simulated in less time than it takes to start other processes
_COLUMNS = ("strategy", "seconds", "resource", "category", "committed", "used", "first_allocation")


@click.command("run")
@click.argument("texts", metavar="WORKFLOW|SOURCE...", nargs=-1, required=True)
@source_options
@click.option(
    "--machines",
    required=True,
    metavar="KINDS",
    help="10x16c64GB: ten with 16 cores and 64 GB each; +500GB adds disk, and commas separate kinds.",
)
@click.option(
    "--strategies",
    default=_USUAL,
    show_default=True,
    metavar="NAME,...",
    help="Strategies to compare; see tonnage size.",
)
@click.option(
    "--by", default="category", show_default=True, metavar="NAME", help="How jobs are grouped; see tonnage size."
)
@click.option(
    "--rank",
    "order",
    type=click.Choice(METHODS),
    default="prio",
    show_default=True,
    metavar="NAME",
    help="Which task of a workflow goes first; see tonnage rank.",
)
@click.option("--timeline", type=click.Path(path_type=Path), metavar="FILE", help="Write amounts over time as CSV.")
@json_option
def command(
    texts: tuple[str, ...],
    reading: "Reading",
    machines: str,
    strategies: str,
    by: str,
    order: str,
    timeline: Path | None,
    as_json: bool,
) -> None:
    """Simulate a workflow, or the jobs of a log, on some machines with each strategy.

    The engine is that of tonnage run; time and machines are simulated. Every strategy starts with no history and learns
    from tasks as they finish. A task that needs more memory or disk than it was allocated fails at the end of its run
    time, and is retried with more. Cores only limit how many tasks run side by side. Jobs of a log do not depend on
    each other, and run in the log's order.

    "of the oracle" is the makespan of a run that knows each task's peaks beforehand, as a share of this makespan;
    "wasted" is the share of the allocations that was not used, failed attempts included.

    \b
    Example: tonnage replay run montage.json --machines 10x16c64GB --strategies auto,max-seen
             tonnage replay run jobs.csv --machines 4x32c128GB+1TB --timeline amounts.csv
    """
    from tonnage.run.machines import parse_machines

    names = list(_STRATEGIES) if strategies == "all" else named(strategies, _STRATEGIES, "--strategies")
    kinds = parse_machines(machines)
    load = _load(reading, texts, by)
    _warn_about_unknown(load)
    found = _played(load, kinds, list(dict.fromkeys(names)), order)
    if timeline is not None:
        _write(timeline, found)
    if as_json:
        print_json(_facts(load, kinds, found))
    else:
        _print(load, kinds, found)


def _load(reading: "Reading", texts: tuple[str, ...], by: str) -> "Load":
    from tonnage.lab.simulated_run import Load

    workflow = reading.workflow(texts)
    if workflow is None:
        return Load.of_records(reading.records(texts, by))
    if by != "category":
        raise InputError("--by does not apply to a workflow", hint="its tasks already have categories")
    return Load.of_workflow(workflow)


def _warn_about_unknown(load: "Load") -> None:
    """Warn about resources whose use is not known: no strategy can learn anything about them."""
    import numpy as np

    for resource, need in load.need.items():
        if np.isnan(need).all() and resource != "disk":  # which hardly any log records
            click.echo(f"tonnage: the {resource} used is unknown for every {_what(load)}: ignore its sizes", err=True)


def _what(load: "Load") -> str:
    return "task" if load.workflow else "job"


def _played(load: "Load", machines: "Sequence[Machine]", names: list[str], order: str) -> "list[Result]":
    """Simulate the oracle and each strategy."""
    from tonnage.lab.run_replay import Player
    from tonnage.lab.simulated_run import ORACLE, check_fits

    check_fits(load, machines)
    player = Player(load, machines, order)
    wanted = [ORACLE, *names]
    if len(load) * len(wanted) < _FEW:
        return [player(name) for name in wanted]
    found = []
    with on_all_cores(player) as played, progress(len(wanted)) as advance:
        for one in played(wanted):
            found.append(one)
            advance()
    return found


def _facts(load: "Load", machines: "Sequence[Machine]", found: "Sequence[Result]") -> dict[str, object]:
    oracle = found[0]
    return {
        "tasks": len(load),
        "machines": len(machines),
        "oracle_makespan_seconds": oracle.makespan,
        "results": [
            {
                "strategy": one.strategy,
                "makespan_seconds": one.makespan,
                "waste_fraction": {str(resource): waste for resource, waste in one.waste_fraction.items()},
                "oracle_fraction": one.against(oracle),
                "attempts": one.attempts,
                "retries": one.retries,
                "failed": one.failed,
                "timeline": _timeline(one),
            }
            for one in found[1:]
        ],
    }


def _timeline(one: "Result") -> dict[str, object]:
    """Return the amounts over time, summed over categories, and the first allocations of each category."""
    line = one.timeline
    return {
        "seconds": line.edges[:-1].tolist(),
        **{
            str(resource): {
                "committed": curve.committed.sum(axis=1).tolist(),
                "used": curve.used.sum(axis=1).tolist(),
                "first_allocation": {
                    name: [_known(value) for value in column]
                    for name, column in zip(line.categories, curve.first.T.tolist(), strict=True)
                },
            }
            for resource, curve in line.curves.items()
        },
    }


def _known(value: float) -> float | None:
    return value if value == value else None  # noqa: PLR0124 (not NaN)


def _write(path: Path, found: "Sequence[Result]") -> None:
    """Write a CSV table: a row per time span, resource and category, and one for all categories together."""
    import csv

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for one in found:
            writer.writerows(_rows(one))


def _rows(one: "Result") -> "Iterator[tuple[object, ...]]":
    line = one.timeline
    for resource, curve in line.curves.items():
        for place, begin in enumerate(line.edges[:-1].tolist()):
            committed, used, first = (rows[place].tolist() for rows in (curve.committed, curve.used, curve.first))
            yield one.strategy, begin, str(resource), "", sum(committed), sum(used), ""
            for name, *amounts, allocation in zip(line.categories, committed, used, first, strict=True):
                yield (
                    one.strategy,
                    begin,
                    str(resource),
                    name,
                    *amounts,
                    "" if _known(allocation) is None else allocation,
                )


def _print(load: "Load", machines: "Sequence[Machine]", found: "Sequence[Result]") -> None:
    """Print a line per strategy, sorted by makespan, and the memory of the first given strategy over time."""
    what = _what(load)
    click.echo(f"{counted(len(load), what)} on {counted(len(machines), 'machine')}")
    oracle, *others = found
    resources = list(oracle.waste_fraction)
    header = ["strategy", "makespan", "of the oracle", *(f"{one} wasted" for one in resources), "attempts", "retries"]
    ordered = [*sorted(others, key=lambda one: one.makespan), oracle]
    print_table(header, [_row(one, oracle, resources) for one in ordered], right=header[1:])
    for one in others:
        if one.failed:
            click.echo(f"{one.strategy}: {counted(one.failed, what)} did not succeed", err=True)
    _draw(others[0])


def _row(one: "Result", oracle: "Result", resources: "Sequence[Resource]") -> list[str]:
    return [
        one.strategy,
        format_seconds(one.makespan),
        f"{one.against(oracle):.1%}",
        *(f"{one.waste_fraction[resource]:.1%}" if resource in one.waste_fraction else "-" for resource in resources),
        f"{one.attempts:,}",
        f"{one.retries:,}",
    ]


def _draw(one: "Result") -> None:
    """Draw the memory that was committed and used over the run."""
    from tonnage.jobs import Resource

    if Resource.MEMORY not in one.waste_fraction:
        return  # the memory used is unknown
    curve = one.timeline.curves[Resource.MEMORY]
    rows = {"committed": curve.committed.sum(axis=1), "used": curve.used.sum(axis=1)}
    highest = max(float(values.max()) for values in rows.values()) or 1.0
    whole = format_seconds(one.makespan)
    click.echo(f"\n{one.strategy}: memory over the {whole} of the run, █ is {format_bytes(highest)}")
    cells = [
        [name, "".join(bar(value / highest) for value in values.tolist()), format_bytes(float(values.mean()))]
        for name, values in rows.items()
    ]
    print_table(["", "from the first start to the last end", "on average"], cells, right=("on average",))
