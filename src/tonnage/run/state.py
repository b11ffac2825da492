"""How far a run is and what it adds up to, as its journal says: for commands and pages that look at it from outside."""

import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from tonnage.errors import TonnageError
from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.run.batch_jobs import BatchJob, batch_jobs
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.run.machines import Machine
from tonnage.waste import NOTHING_HELD, Account, account_for, held_seconds

__all__ = ["QUEUED", "InFlight", "RunState", "Summary", "facts_of", "in_flight", "machine_of", "state_of", "summarise"]

QUEUED = "queued"
"""The fact of a run on a pool that says how many jobs wait there."""


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


@dataclass(frozen=True, slots=True)
class InFlight:
    """What a run has begun and not ended, as far as is known; where no engine executes it, that is lost."""

    running: list[Row]
    queued: list[Row]
    """Attempts that are batch jobs of their own, and have not been seen to run."""
    queued_tasks: int
    """All tasks that a batch system has and that do not run, also those without an attempt yet."""


@dataclass(frozen=True, slots=True)
class RunState:
    """A run at one moment."""

    folder: RunFolder
    process: int | None
    """The process that executes it; None where none does."""
    finished: bool
    now: float
    tasks: int
    done: int
    in_flight: InFlight
    failed: list[Row]
    """The last attempts of tasks that were given up."""
    refused: dict[str, str]
    """Tasks that were given up without an attempt, and why."""
    summary: Summary
    batch_jobs: list[BatchJob]
    """On a cluster, what was submitted."""

    @property
    def failures(self) -> int:
        """How many tasks were given up."""
        return len(self.failed) + len(self.refused)

    @property
    def waiting(self) -> int:
        """How many tasks are ready, or wait for others, and are not in any queue."""
        begun = len(self.in_flight.running) + self.in_flight.queued_tasks
        return max(0, self.tasks - self.done - self.failures - begun)


def state_of(folder: RunFolder) -> RunState:
    """Read how far a run is."""
    process = folder.process()
    reader = Reader(folder.journal)
    try:
        facts = reader.facts()
        tasks, done = reader.counts()
        return RunState(
            folder=folder,
            process=process,
            finished="finished" in facts,
            now=time.time(),
            tasks=tasks,
            done=done,
            in_flight=in_flight(reader),
            failed=reader.failed(),
            refused=reader.given_up(),
            summary=summarise(reader.rows(), machine_of(facts)),
            batch_jobs=batch_jobs(reader),
        )
    finally:
        reader.close()


def in_flight(reader: Reader) -> InFlight:
    """Return what runs, and what waits in the queue of a batch system."""
    jobs = batch_jobs(reader)
    alone = {job.id for job in jobs if not job.packed}
    rows = list(reader.running().values())
    queued = [row for row in rows if row.machine in alone and not row.seen_to_run]
    waiting = {row.attempt for row in queued}
    facts = reader.facts()
    if facts.get("on") == "htcondor":
        elsewhere = int(facts.get(QUEUED, 0))
    else:
        elsewhere = sum(job.tasks for job in jobs if job.packed and job.state == "queued")
    return InFlight([row for row in rows if row.attempt not in waiting], queued, len(queued) + elsewhere)


def facts_of(folder: RunFolder) -> dict[str, str]:
    """Return what a run's journal says about the run as a whole; nothing where it cannot be read."""
    try:
        with closing(Reader(folder.journal)) as reader:
            return reader.facts()
    except TonnageError:
        return {}


def machine_of(facts: dict[str, str]) -> Machine:
    """Return the machine that a run has."""
    found = Machine(1.0, 0.0)
    return found.with_amounts({one: float(facts[one]) for one in Resource if one in facts})
