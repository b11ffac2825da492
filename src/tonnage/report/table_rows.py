"""Attempts as rows of a table: what is shown of each, and what it is sorted by."""

from collections.abc import Sequence

from tonnage.accounting import allocation
from tonnage.jobs import Attempt, Resource
from tonnage.report.attempt_table import seconds_of, wasted_of
from tonnage.report.model import Report
from tonnage.report.text import hours, name_of, said, shown
from tonnage.size.records import group_of

__all__ = ["outcome_of", "task_rows"]

_HEADER = (
    ("task", False),
    ("category", False),
    ("attempt", True),
    ("outcome", False),
    ("run time", True),
    ("memory given", True),
    ("memory used", True),
    ("wasted", True),
    ("cores given", True),
    ("cores used", True),
    ("disk used", True),
    ("input", True),
    ("host", False),
    ("command", False),
)


def task_rows(report: Report, attempts: Sequence[Attempt]) -> tuple[list[tuple[str, bool]], list[list[object]]]:
    """Return a header (and whether numbers are below it) and rows; columns of which nothing is known are left out."""
    rows = [_row(one, report) for one in attempts]
    filled = [place for place in range(len(_HEADER)) if any(_text(row[place]) for row in rows)] or [0]
    if all(one.number == 1 for one in attempts):
        filled = [place for place in filled if _HEADER[place][0] != "attempt"]
    return [_HEADER[place] for place in filled], [[row[place] for place in filled] for row in rows]


def _text(cell: object) -> object:
    return cell[0] if isinstance(cell, list) else cell


def outcome_of(attempt: Attempt) -> str:
    """Say how an attempt ended."""
    if attempt.exhausted is not None:
        return f"{name_of(attempt.exhausted)} exhausted"
    if attempt.outcome is None:
        return ""
    if attempt.exit_status:
        return f"{attempt.outcome} ({attempt.exit_status})"
    return f"{attempt.outcome} (signal {attempt.signal})" if attempt.signal else str(attempt.outcome)


def _row(attempt: Attempt, report: Report) -> list[object]:
    short, group = report.palette.short, group_of(attempt, report.subject.by)
    seconds, memory = seconds_of(attempt), Resource.MEMORY
    given, used = allocation(attempt, memory), attempt.used.memory
    wasted = wasted_of(attempt)
    return [
        said(short(attempt.task or attempt.native_id or ""), 120),
        said(short(group), 80) if group else "",
        [str(attempt.number), attempt.number],
        outcome_of(attempt),
        _cell(Resource.WALL_TIME, seconds),
        _cell(memory, given),
        _cell(memory, used),
        ["", None] if wasted is None else [hours(memory, wasted), wasted],
        _cell(Resource.CORES, allocation(attempt, Resource.CORES)),
        _cell(Resource.CORES, attempt.used.cores),
        _cell(Resource.DISK, attempt.used.disk),
        _cell(Resource.DISK, attempt.input_bytes),
        said(attempt.host or "", 60),
        said(attempt.command or attempt.executable or "", 160),
    ]


def _cell(resource: Resource, amount: float | None) -> list[object]:
    return [shown(resource, amount), amount]
