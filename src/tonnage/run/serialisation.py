"""Conversion of the engine's values to and from plain JSON values, for files that another process reads."""

from dataclasses import fields
from math import inf, isnan, nan
from typing import Any

from tonnage.jobs import NOTHING_KNOWN, Amounts, Decision, Outcome, Resource
from tonnage.run.events import Carried, Ended, Start
from tonnage.run.machines import Machine
from tonnage.workflow import Task

__all__ = [
    "plain_carried",
    "plain_decision",
    "plain_ended",
    "plain_machine",
    "plain_start",
    "plain_task",
    "restore_carried",
    "restore_decision",
    "restore_ended",
    "restore_machine",
    "restore_start",
    "restore_task",
]

Plain = dict[str, Any]


def plain_decision(one: Decision) -> Plain:
    """Convert a decision to plain values."""
    return {
        "resource": one.resource.value,
        "ladder": list(one.ladder),
        "strategy": one.strategy,
        "samples": one.samples,
        "reason": one.reason,
        "rung": one.rung,
        "expected_waste": one.expected_waste,
        "expected_retries": one.expected_retries,
    }


def restore_decision(plain: Plain) -> Decision:
    """Restore a decision from plain values."""
    return Decision(**{**plain, "resource": Resource(plain["resource"]), "ladder": tuple(plain["ladder"])})


def plain_start(start: Start) -> Plain:
    """Convert a start without its decisions, which are many times larger and rarely change."""
    return {
        "attempt": start.attempt,
        "task": start.task,
        "number": start.number,
        "machine": start.machine,
        "input_bytes": None if isnan(start.input_bytes) else start.input_bytes,
    }


def restore_start(plain: Plain, decisions: list[Plain]) -> Start:
    """Restore a start from plain values."""
    size = plain["input_bytes"]
    made = tuple(map(restore_decision, decisions))
    return Start(**{**plain, "input_bytes": nan if size is None else float(size), "decisions": made})


def plain_ended(end: Ended) -> Plain:
    """Convert an end to plain values, leaving out defaults."""
    found: Plain = {"attempt": end.attempt, "outcome": end.outcome.value}
    for name, default in _SIMPLE.items():
        value = getattr(end, name)
        if value != default:
            found[name] = value
    if end.used is not NOTHING_KNOWN:
        found["used"] = _plain_amounts(end.used)
    if end.exhausted is not None:
        found["exhausted"] = end.exhausted.value
    if end.lower_bounds:
        found["lower_bounds"] = list(end.lower_bounds)
    return found


_DIFFERENT = {"attempt", "outcome", "used", "exhausted", "lower_bounds", "facts"}  # facts come from elsewhere
_SIMPLE = {one.name: one.default for one in fields(Ended) if one.name not in _DIFFERENT}


def restore_ended(plain: Plain) -> Ended:
    """Restore an end from plain values."""
    exhausted = plain.get("exhausted")
    return Ended(
        **{
            **plain,
            "outcome": Outcome(plain["outcome"]),
            "used": Amounts.of(**plain.get("used", {})),
            "exhausted": None if exhausted is None else Resource(exhausted),
            "lower_bounds": tuple(plain.get("lower_bounds", ())),
        }
    )


def plain_task(task: Task) -> Plain:
    """Convert a task to plain values, leaving out defaults."""
    found: Plain = {"name": task.name}
    for one in fields(Task):
        value = getattr(task, one.name)
        if value != one.default:
            found[one.name] = _plain_amounts(value) if isinstance(value, Amounts) else value
    return found


def restore_task(plain: Plain) -> Task:
    """Restore a task from plain values."""
    found = dict(plain)
    found |= {name: Amounts.of(**plain[name]) for name in ("request", "expected") if name in plain}
    found |= {name: tuple(plain[name]) for name in ("inputs", "outputs") if name in plain}
    return Task(**found)


def plain_carried(carried: Carried) -> Plain:
    """Convert what is known about a task to plain values."""
    made = None if carried.decisions is None else list(map(plain_decision, carried.decisions))
    return {"attempts": carried.attempts, "decisions": made}


def restore_carried(plain: Plain) -> Carried:
    """Restore what is known about a task from plain values."""
    made = plain["decisions"]
    return Carried(plain["attempts"], None if made is None else tuple(map(restore_decision, made)))


def plain_machine(machine: Machine) -> list[float | None]:
    """Convert a machine to a list of cores, memory and disk, where None is unlimited."""
    return [None if amount == inf else amount for amount in (machine.cores, machine.memory, machine.disk)]


def restore_machine(plain: list[float | None]) -> Machine:
    """Restore a machine from its cores, memory and disk."""
    return Machine(*(inf if amount is None else float(amount) for amount in plain))


def _plain_amounts(amounts: Amounts) -> Plain:
    return {str(resource): amount for resource, amount in amounts.known()}
