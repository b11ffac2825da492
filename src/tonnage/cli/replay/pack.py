"""``tonnage replay pack``: compare packing strategies on a recorded queue."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json
from tonnage.cli.pack import QueueOptions, log_facts, print_left_out, queue_options, work_of
from tonnage.cli.replay.parallel import on_all_cores, progress
from tonnage.cli.source_options import named
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.pack.packers import PACKERS
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tonnage.batch import Workload
    from tonnage.lab.pack_replay import Chunk, Crossings, Experiment, Result, Score
    from tonnage.pack import Work

__all__ = ["command"]

_HOUR = 3600


@click.command("pack")
@click.argument("paths", metavar="WORKFLOW...", nargs=-1, required=True, type=click.Path(path_type=Path))
@queue_options
@click.option(
    "--strategies",
    default="all",
    show_default=True,
    metavar="NAME,...",
    help="Strategies to compare; see tonnage pack.",
)
@click.option(
    "--baseline",
    type=click.Choice(PACKERS),
    default="zhang",
    show_default=True,
    metavar="NAME",
    help="Strategy to compare with.",
)
@click.option("--every", default="30m", show_default=True, metavar="TIME", help="Time between submissions.")
@click.option("--days", type=float, default=6.0, show_default=True, help="Length of the experiment in days.")
@click.option(
    "--warmup",
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Time from the log's first job to the first submission.",
)
@click.option("--spread", is_flag=True, help="Spread the same number of submissions over the whole log.")
@click.option(
    "--max-submitted",
    "caps",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Keep at most N batch jobs queued or running; can be repeated.  [default: 16, or no limit with --max-running]",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Save finished parts in this file, and resume from it.",
)
@json_option
def command(
    paths: tuple[Path, ...],
    queue: QueueOptions,
    strategies: str,
    baseline: str,
    every: str,
    days: float,
    warmup: str,
    spread: bool,
    caps: tuple[int, ...],
    resume: Path | None,
    as_json: bool,
) -> None:
    """Compare ways to pack workflows on a recorded queue, as in the experiment of GLUME's paper.

    Each workflow is submitted with each strategy at many times of the log, each time to the queue as it was then.
    The output shows the mean makespan, how much shorter it is than the baseline's (the mean over submissions), the
    number of expired batch jobs and the node-hours left idle; below that, for how many workflows a strategy is better
    or worse than another by more than 5 %. All cores are used.

    \b
    Example: tonnage replay pack *.dax --queue kth-sp2.swf.gz
             tonnage replay pack a.dax --queue kth-sp2.swf.gz --strategies glume,zhang --max-submitted 128 --spread
    """
    from tonnage.lab.pack_replay import results, scores, submission_times
    from tonnage.units import parse_seconds

    names = tuple(PACKERS) if strategies == "all" else named(strategies, PACKERS, "--strategies")
    works = _works(paths, queue)
    workload = queue.workload()
    times = submission_times(
        workload, every=int(parse_seconds(every)), days=days, warmup=int(parse_seconds(warmup)), spread=spread
    )
    experiment = queue.experiment(times, tuple(dict.fromkeys([*names, baseline])), tuple(dict.fromkeys(caps)))
    played = _played(works, workload, experiment, resume)
    found, table = results(experiment, played, baseline), scores(experiment, played)
    if as_json:
        print_json(_facts(queue, workload, found, table, baseline))
        return
    print_left_out(queue.log, workload)
    for cap in experiment.caps:
        _print_results([one for one in found if one.cap == cap], baseline, _cap(cap))
        _print_table([one for one in table if one.cap == cap], experiment.strategies)


def _works(paths: tuple[Path, ...], queue: QueueOptions) -> "dict[str, Work]":
    """Return workflows by file name, or by path where two file names are the same."""
    stems = [path.stem for path in paths]
    names = [path.stem if stems.count(path.stem) == 1 else str(path) for path in paths]
    if len(set(names)) < len(names):
        raise InputError("the same workflow is given twice", hint="give it once: the results would be the same")
    return {name: work_of(path, None, queue) for name, path in zip(names, paths, strict=True)}


def _played(
    works: "Mapping[str, Work]", workload: "Workload", experiment: "Experiment", resume: Path | None
) -> "dict[Chunk, Crossings]":
    """Replay the parts that are not in the checkpoint, and return all of them."""
    from tonnage.lab.pack_checkpoint import Saved
    from tonnage.lab.pack_replay import Player, chunks

    wanted = chunks(works, experiment)
    saved = None if resume is None else Saved(resume, works, workload, experiment)
    done = {} if saved is None else {chunk: saved.done[chunk] for chunk in wanted if chunk in saved.done}
    missing = [chunk for chunk in wanted if chunk not in done]
    with on_all_cores(Player(works, workload, experiment)) as played, progress(len(missing)) as advance:
        for chunk, found in zip(missing, played(missing), strict=True):
            done[chunk] = found
            if saved is not None:
                saved.add(chunk, found)
            advance()
    return {chunk: done[chunk] for chunk in wanted}


def _facts(
    queue: QueueOptions, workload: "Workload", found: "Sequence[Result]", table: "Sequence[Score]", baseline: str
) -> dict[str, object]:
    return {
        "queue": log_facts(queue, workload),
        "baseline": baseline,
        "results": [
            {
                "workflow": one.workflow,
                "strategy": one.strategy,
                "cap": one.cap,
                "submissions": one.submissions,
                "mean_makespan_seconds": one.mean_makespan,
                "improvement": one.improvement,
                "expired": one.expired,
                "node_hours_idle": one.idle_hours,
            }
            for one in found
        ],
        "table": [
            {
                "strategy": one.strategy,
                "rival": one.rival,
                "cap": one.cap,
                "workflows": len(one.improvements),
                "wins": one.wins(),
                "losses": one.losses(),
                "wins_any": one.wins(0.0),
                "losses_any": one.losses(0.0),
                "best": max(one.improvements),
                "worst": min(one.improvements),
            }
            for one in table
        ],
    }


def _cap(cap: int | None) -> str:
    return "any number of batch jobs" if cap is None else f"at most {counted(cap, 'batch job')} queued or running"


def _print_results(found: "Sequence[Result]", baseline: str, cap: str) -> None:
    """Print a table for each workflow, sorted by makespan."""
    for workflow in dict.fromkeys(one.workflow for one in found):
        rows = [one for one in found if one.workflow == workflow]
        submissions = counted(rows[0].submissions, "submission")
        click.echo()
        click.echo(printable(f"{workflow}: {submissions}, {cap}"))
        header = ["strategy", "makespan (h)", f"shorter than {baseline}", "expired", "idle node*h"]
        cells = [
            [
                one.strategy,
                f"{one.mean_makespan / _HOUR:,.2f}",
                "-" if one.strategy == baseline else f"{one.improvement:+.1%}",
                f"{one.expired:,}",
                f"{one.idle_hours:,.1f}",
            ]
            for one in sorted(rows, key=lambda one: one.mean_makespan)
        ]
        print_table(header, cells, right=header[1:], give_way=("idle node*h", "expired"))


def _print_table(table: "Sequence[Score]", strategies: "Sequence[str]") -> None:
    """Print the wins and losses of each strategy against every other."""
    if not table:
        return
    workflows = counted(len(table[0].improvements), "workflow")
    click.echo(f"\nwins/losses by more than 5% in {workflows}, each strategy against those in the header")
    scores = {(one.strategy, one.rival): f"{one.wins()}/{one.losses()}" for one in table}
    rows = [[name, *(scores.get((name, rival), "-") for rival in strategies)] for name in strategies]
    print_table(["", *strategies], rows, right=strategies)
