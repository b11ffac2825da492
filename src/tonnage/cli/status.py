"""``tonnage status``: the progress of a run."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json
from tonnage.cli.tables import print_table
from tonnage.units import format_bytes, format_cores, format_seconds
from tonnage.wording import counted, part_of, printable

if TYPE_CHECKING:
    from tonnage.run.journal_rows import Row
    from tonnage.run.state import RunState

__all__ = ["status"]

_SHOWN = 20


@click.command()
@click.argument("text", metavar="[RUN]", default="last")
@json_option
def status(text: str, as_json: bool) -> None:
    """Show the progress of RUN: the id of a run, its folder, or last for the newest one here.

    Tasks submitted to a batch system are queued until they are known to run. Tasks that are not submitted yet, whether
    ready or dependent on others, are waiting.

    \b
    Example: tonnage status
             tonnage status .tonnage/runs/analysis-20261116-140411 --json
    """
    from tonnage.run.folders import find_run
    from tonnage.run.state import state_of

    found = state_of(find_run(text))
    if as_json:
        print_json(_facts(found))
    else:
        _print(found)


def _print(found: "RunState") -> None:
    from tonnage.run.failed_tasks import kinds_of
    from tonnage.run.state import describe_growth

    click.echo(f"{found.folder.id}: {_how(found)}")
    running = found.in_flight.running if found.process is not None else []
    notes = [
        f"{part_of(found.done, found.tasks, 'task')} done",
        *(_in_flight(found) if found.process is not None else []),
        f"{found.failures:,} failed" if found.failures else "",
        counted(found.summary.attempts, "attempt"),
        f"{found.summary.retried:,} retried",
        f"{format_seconds(found.summary.seconds)} of work" if found.summary.seconds else "",
    ]
    click.echo("  " + ", ".join(note for note in notes if note))
    if growth := describe_growth(found.summary.adjusted):
        click.echo(f"  {growth}")
    if running:
        rows = [_cells(row, found.now) for row in running[:_SHOWN]]
        header = ["running", "attempt", "since", "memory", "cores"]
        print_table(header, rows, right=header[1:])
        if len(running) > _SHOWN:
            click.echo(f"and {len(running) - _SHOWN:,} more")
    if found.batch_jobs:
        _print_batch_jobs(found)
    for node in found.bad_nodes:
        left = round(node.until - found.now)
        avoided = f"is avoided for another {format_seconds(left)}" if left > 0 else "was avoided for a while"
        click.echo(printable(f"{node}: it {avoided}"))
    kinds = kinds_of(found.failed)
    for kind in kinds[:_SHOWN]:
        for line in (*(line for one in kind.examples for line in one.described()), kind.others):
            if line:
                click.echo(printable(line))
    if len(kinds) > _SHOWN:
        click.echo(f"and {counted(len(kinds) - _SHOWN, 'more kind')} of failure")


def _in_flight(found: "RunState") -> list[str]:
    queued, waiting = found.in_flight.queued_tasks, found.waiting
    return [
        f"{len(found.in_flight.running):,} running",
        f"{queued:,} queued" if queued else "",
        f"{waiting:,} waiting" if waiting else "",
    ]


def _print_batch_jobs(found: "RunState") -> None:
    """Print the batch jobs not known to have finished, and how many there were in total."""
    left = [job for job in found.batch_jobs if job.ended is None]
    states = Counter(job.state for job in left)
    where = f": {states['running']:,} running, {states['queued']:,} queued" if left else ""
    click.echo(f"  {counted(len(found.batch_jobs), 'batch job')}, {len(left):,} not known to have finished{where}")
    rows = [
        [
            job.native or "not submitted yet",
            job.state if job.native else "",
            f"{job.tasks:,}",
            f"{job.nodes:,}",
            "" if job.seconds is None else format_seconds(job.seconds),
            format_seconds(max(0, round(found.now - job.submitted))),
            "" if job.started is None else format_seconds(max(0, round(found.now - job.started))),
        ]
        for job in left[:_SHOWN]
    ]
    if rows:
        header = ["batch job", "state", "tasks", "nodes", "time limit", "submitted", "started"]
        print_table(header, rows, right=header[2:])
    if len(left) > _SHOWN:
        click.echo(f"and {len(left) - _SHOWN:,} more")


def _how(found: "RunState") -> str:
    if found.process is not None:
        return f"is under way (process {found.process})"
    return "is finished" if found.finished else "is not finished, and no process is executing it"


def _cells(row: "Row", now: float) -> list[str]:
    memory = row.grew_to or row.allocated.memory
    return [
        printable(row.title),
        str(row.number),
        format_seconds(max(0, round(now - row.started))),
        "" if memory is None else format_bytes(memory),
        "" if row.allocated.cores is None else format_cores(row.allocated.cores),
    ]


def _facts(found: "RunState") -> dict[str, object]:
    known = found.process is not None
    return {
        "run": found.folder.id,
        "folder": str(found.folder.path),
        "process": found.process,
        "finished": found.finished,
        "tasks": found.tasks,
        "done": found.done,
        "failed": [one.facts() for one in found.failed],
        "counts": {
            "done": found.done,
            "failed": found.failures,
            "running": len(found.in_flight.running) if known else None,
            "queued": found.in_flight.queued_tasks if known else None,
            "waiting": found.waiting if known else None,
        },
        "running": [{**_attempt(row), "started": row.started} for row in (found.in_flight.running if known else [])],
        "queued": [{**_attempt(row), "submitted": row.submitted} for row in (found.in_flight.queued if known else [])],
        "attempts": found.summary.attempts,
        "retried": found.summary.retried,
        "makespan_seconds": found.summary.seconds,
        "adjusted": {str(action): count for action, count in found.summary.adjusted.items()},
        "bad_nodes": [asdict(one) for one in found.bad_nodes],
        "batch_jobs": [{**asdict(job), "state": job.state} for job in found.batch_jobs],
    }


def _attempt(row: "Row") -> dict[str, object]:
    allocated = {str(resource): amount for resource, amount in row.allocated.known()}
    return {"task": row.task, "line": row.line, "attempt": row.number, "allocated": allocated, "grew_to": row.grew_to}
