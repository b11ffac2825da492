"""Summaries of watched commands: those of ``tonnage watch``, and those of cctools' resource_monitor.

A file holds one summary, several in sequence or one per line, or a JSON list. MB are 2^20 bytes there. Which resource
was exhausted, and how much of it was allocated, follows from the limits that were exceeded.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.amounts import number, whole
from tonnage.logs.json_values import values
from tonnage.logs.log import Entry, Hints, Log, Skipped, UnusableError
from tonnage.watch.record import FIELD
from tonnage.watch.summary import Summary

__all__ = ["read", "recognises"]

_Record: TypeAlias = Mapping[str, object]

_WHAT = "the summary of a command"
_OWN = ("wall_time", "cpu_time", "memory")
_HINT = re.compile(rf'"(?:{"|".join(_OWN)})"\s*:\s*\[')
_STOPPED_AT_A_LIMIT = ("limit", "limits")  # cctools' manual says the former, its monitor writes the latter
_TYPED = frozenset(
    [
        *(str(resource) for resource in Resource),
        "max_concurrent_processes",
        "command",
        "category",
        "workflow",
        "host",
        "exit_type",
        "exit_status",
        "signal",
        "start",
        "end",
        "memory_method",
        "lower_bounds",
        "limits_exceeded",
        "peak_times",
        "task_id",
    ]
)


def recognises(head: str) -> bool:
    """Whether the first object has an amount such as ``[300, "MB"]`` under a summary's name."""
    text = head.lstrip().removeprefix("[").lstrip()
    if not text.startswith("{") or not _HINT.search(text):
        return False
    try:
        first, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return _is_summary(first)


def _is_summary(value: object) -> bool:
    return isinstance(value, dict) and any(_is_amount(value.get(name)) for name in _OWN)


def _is_amount(value: object) -> bool:
    return isinstance(value, list) and [type(part) for part in value] in ([int, str], [float, str])


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each summary."""
    found = False
    for line, value in values(log):
        if not found and not _is_summary(value):
            raise log.error(f'is not {_WHAT}: expected amounts such as "wall_time": [12.5, "s"]', line)
        found = True
        if not isinstance(value, dict):
            yield Skipped(line, f"it is not {_WHAT}", json.dumps(value)[:80])
            continue
        try:
            yield _attempt(value, hints)
        except InputError as problem:
            yield Skipped(line, f"it is not {_WHAT}", problem.message)
        except UnusableError as problem:
            yield problem.at(line)
    if not found:
        raise log.error(f"is not {_WHAT}: it is empty")


def _attempt(record: _Record, hints: Hints) -> Attempt:
    from tonnage.workflow.shell import executable  # loads numpy

    summary = Summary.of(record)
    task = record.get("task_id")
    used = Amounts.of(
        cores=_known(summary.cores, "cores"),
        memory=_known(summary.memory, "memory"),
        disk=_known(summary.disk, "disk"),
        wall_time=_known(summary.wall_time, "wall_time"),
        cpu_time=_known(summary.cpu_time, "cpu_time"),
        processes=_count(summary.max_concurrent_processes),
    )
    return Attempt(
        row=json.dumps(record, sort_keys=True),
        run=hints.label,
        workflow=summary.workflow,
        task=None if task is None else str(task),
        category=summary.category,
        command=summary.command,
        executable=executable(summary.command),
        host=summary.host,
        started=_known(summary.start, "start"),
        ended=_known(summary.end, "end"),
        outcome=_outcome(summary),
        exhausted=_exhausted(summary),
        exit_status=whole(summary.exit_status, "exit_status"),
        signal=whole(summary.signal, "signal"),
        allocated=_limits(summary),
        used=used,
        memory_method=_method(summary),
        lower_bounds=_lower_bounds(summary),
        fields=summary.fields,
        raw={name: value for name, value in record.items() if name not in _TYPED and not name.startswith(FIELD)},
    )


def _known(amount: float | None, name: str) -> float | None:
    """Return an amount; older versions of cctools write -1 for what was not measured."""
    return None if amount is None or amount < 0 else number(str(amount), name)


def _count(processes: int | None) -> int | None:
    return None if processes is None or processes < 1 else processes


def _method(summary: Summary) -> str | None:
    """Return how memory was measured; cctools adds up the resident memory of all processes."""
    return None if summary.memory is None else summary.memory_method or "rss"


def _lower_bounds(summary: Summary) -> tuple[str, ...]:
    """Return the resources whose use may have been higher, including the one at whose limit it was stopped."""
    stopped = _exhausted(summary)
    return tuple(dict.fromkeys([*summary.lower_bounds, *([str(stopped)] if stopped else [])]))


def _outcome(summary: Summary) -> Outcome | None:
    if summary.exit_type in _STOPPED_AT_A_LIMIT:
        return Outcome.EXHAUSTED
    if summary.stopped_because == "monitor killed":
        return Outcome.LOST
    if summary.exit_type == "signal" or summary.signal or summary.exit_status:
        return Outcome.FAILED
    return Outcome.DONE if summary.exit_status == 0 else None


def _exhausted(summary: Summary) -> Resource | None:
    if summary.exit_type not in _STOPPED_AT_A_LIMIT:
        return None
    return next((resource for resource in Resource if resource in summary.limits_exceeded), None)


def _limits(summary: Summary) -> Amounts:
    """Return the limits that were exceeded; others are not recorded."""
    limits = {name: _known(amount, name) for name, amount in summary.limits_exceeded.items()}
    processes = limits.get(Resource.PROCESSES)
    return Amounts.of(
        cores=limits.get(Resource.CORES),
        memory=limits.get(Resource.MEMORY),
        disk=limits.get(Resource.DISK),
        wall_time=limits.get(Resource.WALL_TIME),
        cpu_time=limits.get(Resource.CPU_TIME),
        processes=None if processes is None else int(processes),
    )
