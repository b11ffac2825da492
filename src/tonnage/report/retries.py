"""Retries: which attempts did not succeed, why, what that cost, and what their tasks were allocated next."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from tonnage.jobs import Attempt, Outcome, Resource
from tonnage.report.attempt_table import AttemptTable
from tonnage.report.text import name_of
from tonnage.waste import allocation

__all__ = ["Climb", "Reason", "climbs", "reasons"]

_AMOUNTS = 4
_OUTCOMES = tuple(Outcome)
_RESOURCES = tuple(Resource)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why attempts of a category did not succeed."""

    category: str
    why: str
    attempts: int
    lost: float
    """Their allocated memory times their run time."""
    resource: Resource | None
    """The resource that they ran out of."""
    amounts: tuple[tuple[float, int], ...]
    """How much of it they were allocated, and how often; the most frequent first."""


@dataclass(frozen=True, slots=True)
class Climb:
    """What one task was allocated in each attempt."""

    task: str
    category: str
    attempts: int
    steps: tuple[str, ...]


def reasons(material: AttemptTable) -> list[Reason]:
    """Return why attempts did not succeed, by category, the most frequent first."""
    bad = ~material.done & ~material.running
    keys = (
        material.category[bad] * 1000
        + material.outcome[bad].astype(np.int64) * 20
        + (material.exhausted[bad].astype(np.int64) + 1)
    )
    held = np.nan_to_num(material.given[Resource.MEMORY][bad] * material.seconds[bad])
    found = []
    for key in np.unique(keys).tolist():
        own = keys == key
        category, outcome, place = key // 1000, key % 1000 // 20, key % 20 - 1
        resource = _RESOURCES[place] if place >= 0 else None
        amounts: Counter[float] = Counter()
        if resource is not None and resource in material.given:
            amounts.update(material.given[resource][bad][own].tolist())
        known = [(amount, many) for amount, many in amounts.most_common(_AMOUNTS) if np.isfinite(amount)]
        why = _why(_OUTCOMES[outcome], resource)
        name = material.categories[category]
        found.append(Reason(name, why, int(own.sum()), float(held[own].sum()), resource, tuple(known)))
    return sorted(found, key=lambda one: (-one.attempts, one.category, one.why))


def _why(outcome: Outcome, resource: Resource | None) -> str:
    if outcome is Outcome.EXHAUSTED:
        return f"{name_of(resource)} exhausted" if resource is not None else "a resource exhausted"
    return str(outcome)


def climbs(material: AttemptTable, most: int = 15) -> list[Climb]:
    """Return what the tasks with the most attempts were allocated."""
    by_task: dict[tuple[str | None, str], list[Attempt]] = defaultdict(list)
    for attempt in material.failed_or_retried:
        if attempt.task is not None:
            by_task[attempt.run, attempt.task].append(attempt)
    chosen = [own for own in by_task.values() if any(one.exhausted for one in own) or len(own) > 1]
    chosen.sort(key=lambda own: (-max(one.number for one in own), own[0].task or ""))
    return [
        Climb(
            own[0].task or "",
            own[0].category or "",
            max(one.number for one in own),
            tuple(_step(one, own) for one in sorted(own, key=lambda one: one.number)),
        )
        for own in chosen[:most]
    ]


def _step(attempt: Attempt, own: list[Attempt]) -> str:
    """Describe an attempt: how much it had of what its task ran out of, and how it ended."""
    short = [one.exhausted for one in own if one.exhausted is not None]
    resource = attempt.exhausted or (short[0] if short else Resource.MEMORY)
    amount = allocation(attempt, resource)
    ended = "running" if attempt.outcome is None else _why(attempt.outcome, attempt.exhausted)
    return ended if amount is None else f"{resource.format_amount(amount)}: {ended}"
