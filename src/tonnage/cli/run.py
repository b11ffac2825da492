"""``tonnage run``: run a workflow."""

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.archive.options import archive_option
from tonnage.cli.clusters import ClusterChoice, cluster_options
from tonnage.cli.options import json_option, print_json, read_workflow, workflow_arguments
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Resource
from tonnage.option_values import amounts, pairs, parts
from tonnage.rank.methods import METHODS
from tonnage.size.strategies import STRATEGIES
from tonnage.wording import counted, meant, part_of, printable

if TYPE_CHECKING:
    from collections.abc import Collection

    from tonnage.cli.console import Console
    from tonnage.lab.next_run import NextRun
    from tonnage.run.finished_work import UpToDate
    from tonnage.run.options import Options
    from tonnage.run.session import Result, RunSession
    from tonnage.run.setup import Explained

__all__ = ["run"]

_LISTED = 20
_RUNGS = 4
_GROUPS = 3  # of tasks of one category with the same sizes
_A_WHILE = 1.0  # seconds: the next run of less is not worth an estimate, which takes a few tenths
_FEW_TASKS = 2000


_EVERY = "*"


class _Run(click.Command):
    """Lets --override-requests stand alone: click would take the next argument for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        bare = "--override-requests"
        return super().parse_args(ctx, [f"{bare}={_EVERY}" if one == bare else one for one in args])


@click.command(cls=_Run)
@workflow_arguments
@click.argument("outputs", metavar="[OUTPUT]...", nargs=-1)
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
@click.option(
    "--override-requests",
    metavar="[=CATEGORY,...]",
    help="Give tasks less than they request if past tasks needed less; with names, only in these categories.",
)
@click.option(
    "--learn-from",
    multiple=True,
    metavar="WORKFLOW|FILTER",
    help="Learn from runs of another workflow first, or from jobs in the archive: user=ada,category=align*.",
)
@click.option("--no-history", is_flag=True, help="Learn nothing from the archive: start as if nothing had run before.")
@cluster_options
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Retry a failed task up to this many times. Tasks that ran out of memory are always retried with more.",
)
@click.option(
    "--enforce",
    type=click.Choice(("elastic", "strict")),
    help="What happens to a task that needs more memory than it was allocated. elastic: it grows while the machine has "
    "room, and is paused before any task is stopped. strict: it is killed and retried with more.  "
    "[default: elastic; strict for batch jobs of single tasks, which the cluster limits]",
)
@click.option("--fail-fast", is_flag=True, help="Start no more tasks after the first failure.")
@click.option(
    "--sandbox", is_flag=True, help="Run each task in a folder of its own: inputs are linked, outputs moved out."
)
@click.option(
    "--new", is_flag=True, help="Run all tasks, whatever earlier runs have done; an unfinished run is not resumed."
)
@click.option(
    "--rerun",
    multiple=True,
    metavar="TASK|CATEGORY",
    help="Run this task, or all of this category, and what depends on it, even if up to date; can be repeated.",
)
@click.option("--touch", is_flag=True, help="Take existing outputs as done, without running anything.")
@click.option("--durable", is_flag=True, help="Survive a power failure without losing results; slower.")
@click.option("--explain", is_flag=True, help="Print the first sizes of tasks, what changes while they run, and why.")
@click.option("--dry-run", is_flag=True, help="Print what would be done and why, without doing it.")
@click.option("--field", "fields", multiple=True, metavar="KEY=VALUE", help="Store this with every attempt.")
@archive_option
@click.option("--quiet", "-q", is_flag=True, help="Print only warnings and the summary.")
@click.option("--verbose", "-v", is_flag=True, help="Log every attempt, and every call to the batch system.")
@json_option
def run(
    path: Path,
    source_format: str | None,
    outputs: tuple[str, ...],
    strategy: str,
    method: str,
    machine: tuple[str, ...],
    cores: int | None,
    memory: str | None,
    jobs: int | None,
    override_requests: str | None,
    learn_from: tuple[str, ...],
    no_history: bool,
    cluster: "ClusterChoice",
    retries: int,
    enforce: str | None,
    fail_fast: bool,
    sandbox: bool,
    new: bool,
    rerun: tuple[str, ...],
    touch: bool,
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

    Sizes are learnt from earlier tasks of the same category, and adapt as tasks finish, but no task gets less than it
    requests. A task that needs more memory than it was allocated gets it while the machine has room; otherwise it
    is paused until there is. Press Ctrl-C to let running tasks finish, and again to kill them.

    Run the same command again to resume a run that was interrupted or in which tasks failed, or to bring it up to
    date: tasks whose command, inputs or outputs have changed run again, and so do those that depend on them. Name
    OUTPUT files to make only these and what they depend on.

    With --on slurm, tasks are submitted to a Slurm cluster under your account: one batch job per task, similar ones as
    arrays, or many tasks in one batch job with --pack. They continue if this command is killed; run it again to follow
    them.

    With --on htcondor, tasks are submitted to an HTCondor pool as one DAG, ranked and sized, whose event log this
    command follows. Use --sandbox to transfer files with jobs if machines share no file system. --dry-run writes the
    DAG and prints the command that submits it.

    \b
    Example: tonnage run analysis.mf
             tonnage run analysis.mf --dry-run
             tonnage run analysis.mf plots/summary.pdf
             tonnage run analysis.mf --rerun align
             tonnage run analysis.dag --machine cores=4,memory=8GB --explain
             tonnage run analysis.dag --override-requests=align,merge
             tonnage run analysis.dag --on slurm --partition short --pack glume
             tonnage run analysis.dag --on htcondor --sandbox
    """
    from tonnage.cli.console import logged
    from tonnage.cli.run_summary import facts, summary_lines
    from tonnage.run.options import Options
    from tonnage.run.retry_rules import Rules
    from tonnage.run.session import RunSession

    options = Options(
        strategy=strategy,
        rank=method,
        machine=_machine(machine, cores, memory),
        rules=Rules(
            retries=retries,
            fail_fast=fail_fast,
            at_once=jobs if cluster.on == "local" else None,
            elastic=_elastic(enforce, cluster),
        ),
        sandbox=sandbox,
        durable=durable,
        new=new,
        rerun=rerun,
        outputs=outputs,
        fields=pairs(fields, "--field"),
        overridden=_overridden(override_requests),
        history=not no_history,
        learn_from=learn_from,
        archive=url,
        cluster=cluster.at_most(jobs).options(),
    )
    if no_history and learn_from:
        raise InputError("--no-history and --learn-from cannot be combined")
    if touch and (new or rerun or dry_run):
        raise InputError("--touch runs nothing, and cannot be combined with --new, --rerun or --dry-run")
    workflow = read_workflow(path, source_format)
    _check_categories(options, workflow.categories)
    with (
        logged(quiet=quiet, verbose=verbose, growth=explain) as console,
        closing(RunSession(workflow, options, dry=dry_run or touch)) as session,
    ):
        if touch:
            return _touch(session, as_json=as_json)
        if session.nothing_to_do is not None:
            return _print_nothing_to_do(session.nothing_to_do, as_json=as_json)
        if explain or dry_run:
            _print_explained(session.explained(), to_errors=as_json)
        if dry_run:
            _print_plan(session, as_json=as_json)
            return 0
        result = _go(session, console, quiet=quiet)
        coming = _next_run(session, result)
    if as_json:
        print_json(facts(result, coming))
    else:
        for line in summary_lines(result, coming):
            click.echo(printable(line))
    return _status(result)


def _elastic(enforce: str | None, cluster: "ClusterChoice") -> bool:
    """Whether tasks may outgrow their memory: only where our own engine runs them, and no batch system limits them."""
    ours = cluster.on == "local" or cluster.packed
    if enforce == "elastic" and not ours:
        hint = "pack several tasks into a batch job: --pack glume"
        raise InputError("--enforce elastic: the cluster limits batch jobs of single tasks itself", hint=hint)
    return ours and enforce != "strict"


def _overridden(text: str | None) -> frozenset[str] | None:
    """Return the categories whose tasks may get less than they request; None for all."""
    names = frozenset(name.strip() for name in parts([text or ""]) if name.strip())
    return None if _EVERY in names else names


def _check_categories(options: "Options", known: "Collection[str]") -> None:
    """Raise InputError if there is no such category; one in ``tonnage.toml`` may be meant for another workflow."""
    from click.core import ParameterSource

    given = click.get_current_context().get_parameter_source("override_requests") is ParameterSource.COMMANDLINE
    for name in options.overridden or () if given else ():
        if name not in known:
            hint = meant(name, known) or f"the categories are {', '.join(sorted(known))}"
            raise InputError(f'--override-requests: there is no category "{name}"', hint=hint)


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


def _touch(session: "RunSession", *, as_json: bool) -> int:
    """Take existing outputs as done, and print what remains."""
    left, tasks = session.touch(), len(session.workflow)
    if as_json:
        print_json({"tasks": tasks, "up_to_date": tasks - len(left), "to_do": left})
        return 0
    click.echo(f"{part_of(tasks - len(left), tasks, 'task')} are up to date now; nothing was run")
    for name in left[:_LISTED]:
        click.echo(printable(f"remains to be done: {name}"))
    if len(left) > _LISTED:
        click.echo(f"and {len(left) - _LISTED:,} more")
    return 0


def _print_nothing_to_do(found: "UpToDate", *, as_json: bool) -> int:
    if as_json:
        run = found.run or None
        print_json({"run": run, "tasks": found.tasks, "done": found.tasks, **_NO_ATTEMPTS, "up_to_date": found.tasks})
        return 0
    origin = f"run {found.run}" if found.run else "taken as done with --touch"
    all_of_them = f"{part_of(found.tasks, found.tasks, 'task')} {'is' if found.tasks == 1 else 'are'} up to date"
    click.echo(printable(f"nothing to do: {all_of_them} ({origin}, {_when(found.ended)})"))
    return 0


_NO_ATTEMPTS: "dict[str, object]" = {"failed": 0, "attempts": 0, "makespan_seconds": 0.0, "waste_fraction": {}}


def _when(moment: float) -> str:
    """Format a time as people would say it: ``today 13:05``, ``yesterday 13:05``, ``2026-11-03 13:05``."""
    from datetime import datetime

    then, now = datetime.fromtimestamp(moment).astimezone(), datetime.now().astimezone()
    days = (now.date() - then.date()).days
    day = {0: "today", 1: "yesterday"}.get(days, f"{then:%Y-%m-%d}")
    return f"{day} {then:%H:%M}"


def _print_plan(session: "RunSession", *, as_json: bool) -> None:
    """Print which tasks would run and why, and what would be submitted first."""
    reasons, tasks = session.reasons(), len(session.workflow)
    if as_json:
        to_do = [{"task": name, "reason": reason} for name, reason in reasons.items()]
        print_json({"tasks": tasks, "up_to_date": tasks - len(reasons), "to_do": to_do})
    elif reasons:
        others = ", the others are up to date" if len(reasons) < tasks else ""
        click.echo(f"\n{part_of(len(reasons), tasks, 'task')} would run{others}")
        _print_reasons(reasons)
    for script in session.submissions():
        click.echo("\n".join(["", *map(printable, script.splitlines())]), err=as_json)


def _print_reasons(reasons: "dict[str, str]") -> None:
    """Print why tasks would run, a line for each reason."""
    alike: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        alike.setdefault(reason, []).append(name)
    for reason, names in islice(alike.items(), _LISTED):
        who = names[0] if len(names) == 1 else f"{len(names):,} tasks (first: {names[0]})"
        click.echo(printable(f"  {who}: {reason}"))
    if len(alike) > _LISTED:
        click.echo(f"  and {len(alike) - _LISTED:,} more reasons (--json has all)")


def _go(session: "RunSession", console: "Console", *, quiet: bool) -> "Result":
    from time import time

    from tonnage.cli.run_view import LiveView, PlainView, on_terminal
    from tonnage.run.progress import Progress

    progress = Progress.of(session.engine, time())
    with LiveView(progress, console) if on_terminal() and not quiet else PlainView(progress) as view:
        return session.go(view)


def _next_run(session: "RunSession", result: "Result") -> "NextRun | None":
    """Estimate the next run after a complete one here that took a while; a queue cannot be predicted."""
    worthwhile = result.summary.seconds >= _A_WHILE and result.tasks <= _FEW_TASKS
    if session.options.cluster is not None or result.done < result.tasks or not worthwhile:
        return None
    from tonnage.lab.next_run import next_run

    try:
        return next_run(session.set_up_again(), session.journal.rows())
    except TonnageError:
        return None  # the archive is gone, say: that was said, and the run is complete


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
                rungs = ", then ".join(decision.resource.format_amount(rung) for rung in decision.ladder[:_RUNGS])
                click.echo(printable(f"  {decision.resource}: {rungs}: {decision.reason}"), err=to_errors)
        rest = sum(one.tasks for one in groups[_GROUPS:])
        if rest:
            click.echo(printable(f"{category}: {counted(rest, 'more task')} with other sizes"), err=to_errors)
