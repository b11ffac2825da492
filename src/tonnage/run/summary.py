"""What a run achieved: tasks, attempts, waste, and what its sizes saved."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.run.machines import Machine
from tonnage.run.rows import Row

__all__ = ["Account", "Summary", "summarise"]


@dataclass(frozen=True, slots=True)
class Account:
    """What attempts were given and used of a resource, in amounts times seconds."""

    given: float
    used: float
    whole_machine: float
    """What it would have been with a whole machine for each task."""
    max_seen: float
    """What it would have been with the largest peak of its category for each task."""
    unmeasured: float = 0.0
    """What was given to attempts that succeeded, and of which nobody knows what they used."""

    @property
    def waste_fraction(self) -> float | None:
        """The part of what was given that was not used, as far as that is known."""
        known = self.given - self.unmeasured
        return max(0.0, 1 - self.used / known) if self.measured and known > 0 else None

    @property
    def measured(self) -> bool:
        """Whether anybody knows what any attempt used."""
        return bool(self.used or not self.unmeasured)


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
    again: set[str] = set()
    given, used, unmeasured = (dict.fromkeys(SHARED, 0.0) for _ in range(3))
    peaks: dict[tuple[str, Resource], float] = {}
    times: dict[str, float] = defaultdict(float)
    attempts = 0
    for row in rows:
        if row.ended is None or row.outcome is None:
            continue
        attempts += 1
        outcomes[row.outcome] += 1
        spans.append((row.started if row.submitted is None else row.submitted, row.ended))
        # HTCondor's log has whole seconds, in which a short task takes no time; the monitor knows better.
        seconds = max(0.0, row.ended - row.started, row.used.wall_time or 0.0)
        if row.number > 1:
            again.add(row.task)
        if row.outcome is Outcome.DONE:
            times[row.category] += seconds
        for resource in SHARED:
            amount, peak = getattr(row.allocated, resource), getattr(row.used, resource)
            if amount is None:
                continue
            given[resource] += amount * seconds
            if row.outcome is Outcome.DONE and peak is None:
                unmeasured[resource] += amount * seconds
            elif row.outcome is Outcome.DONE:
                used[resource] += peak * seconds
                key = row.category, resource
                peaks[key] = max(peak, peaks.get(key, 0.0))
    whole = machine.amounts()
    accounts = {
        resource: Account(
            given[resource],
            used[resource],
            whole.get(resource, 0.0) * sum(times.values()),
            sum(peaks.get((category, resource), 0.0) * seconds for category, seconds in times.items()),
            unmeasured[resource],
        )
        for resource in SHARED
        if given[resource]
    }
    return Summary(attempts, dict(outcomes), len(again), _covered(spans), accounts)


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return for how long at least one of some spans of time lasted."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
