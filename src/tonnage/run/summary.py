"""What a run achieved: tasks, attempts, waste, and what its sizes saved."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.accounting import NOTHING_HELD, Account, account_for, held_seconds
from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.run.journal_rows import Row
from tonnage.run.machines import Machine

__all__ = ["Summary", "summarise"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What the journal of a run adds up to."""

    attempts: int
    outcomes: dict[Outcome, int]
    retried: int
    """Tasks that needed more than one attempt."""
    seconds: float
    """For how long something ran, or waited in the queue of a cluster."""
    accounts: dict[Resource, Account]


def summarise(rows: Iterable[Row], machine: Machine) -> Summary:
    """Return what the attempts of a run add up to."""
    outcomes: dict[Outcome, int] = defaultdict(int)
    spans: list[tuple[float, float]] = []
    retried: set[str] = set()
    accounts: dict[tuple[str, Resource], Account] = defaultdict(Account)
    peaks: dict[tuple[str, Resource], float] = defaultdict(float)
    times: dict[str, float] = defaultdict(float)
    for row in rows:
        if row.ended is None or row.outcome is None:
            continue
        outcomes[row.outcome] += 1
        spans.append((row.started if row.submitted is None else row.submitted, row.ended))
        if row.number > 1:
            retried.add(row.task)
        seconds = held_seconds(row.started, row.ended, row.used.wall_time) or 0.0
        succeeded = row.outcome is Outcome.DONE
        times[row.category] += seconds if succeeded else 0.0
        for resource in SHARED:
            given, peak = getattr(row.allocated, resource), getattr(row.used, resource)
            if given is None:
                continue
            key = row.category, resource
            accounts[key] += account_for(given, peak, seconds, succeeded=succeeded)
            if succeeded and peak is not None:
                peaks[key] = max(peak, peaks[key])
    whole = machine.amounts()
    totals = dict.fromkeys(SHARED, NOTHING_HELD)
    for category, seconds in times.items():
        for resource in SHARED:
            key = category, resource
            totals[resource] += accounts[key].compared(
                machine=whole.get(resource, 0.0), peak=peaks[key], seconds=seconds
            )
    found = {resource: account for resource, account in totals.items() if account.given}
    return Summary(sum(outcomes.values()), dict(outcomes), len(retried), _covered(spans), found)


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return for how long at least one of some spans of time lasted."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
