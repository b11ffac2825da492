"""``tonnage replay rank``: compare ranking methods on the stochastic grid."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json, read_workflow, workflow_arguments
from tonnage.cli.replay.parallel import all_cores, progress
from tonnage.cli.source_options import named
from tonnage.cli.tables import bar, print_table
from tonnage.errors import InputError
from tonnage.rank.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tonnage.lab.rank_replay import Comparison, Ratio
    from tonnage.rank import Order
    from tonnage.workflow import Workflow

__all__ = ["command"]

_ARRIVALS = tuple(10.0**power for power in range(-3, 4))
_BATCHES = tuple(2.0**power for power in range(17))
_COLUMNS = 60
_POINTS = 500
"""The maximum number of points of an eligible-jobs curve in the JSON output."""


@click.command("rank")
@workflow_arguments
@click.option(
    "--methods", default="prio,fifo", show_default=True, metavar="NAME,...", help="Methods to compare, or all."
)
@click.option(
    "--baseline",
    default="fifo",
    show_default=True,
    type=click.Choice(METHODS),
    help="Method to compare with.",
)
@click.option(
    "--arrival", "arrivals", type=float, multiple=True, help="Mean time between batches; can be repeated.  [default: 1]"
)
@click.option(
    "--batch", "batches", type=float, multiple=True, help="Mean workers in a batch; can be repeated.  [default: 16]"
)
@click.option(
    "--samples", type=click.IntRange(1, 2_000), help="Number of means to compare.  [default: 300, or 30 in a sweep]"
)
@click.option("--runs", type=click.IntRange(1, 100_000), help="Runs per mean.  [default: 300, or 30 in a sweep]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random numbers.")
@click.option("--sweep", is_flag=True, help="Use the paper's points: arrivals 0.001 to 1000, batches 1 to 65536.")
@json_option
def command(
    path: Path,
    source_format: str | None,
    methods: str,
    baseline: str,
    arrivals: tuple[float, ...],
    batches: tuple[float, ...],
    samples: int | None,
    runs: int | None,
    seed: int,
    sweep: bool,
    as_json: bool,
) -> None:
    """Compare methods to rank jobs on the stochastic grid of the PRIO paper.

    Workers arrive in batches, at random times and in random numbers; each asks for one job, and leaves if none is
    eligible. All jobs take about one unit of time. The output shows ratios to the baseline: of the mean execution time,
    of the share of batches that found nothing to do (stalling), and of the share of requests that were satisfied
    (utilisation). Each is the median over all pairs of samples, with the range that contains 95 % of them.

    \b
    Example: tonnage replay rank analysis.dag --arrival 1 --batch 16
    """
    from tonnage.lab.rank_replay import compare
    from tonnage.rank import curve
    from tonnage.rank.grid import Grid

    if sweep and (arrivals or batches):
        raise InputError("--sweep uses the paper's points", hint="leave out --arrival and --batch")
    grids = [
        Grid(arrival, batch)
        for arrival in (_ARRIVALS if sweep else arrivals or (1.0,))
        for batch in (_BATCHES if sweep else batches or (16.0,))
    ]
    usual = 30 if sweep else 300
    names = list(METHODS) if methods == "all" else named(methods, METHODS, "--methods")
    if set(names) <= {baseline}:
        raise InputError(f"nothing to compare with {baseline}", hint="name another method with --methods")
    workflow = read_workflow(path, source_format)
    if not workflow.tasks:
        raise InputError(f'workflow "{workflow.name}" has no tasks')
    orders = _orders(workflow, [*names, baseline])
    points: list[Comparison] = []
    with all_cores() as mapper, progress(len(grids)) as advance:
        for grid in grids:
            options = {"baseline": baseline, "samples": samples or usual, "runs": runs or usual, "seed": seed}
            points += compare(workflow.graph, _played(orders), grid, mapper=mapper, **options)  # type: ignore[arg-type]
            advance()
    curves = {name: curve(workflow.graph, order) for name, order in orders.items()}
    if as_json:
        means = {name: float(eligible[:-1].mean()) for name, eligible in curves.items()}
        facts = [_facts(one) for one in points]
        print_json({"points": facts, "mean_eligible": means, "eligible": _sampled(curves, _POINTS)})
        return
    _print(points, plot=sweep)
    _draw(curves)


def _orders(workflow: "Workflow", names: "Iterable[str]") -> "dict[str, Order]":
    from tonnage.rank import rank

    return {name: rank(workflow, name) for name in dict.fromkeys(names)}


def _played(orders: "dict[str, Order]") -> "dict[str, Order | None]":
    """Return orders as the grid expects them: first in, first out is a queue, not a fixed order."""
    return {name: None if name == "fifo" else order for name, order in orders.items()}


def _print(points: "list[Comparison]", *, plot: bool) -> None:
    header = ["method", "arrival", "batch", "execution time", "stalling", "utilisation"]
    rows = [
        [one.method, f"{one.grid.between:g}", f"{one.grid.batch:g}", *map(_shown, _ratios(one).values())]
        for one in points
    ]
    if plot:
        _plot(points)
    else:
        print_table(header, rows, right=header[1:])


def _draw(curves: "dict[str, Order]") -> None:
    """Draw how many jobs are eligible from the first step to the last, all methods on the same scale."""
    highest = max(int(eligible.max()) for eligible in curves.values())
    click.echo(f"\neligible jobs from the first step to the last, one job per step: █ is {highest:,}")
    rows = []
    for name, points in _sampled(curves, _COLUMNS).items():
        bars = "".join(bar(count / max(highest, 1)) for _, count in points)
        rows.append([name, bars, f"{curves[name][:-1].mean():,.1f}"])
    print_table(["method", "", "on average"], rows, right=("on average",))


def _sampled(curves: "dict[str, Order]", most: int) -> dict[str, list[tuple[int, int]]]:
    """Return at most `most` points of each curve: a step, and how many jobs are eligible after it."""
    import numpy as np

    found = {}
    for name, eligible in curves.items():
        steps = np.unique(np.linspace(0, len(eligible) - 1, min(most, len(eligible))).astype(np.int64))
        found[name] = list(zip(steps.tolist(), eligible[steps].tolist(), strict=True))
    return found


def _plot(points: "list[Comparison]") -> None:
    """Draw the execution time by batch size: a full bar equals the baseline, the lowest is half of it."""
    click.echo("execution time for batches of 1 to 65536 workers, relative to the baseline: ▁ half or less, █ equal,")
    click.echo("▲ longer by more than 1 %. The least and the most are of points whose range does not contain 1.")
    rows: dict[tuple[str, float], list[Comparison]] = {}
    for one in points:
        rows.setdefault((one.method, one.grid.between), []).append(one)
    table = []
    for (method, arrival), row in rows.items():
        medians = [one.execution_time.median or 1.0 for one in row]
        bars = "".join("▲" if median > 1.01 else bar((median - 0.5) * 2) for median in medians)
        table.append([method, f"{arrival:g}", bars, _extreme(row, min), _extreme(row, max)])
    header = ["method", "arrival", "by batch", "least", "most"]
    print_table(header, table, right=("arrival", "least", "most"))


def _extreme(row: "list[Comparison]", extreme: "Callable[..., Comparison]") -> str:
    """Return the least or the greatest execution time that clearly differs from the baseline's, and its batch size."""
    sure = [one for one in row if not (one.execution_time.low or 0) <= 1 <= (one.execution_time.high or 2)]
    sure = [one for one in sure if ((one.execution_time.median or 1) < 1) == (extreme is min)]
    if not sure:
        return "-"
    found = extreme(sure, key=lambda one: one.execution_time.median or 1.0)
    return f"{_shown(found.execution_time)} at {found.grid.batch:g}"


def _ratios(one: "Comparison") -> "dict[str, Ratio]":
    return {"execution_time": one.execution_time, "stalling": one.stalling, "utilisation": one.utilisation}


def _shown(ratio: "Ratio") -> str:
    if ratio.median is None:
        return "-"
    return f"{ratio.median:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def _facts(one: "Comparison") -> dict[str, object]:
    return {
        "arrival": one.grid.between,
        "batch": one.grid.batch,
        "method": one.method,
        "baseline": one.baseline,
        **{
            name: {
                "ratio": ratio.median,
                "low": ratio.low,
                "high": ratio.high,
                "mean": ratio.mean,
                "deviation": ratio.deviation,
            }
            for name, ratio in _ratios(one).items()
        },
    }
