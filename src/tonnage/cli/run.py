"""``tonnage run``: execute a workflow."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.atomic import private_opener
from tonnage.cli.archive.options import archive_option
from tonnage.cli.clusters import ClusterChoice, cluster_options
from tonnage.cli.options import json_option, print_json, printable, read_workflow, say, workflow_arguments
from tonnage.cli.tables import counted, print_table
from tonnage.jobs import HOURS
from tonnage.option_values import amounts, pairs
from tonnage.rank.methods import METHODS
from tonnage.size.strategies import STRATEGIES
from tonnage.units import format_seconds

if TYPE_CHECKING:
    from tonnage.jobs import Resource
    from tonnage.run.folders import RunFolder
    from tonnage.run.session import Result, RunSession
    from tonnage.run.setup import Explained
    from tonnage.run.state import Summary
    from tonnage.waste import Account

__all__ = ["run"]

_FAILURES = 20
_RUNGS = 4
_GROUPS = 3  # of tasks of one category that are tried with the same


@click.command()
@workflow_arguments
@click.option(
    "--size",
    "strategy",
    type=click.Choice(STRATEGIES),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="How tasks are sized: a strategy of tonnage size.",
)
@click.option(
    "--rank",
    "method",
    type=click.Choice(METHODS),
    default="prio",
    show_default=True,
    metavar="NAME",
    help="Which task goes first: a method of tonnage rank.",
)
@click.option(
    "--machine", multiple=True, metavar="AMOUNTS", help="What tasks may use: cores=8,memory=16GB.  [default: this one]"
)
@cluster_options
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Try a task that failed so often again; one that was too small is always tried with more.",
)
@click.option("--fail-fast", is_flag=True, help="Start nothing more after the first task that failed.")
@click.option("--sandbox", is_flag=True, help="Run each task in a folder of its own: inputs linked, outputs moved out.")
@click.option("--new", is_flag=True, help="Begin a new run, even if one of this workflow is not finished.")
@click.option("--durable", is_flag=True, help="Lose nothing even if the power fails; costs some speed.")
@click.option("--explain", is_flag=True, help="Print what tasks are tried with at first, and why.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.option("--field", "fields", multiple=True, metavar="KEY=VALUE", help="Something to remember with every attempt.")
@archive_option
@click.option("--quiet", "-q", is_flag=True, help="Print only the summary.")
@json_option
def run(
    path: Path,
    source_format: str | None,
    strategy: str,
    method: str,
    machine: tuple[str, ...],
    cluster: "ClusterChoice",
    retries: int,
    fail_fast: bool,
    sandbox: bool,
    new: bool,
    durable: bool,
    explain: bool,
    dry_run: bool,
    fields: tuple[str, ...],
    url: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run WORKFLOW here or on a cluster: each task with what it needs, none lost, and the archive wiser afterwards.

    Sizes come from what tasks of the same category used before, and change as tasks end. A task that needs more than it
    was given is stopped and gets more. Run again, the same command goes on with a run that was interrupted or in which
    tasks failed. Ctrl-C lets running tasks finish; a second one ends them.

    With --on slurm tasks go to a Slurm cluster as batch jobs of your own: one for each task, alike ones as arrays, or
    with --pack many in one. They go on even if this command is killed; run again, it finds them.

    With --on htcondor they go to an HTCondor pool as one DAG, ranked and sized, whose event log this command follows;
    --sandbox lets files travel with jobs, where machines share no file system. --dry-run writes the DAG and says how it
    is submitted.

    \b
    Example: tonnage run analysis.mf
             tonnage run analysis.dag --machine cores=4,memory=8GB --explain
             tonnage run analysis.dag --on slurm --partition short --pack glume
             tonnage run analysis.dag --on htcondor --sandbox
    """
    from tonnage.run.events import Rules
    from tonnage.run.options import Options
    from tonnage.run.session import RunSession

    options = Options(
        strategy=strategy,
        rank=method,
        machine=amounts(machine, "--machine"),
        rules=Rules(retries=retries, fail_fast=fail_fast),
        sandbox=sandbox,
        durable=durable,
        new=new,
        fields=pairs(fields, "--field"),
        archive=url,
        cluster=cluster.options(),
    )
    workflow = read_workflow(path, source_format)
    with closing(RunSession(workflow, options, say, dry=dry_run)) as session:
        if explain or dry_run:
            _print_explained(session.explained(), to_errors=as_json)
        if dry_run:
            for script in session.submissions():
                click.echo("\n".join(["", *map(printable, script.splitlines())]), err=as_json)
            return 0
        result = _go(session, quiet=quiet)
    if as_json:
        print_json(_facts(result))
    else:
        _print(result)
    return _status(result)


def _go(session: "RunSession", *, quiet: bool) -> "Result":
    from time import time

    from tonnage.cli.views import LiveView, PlainView, on_terminal
    from tonnage.run.progress import Progress

    progress = Progress.of(session.engine, time())
    # By line, so that it tells the last words of an engine that is killed.
    place = session.folder.path / "run.log"
    with open(place, "a", buffering=1, encoding="utf-8", errors="replace", opener=private_opener) as log:
        live = on_terminal() and not quiet
        view = LiveView(progress, log=log) if live else PlainView(progress, quiet=quiet, log=log)
        with view:
            how = "goes on" if session.resumed else "begins"
            tasks = counted(len(progress.tasks), "task")
            view.say(f"the run {session.folder.id} {how}: {progress.before:,} of {tasks} done")
            return session.go(view)


def _status(result: "Result") -> int:
    if result.stopped_by is not None and result.done < result.tasks:
        return 128 + result.stopped_by
    return 0 if result.done == result.tasks else 1


def _print_explained(found: "list[Explained]", *, to_errors: bool) -> None:
    """Print decisions, the most usual of each category first."""
    by_category: dict[str, list[Explained]] = {}
    for one in found:
        by_category.setdefault(one.category, []).append(one)
    for category, groups in by_category.items():
        for one in groups[:_GROUPS]:
            click.echo(printable(f"{category} ({counted(one.tasks, 'task')})"), err=to_errors)
            for decision in one.decisions:
                rungs = ", then ".join(decision.resource.shown(rung) for rung in decision.ladder[:_RUNGS])
                click.echo(printable(f"  {decision.resource}: {rungs}: {decision.reason}"), err=to_errors)
        rest = sum(one.tasks for one in groups[_GROUPS:])
        if rest:
            click.echo(printable(f"{category}: {counted(rest, 'task')} more, of other sizes"), err=to_errors)


def _print(result: "Result") -> None:
    summary = result.summary
    for name, reason in list(result.failed.items())[:_FAILURES]:
        click.echo(printable(f"failed: {name}: {reason}"))
    if len(result.failed) > _FAILURES:
        click.echo(f"and {len(result.failed) - _FAILURES:,} more failed")
    if result.unreachable:
        click.echo(f"not started, because of these: {counted(result.unreachable, 'task')}")
    for warning in result.warnings:
        say(warning)
    click.echo(
        f"{result.done:,} of {counted(result.tasks, 'task')} done in {format_seconds(summary.seconds)}, "
        f"{counted(summary.attempts, 'attempt')}, {summary.retried:,} retried"
    )
    rows = [_row(resource, account) for resource, account in summary.accounts.items()]
    if rows:
        header = ["", "given", "wasted", "saved: whole machines", "max-seen"]
        print_table(header, rows, right=header[1:])
    if result.before is not None and result.done == result.tasks:
        _print_compared(result.before, summary)
    left, name = result.tasks - result.done, printable(_name_here(result.run))
    if left:
        click.echo(f"{counted(left, 'task')} left: the same command goes on; tonnage status {name} shows the run")
    if summary.attempts:
        click.echo(f"tonnage report {name} draws it: what ran when, what was wasted, what to change")


def _name_here(run: "RunFolder") -> str:
    """Return what a run is called by who is in this folder: its id, or where its workflow is elsewhere its path."""
    from shlex import quote

    here, path = Path.cwd(), run.path.absolute()
    if path.parents[2] in (here, *here.parents):
        return quote(run.id)
    return quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _row(resource: "Resource", account: "Account") -> list[str]:
    """Return what was given and wasted of a resource, and saved against two simple ways to size."""
    factor, unit = HOURS[resource.unit]
    waste = account.waste_fraction
    saved = [_saved(account.given, other) for other in (account.whole_machine, account.max_seen)]
    return [str(resource), f"{account.given / factor:.3g} {unit}", "" if waste is None else f"{waste:.0%}", *saved]


def _saved(given: float, other: float) -> str:
    if not other:
        return ""
    return f"{1 - given / other:.0%}" if given <= other else f"took {given / other:.3g} times as much"


def _print_compared(before: "Summary", now: "Summary") -> None:
    """Print the last run of the same workflow beside this one."""
    rows = [
        ["makespan", *(format_seconds(one.seconds) for one in (before, now))],
        ["attempts", *(f"{one.attempts:,}" for one in (before, now))],
        ["tasks retried", *(f"{one.retried:,}" for one in (before, now))],
    ]
    for resource in now.accounts:
        accounts = [one.accounts.get(resource) for one in (before, now)]
        factor, unit = HOURS[resource.unit]
        rows.append(
            [f"{resource} given", *("" if one is None else f"{one.given / factor:.3g} {unit}" for one in accounts)]
        )
        wastes = [None if one is None else one.waste_fraction for one in accounts]
        rows.append([f"{resource} wasted", *("" if one is None else f"{one:.0%}" for one in wastes)])
    click.echo()
    print_table(["the same workflow", "last time", "now"], rows, right=["last time", "now"])


def _facts(result: "Result") -> dict[str, object]:
    summary = result.summary
    return {
        "run": result.run.id,
        "folder": str(result.run.path),
        "tasks": result.tasks,
        "done": result.done,
        "failed": len(result.failed),
        "failures": result.failed,
        "unreachable": result.unreachable,
        "attempts": summary.attempts,
        "outcomes": {str(outcome): count for outcome, count in summary.outcomes.items()},
        "retried": summary.retried,
        "makespan_seconds": summary.seconds,
        "waste_fraction": {str(resource): one.waste_fraction for resource, one in summary.accounts.items()},
        "given": {str(resource): one.given for resource, one in summary.accounts.items()},
        "used": {str(resource): one.used for resource, one in summary.accounts.items()},
        "whole_machine": {str(resource): one.whole_machine for resource, one in summary.accounts.items()},
        "max_seen": {str(resource): one.max_seen for resource, one in summary.accounts.items()},
        "stopped_by": result.stopped_by,
        "before": None if result.before is None else _compared(result.before),
    }


def _compared(before: "Summary") -> dict[str, object]:
    return {
        "attempts": before.attempts,
        "retried": before.retried,
        "makespan_seconds": before.seconds,
        "waste_fraction": {str(resource): one.waste_fraction for resource, one in before.accounts.items()},
        "given": {str(resource): one.given for resource, one in before.accounts.items()},
    }
