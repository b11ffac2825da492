"""``tonnage pack --queue slurm``: the same question, asked of the queue of a live cluster."""

from typing import TYPE_CHECKING

import click

from tonnage.batch.registry import SCHEDULERS
from tonnage.cli.clusters import refuse_options
from tonnage.cli.options import print_json, say
from tonnage.cli.pack import QueueOptions, compare, print_trial, trial_facts
from tonnage.cli.tables import counted
from tonnage.pack.packers import PACKERS
from tonnage.units import format_seconds

if TYPE_CHECKING:
    from tonnage.batch.scheduler import Scheduler
    from tonnage.run.backends.batch.outlook import Outlook
    from tonnage.workflow import Workflow

__all__ = ["pack_live"]

_OF_LOGS = ("at", "nodes", "requests", "policy", "contiguous", "order", "node", "variation", "fudge", "min_utilisation")


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
    """Print what strategies would submit to a cluster now, and what may become of it."""
    from tonnage.run.backends.batch.backend import BatchBackend
    from tonnage.run.backends.batch.outlook import outlook
    from tonnage.run.options import Options
    from tonnage.run.setup import path_of

    refuse_options(_OF_LOGS, "logs")
    names = tuple(PACKERS) if strategy == "all" else (strategy,)
    home, most = path_of(workflow).parent, queue.max_running
    backend = BatchBackend(scheduler, home, pack=names[0], max_running=most, max_submitted=max_submitted)
    for note in backend.notes:
        say(note)
    found = outlook(workflow, Options(archive=archive), backend, names, say)
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
        said = "cannot say when it would start" if wait is None else f"says it would start in {format_seconds(wait)}"
        click.echo(f"batch job {number}: {SCHEDULERS[scheduler.name].title} itself {said}")


def _print_queue(found: "Outlook") -> None:
    queue = found.queue
    idle = int(queue.free[queue.times <= queue.now][-1])
    part = f", others' jobs run for {found.run_fraction:.0%} of their limits" if found.run_fraction < 1 else ""
    click.echo(f"the queue now: {idle:,} of {counted(queue.nodes, 'node')} idle{part}\n")


def _facts(found: "Outlook", *, every: bool, dry_run: bool) -> dict[str, object]:
    facts = [trial_facts(one) for one in found.trials]
    return {
        "queue": {"nodes": found.queue.nodes, "run_fraction": found.run_fraction},
        "slurm_wait_seconds": found.asked,
        **({"scripts": found.scripts} if dry_run else {}),
        **({"results": facts} if every else facts[0]),
    }
