"""What ``tonnage run`` prints at its end: a few lines for people, or all totals as JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.jobs import HOURS, Resource
from tonnage.units import format_bytes, format_seconds
from tonnage.wording import counted, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonnage.lab.next_run import NextRun
    from tonnage.run.folders import RunFolder
    from tonnage.run.session import Result
    from tonnage.run.state import Summary

__all__ = ["facts", "summary_lines"]

_FAILURES = 20
_WORTH_A_LINE = 0.01


def summary_lines(result: "Result", coming: "NextRun | None") -> "Iterator[str]":
    """Yield what a person wants to know at the end of a run, a line for each question."""
    from tonnage.run.state import describe_growth

    summary, name = result.summary, _name_here(result.run)
    yield from result.failures[:_FAILURES]
    if len(result.failures) > _FAILURES:
        yield f"and {len(result.failures) - _FAILURES:,} more kinds of failure"
    if result.unreachable:
        yield f"not run, because they depend on failed tasks: {counted(result.unreachable, 'task')}"
    for one in result.bad_nodes:
        yield f"{one}: it was avoided"
    failed = f", {len(result.failed):,} failed" if result.failed else ""
    before = f" ({result.up_to_date:,} already up to date)" if result.up_to_date else ""
    done = f"{part_of(result.done, result.tasks, 'task')} done{before}"
    yield f"{done} in {format_seconds(summary.seconds)}{failed}{_retried(summary)}"
    if average := summary.average(Resource.MEMORY):
        yield f"memory: {_average(*average)}"
    if growth := describe_growth(summary.adjusted):
        yield growth
    if result.declared is not None:
        yield from _saved(*result.declared)
    if result.overridable:
        savings = (
            f"{_amount(one.learnt, resource)} of {resource} instead of {_amount(one.held, resource)}"
            for resource, one in result.overridable.items()
        )
        with_less = f"with --override-requests they would take {', '.join(savings)}"
        yield f"tasks got what they request, but need less: {with_less}"
    complete = result.done == result.tasks
    if result.before is not None and complete:
        yield f"last time: {_last_time(result.before)}"
    if coming is not None and complete:
        yield f"next time: {_next_time(coming)}"
    left = result.tasks - result.done
    if left:
        shown = "what failed" if result.failed else "the run"
        yield f"{counted(left, 'task')} remaining: run the same command to resume; tonnage status {name} shows {shown}"
    if summary.attempts:
        yield f"tonnage report {name} shows what ran when, what was wasted, and what to change"


def _retried(summary: "Summary") -> str:
    """Describe how many tasks were retried, and why."""
    if not summary.retried:
        return ""
    why = [f"{count:,} {reason}" for reason, count in summary.retried_because.items()]
    shown = ", ".join(why) if len(why) > 1 else next(iter(summary.retried_because))
    return f"; {counted(summary.retried, 'task')} retried ({shown})"


def _average(given: float, used: float | None) -> str:
    """Describe the memory that tasks had and used."""
    reserved = f"on average, a task reserved {format_bytes(given)}"
    return reserved if used is None else f"{reserved} and used {format_bytes(used)}"


def _saved(declared: float, given: float) -> "Iterator[str]":
    """Yield what was saved against what tasks declare, if anything was."""
    less = 1 - given / declared if declared else 0.0
    if less >= _WORTH_A_LINE:
        yield f"saved: {less:.0%} of the memory that tasks declare"


def _last_time(before: "Summary") -> str:
    average = before.average(Resource.MEMORY)
    memory = f", {format_bytes(average[0])} of memory for a task" if average else ""
    return f"{format_seconds(before.seconds)}, {before.retried:,} retried{memory}"


def _amount(given: float, resource: Resource) -> str:
    """Format an amount times a time: in hours or, for short runs, in seconds, so that it is never 1e-06 GB*h."""
    factor, unit = HOURS[resource.unit]
    hours = given / factor
    if hours >= 0.1 or not hours:
        return f"{hours:,.3g} {unit}"
    return f"{hours * 3600:.3g} {unit.removesuffix('h')}s"


def _next_time(coming: "NextRun") -> str:
    memory = f", with {format_bytes(coming.memory)} of memory for a task" if coming.memory is not None else ""
    return f"about {format_seconds(float(f'{coming.seconds:.2g}'))}{memory}"


def _name_here(run: "RunFolder") -> str:
    """Return the name of a run for use in the current folder: its id or, if its workflow is elsewhere, its path."""
    from shlex import quote

    here, path = Path.cwd(), run.path.absolute()
    if path.parents[2] in (here, *here.parents):
        return quote(run.id)
    return quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def facts(result: "Result", coming: "NextRun | None") -> dict[str, object]:
    """Return everything that is known about a run, under the keys of ``--json``."""
    summary = result.summary
    return {
        "run": result.run.id,
        "folder": str(result.run.path),
        "tasks": result.tasks,
        "done": result.done,
        "failed": len(result.failed),
        "failures": result.failed,
        "unreachable": result.unreachable,
        "up_to_date": result.up_to_date,
        "adjusted": {str(action): count for action, count in summary.adjusted.items()},
        "bad_nodes": [asdict(one) for one in result.bad_nodes],
        "attempts": summary.attempts,
        "outcomes": {str(outcome): count for outcome, count in summary.outcomes.items()},
        "retried": summary.retried,
        "retried_because": summary.retried_because,
        "makespan_seconds": summary.seconds,
        "waste_fraction": {str(resource): one.waste_fraction for resource, one in summary.accounts.items()},
        "given": {str(resource): one.given for resource, one in summary.accounts.items()},
        "used": {str(resource): one.used for resource, one in summary.accounts.items()},
        "whole_machine": {str(resource): one.whole_machine for resource, one in summary.accounts.items()},
        "max_seen": {str(resource): one.max_seen for resource, one in summary.accounts.items()},
        "overridable": {
            str(resource): {"held": one.held, "learnt": one.learnt} for resource, one in result.overridable.items()
        },
        "declared": None if result.declared is None else {"declared": result.declared[0], "given": result.declared[1]},
        "stopped_by": result.stopped_by,
        "before": None if result.before is None else _compared(result.before),
        "next": None if coming is None else {"makespan_seconds": coming.seconds, "memory": coming.memory},
    }


def _compared(before: "Summary") -> dict[str, object]:
    return {
        "attempts": before.attempts,
        "retried": before.retried,
        "makespan_seconds": before.seconds,
        "waste_fraction": {str(resource): one.waste_fraction for resource, one in before.accounts.items()},
        "given": {str(resource): one.given for resource, one in before.accounts.items()},
    }
