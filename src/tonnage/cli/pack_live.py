"""``tonnage pack --queue slurm``: forecast packing strategies on the queue of a live cluster."""

from typing import TYPE_CHECKING

import click

from tonnage.batch.registry import SCHEDULERS
from tonnage.cli.clusters import refuse_options
from tonnage.cli.options import print_json
from tonnage.cli.pack import QueueOptions, compare, print_trial, trial_facts
from tonnage.pack.packers import PACKERS
from tonnage.units import format_seconds
from tonnage.wording import counted

if TYPE_CHECKING:
    from tonnage.batch.scheduler import Scheduler
    from tonnage.run.backends.batch.outlook import Outlook
    from tonnage.workflow import Workflow

__all__ = ["pack_live"]

_LOG_OPTIONS = (
    "at",
    "nodes",
    "requests",
    "policy",
    "contiguous",
    "order",
    "node",
    "variation",
    "fudge",
    "min_utilisation",
)


def pack_live(
    workflow: "Workflow",
    scheduler: "Scheduler",
    queue: QueueOptions,
    max_submitted: int | None,
    strategy: str,
    archive: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Print what each strategy would submit to the cluster now, and a forecast of how the workflow would run."""
    from tonnage.cli.console import logged
    from tonnage.run.backends.batch.backend import BatchBackend
    from tonnage.run.backends.batch.outlook import outlook
    from tonnage.run.options import Options
    from tonnage.run.setup import path_of

    refuse_options(_LOG_OPTIONS, "logs")
    names = tuple(PACKERS) if strategy == "all" else (strategy,)
    home, most = path_of(workflow).parent, queue.max_running
    with logged():
        backend = BatchBackend(scheduler, home, pack=names[0], max_running=most, max_submitted=max_submitted)
        found = outlook(workflow, Options(archive=archive), backend, names)
    if as_json:
        print_json(_facts(found, every=strategy == "all", dry_run=dry_run))
        return
    if dry_run:
        click.echo("\n".join(found.scripts))
        return
    _print_queue(found)
    if strategy == "all":
        compare(found.trials)
        return
    print_trial(found.trials[0])
    for number, wait in enumerate(found.asked, start=1):
        start = "cannot predict its start" if wait is None else f"expects it to start in {format_seconds(wait)}"
        click.echo(f"batch job {number}: {SCHEDULERS[scheduler.name].title} itself {start}")


def _print_queue(found: "Outlook") -> None:
    queue = found.queue
    idle = int(queue.free[queue.times <= queue.now][-1])
    share = f", others' jobs use {found.run_fraction:.0%} of their time limits" if found.run_fraction < 1 else ""
    click.echo(f"the queue now: {idle:,} of {counted(queue.nodes, 'node')} idle{share}\n")


def _facts(found: "Outlook", *, every: bool, dry_run: bool) -> dict[str, object]:
    facts = [trial_facts(one) for one in found.trials]
    return {
        "queue": {"nodes": found.queue.nodes, "run_fraction": found.run_fraction},
        "slurm_wait_seconds": found.asked,
        **({"scripts": found.scripts} if dry_run else {}),
        **({"results": facts} if every else facts[0]),
    }
