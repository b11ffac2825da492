"""``tonnage run``: run a workflow."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.archive.options import archive_option
from tonnage.cli.clusters import ClusterChoice, cluster_options
from tonnage.cli.options import json_option, print_json, read_workflow, workflow_arguments
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.jobs import HOURS
from tonnage.option_values import amounts, pairs
from tonnage.rank.methods import METHODS
from tonnage.size.strategies import STRATEGIES
from tonnage.units import format_seconds
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from tonnage.cli.console import Console
    from tonnage.jobs import Resource
    from tonnage.run.folders import RunFolder
    from tonnage.run.session import Result, RunSession
    from tonnage.run.setup import Explained
    from tonnage.run.state import Summary
    from tonnage.waste import Account

__all__ = ["run"]

_FAILURES = 20
_RUNGS = 4
_GROUPS = 3  # of tasks of one category with the same sizes


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
    "--machine",
    multiple=True,
    metavar="AMOUNTS",
    help="What tasks may use: cores=8,memory=16GB.  [default: the whole machine]",
)
@click.option("--cores", type=click.IntRange(1), metavar="N", help="Use N cores: the same as --machine cores=N.")
@click.option(
    "--memory", metavar="SIZE", help="Use this much memory: the same as --machine memory=SIZE. 8G is 8GiB here."
)
@click.option(
    "--jobs", "-j", type=click.IntRange(1), metavar="N", help="Run at most N tasks at a time, or N batch jobs."
)
@cluster_options
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Retry a failed task up to this many times. Tasks that ran out of memory are always retried with more.",
)
@click.option("--fail-fast", is_flag=True, help="Start no more tasks after the first failure.")
@click.option(
    "--sandbox", is_flag=True, help="Run each task in a folder of its own: inputs are linked, outputs moved out."
)
@click.option("--new", is_flag=True, help="Start a new run, even if an earlier one of this workflow is unfinished.")
@click.option("--durable", is_flag=True, help="Survive a power failure without losing results; slower.")
@click.option("--explain", is_flag=True, help="Print the first sizes of tasks, and why they were chosen.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, without doing it.")
@click.option("--field", "fields", multiple=True, metavar="KEY=VALUE", help="Store this with every attempt.")
@archive_option
@click.option("--quiet", "-q", is_flag=True, help="Print only warnings and the summary.")
@click.option("--verbose", "-v", is_flag=True, help="Log every attempt, and every call to the batch system.")
@json_option
def run(
    path: Path,
    source_format: str | None,
    strategy: str,
    method: str,
    machine: tuple[str, ...],
    cores: int | None,
    memory: str | None,
    jobs: int | None,
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
    verbose: bool,
    as_json: bool,
) -> int:
    """Run WORKFLOW on this machine or a cluster, each task with the memory, cores and disk that it needs.

    Sizes are learnt from earlier tasks of the same category, and adapt as tasks finish. A task that needs more than it
    was allocated is stopped and retried with more. Run the same command again to resume a run that was interrupted or
    in which tasks failed. Press Ctrl-C to let running tasks finish, and again to kill them.

    With --on slurm, tasks are submitted to a Slurm cluster under your account: one batch job per task, similar ones as
    arrays, or many tasks in one batch job with --pack. They continue if this command is killed; run it again to follow
    them.

    With --on htcondor, tasks are submitted to an HTCondor pool as one DAG, ranked and sized, whose event log this
    command follows. Use --sandbox to transfer files with jobs if machines share no file system. --dry-run writes the
    DAG and prints the command that submits it.

    \b
    Example: tonnage run analysis.mf
             tonnage run analysis.dag --machine cores=4,memory=8GB --explain
             tonnage run analysis.dag --on slurm --partition short --pack glume
             tonnage run analysis.dag --on htcondor --sandbox
    """
    from tonnage.cli.console import logged
    from tonnage.run.events import Rules
    from tonnage.run.options import Options
    from tonnage.run.session import RunSession

    options = Options(
        strategy=strategy,
        rank=method,
        machine=_machine(machine, cores, memory),
        rules=Rules(retries=retries, fail_fast=fail_fast, at_once=jobs if cluster.on == "local" else None),
        sandbox=sandbox,
        durable=durable,
        new=new,
        fields=pairs(fields, "--field"),
        archive=url,
        cluster=cluster.at_most(jobs).options(),
    )
    workflow = read_workflow(path, source_format)
    with (
        logged(quiet=quiet, verbose=verbose) as console,
        closing(RunSession(workflow, options, dry=dry_run)) as session,
    ):
        if explain or dry_run:
            _print_explained(session.explained(), to_errors=as_json)
        if dry_run:
            for script in session.submissions():
                click.echo("\n".join(["", *map(printable, script.splitlines())]), err=as_json)
            return 0
        result = _go(session, console, quiet=quiet)
    if as_json:
        print_json(_facts(result))
    else:
        _print(result)
    return _status(result)


def _machine(machine: tuple[str, ...], cores: int | None, memory: str | None) -> "dict[Resource, float]":
    """Return what tasks may use together, as the three options say."""
    found = amounts(machine, "--machine")
    # Everywhere else a bare G is ambiguous; sbatch, docker and Java mean 2^30 by it.
    binary = f"{memory}iB" if memory and memory[-1:].lower() in "kmgt" else memory
    given = [f"cores={cores}"] if cores is not None else []
    given += [f"memory={binary}"] if binary is not None else []
    for resource, amount in amounts(given, "--memory").items():
        if resource in found:
            raise InputError(f"--{resource} and --machine {resource}=... are both given")
        found[resource] = amount
    return found


def _go(session: "RunSession", console: "Console", *, quiet: bool) -> "Result":
    from time import time

    from tonnage.cli.run_view import LiveView, PlainView, on_terminal
    from tonnage.run.progress import Progress

    progress = Progress.of(session.engine, time())
    with LiveView(progress, console) if on_terminal() and not quiet else PlainView(progress) as view:
        return session.go(view)


def _status(result: "Result") -> int:
    if result.stopped_by is not None and result.done < result.tasks:
        return 128 + result.stopped_by
    return 0 if result.done == result.tasks else 1


def _print_explained(found: "list[Explained]", *, to_errors: bool) -> None:
    """Print decisions, the most common of each category first."""
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
            click.echo(printable(f"{category}: {counted(rest, 'more task')} with other sizes"), err=to_errors)


def _print(result: "Result") -> None:
    summary = result.summary
    for line in result.failures[:_FAILURES]:
        click.echo(printable(line))
    if len(result.failures) > _FAILURES:
        click.echo(f"and {len(result.failures) - _FAILURES:,} more kinds of failure")
    if result.unreachable:
        click.echo(f"not run, because they depend on failed tasks: {counted(result.unreachable, 'task')}")
    click.echo(
        f"{result.done:,} of {counted(result.tasks, 'task')} done in {format_seconds(summary.seconds)}, "
        f"{counted(summary.attempts, 'attempt')}, {summary.retried:,} retried"
    )
    rows = [_row(resource, account) for resource, account in summary.accounts.items()]
    if rows:
        # Of a run that is not complete, nothing is known to compare with.
        header = ["", "allocated", "wasted"]
        header += ["vs whole machine", "vs max-seen"] if result.done == result.tasks else []
        print_table(header, [row[: len(header)] for row in rows], right=header[1:])
    if result.before is not None and result.done == result.tasks:
        _print_compared(result.before, summary)
    left, name = result.tasks - result.done, printable(_name_here(result.run))
    if left:
        click.echo(
            f"{counted(left, 'task')} remaining: run the same command to resume; tonnage status {name} shows the run"
        )
    if summary.attempts:
        click.echo(f"tonnage report {name} shows what ran when, what was wasted, and what to change")


def _name_here(run: "RunFolder") -> str:
    """Return the name of a run for use in the current folder: its id or, if its workflow is elsewhere, its path."""
    from shlex import quote

    here, path = Path.cwd(), run.path.absolute()
    if path.parents[2] in (here, *here.parents):
        return quote(run.id)
    return quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _row(resource: "Resource", account: "Account") -> list[str]:
    """Return what was allocated and wasted of a resource, and the comparison with two simple strategies."""
    waste = account.waste_fraction
    compared = [_comparison(account.given, other) for other in (account.whole_machine, account.max_seen)]
    return [str(resource), _amount(account.given, resource), "" if waste is None else f"{waste:.0%}", *compared]


def _amount(given: float, resource: "Resource") -> str:
    """Format an amount times a time: in hours or, for short runs, in seconds, so that it is never 1e-06 GB*h."""
    factor, unit = HOURS[resource.unit]
    hours = given / factor
    if hours >= 0.1 or not hours:
        return f"{hours:,.3g} {unit}"
    return f"{hours * 3600:.3g} {unit.removesuffix('h')}s"


def _comparison(given: float, other: float) -> str:
    if not other:
        return ""
    return f"{1 - given / other:.0%} less" if given <= other else f"{given / other:.3g} times as much"


def _print_compared(before: "Summary", now: "Summary") -> None:
    """Compare the last run of the same workflow with this one."""
    rows = [
        ["makespan", *(format_seconds(one.seconds) for one in (before, now))],
        ["attempts", *(f"{one.attempts:,}" for one in (before, now))],
        ["tasks retried", *(f"{one.retried:,}" for one in (before, now))],
    ]
    for resource in now.accounts:
        accounts = [one.accounts.get(resource) for one in (before, now)]
        given = ("" if one is None else _amount(one.given, resource) for one in accounts)
        rows.append([f"{resource} allocated", *given])
        wastes = [None if one is None else one.waste_fraction for one in accounts]
        rows.append([f"{resource} wasted", *("" if one is None else f"{one:.0%}" for one in wastes)])
    click.echo()
    print_table(["same workflow", "last time", "now"], rows, right=["last time", "now"])


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
