"""The state and the summary of a run, read from its journal, for commands and pages that show it."""

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
"""The fact about a run on a pool with the number of jobs that wait there."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a run."""

    attempts: int
    outcomes: dict[Outcome, int]
    retried: int
    """Number of tasks that needed more than one attempt."""
    seconds: float
    """The time during which something ran, or waited in the queue of a cluster."""
    accounts: dict[Resource, Account]


def summarise(rows: Iterable[Row], machine: Machine) -> Summary:
    """Add up the attempts of a run."""
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
    """Return the total time that the spans cover together."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


@dataclass(frozen=True, slots=True)
class InFlight:
    """What is running or queued, as far as the journal knows; if no engine executes the run, it is lost."""

    running: list[Row]
    queued: list[Row]
    """Attempts in batch jobs of their own that are not known to have started."""
    queued_tasks: int
    """Number of all tasks that wait in a batch system, including those without an attempt yet."""


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run at one moment."""

    folder: RunFolder
    process: int | None
    """The process that executes it, if there is one."""
    finished: bool
    now: float
    tasks: int
    done: int
    in_flight: InFlight
    failed: list[Row]
    """The last attempts of failed tasks."""
    refused: dict[str, str]
    """Tasks that failed without an attempt, and why."""
    summary: Summary
    batch_jobs: list[BatchJob]
    """The batch jobs that were submitted to a cluster."""

    @property
    def failures(self) -> int:
        """Number of tasks that failed."""
        return len(self.failed) + len(self.refused)

    @property
    def waiting(self) -> int:
        """Number of tasks that are ready or wait for others, and are not in the queue of a batch system."""
        begun = len(self.in_flight.running) + self.in_flight.queued_tasks
        return max(0, self.tasks - self.done - self.failures - begun)


def state_of(folder: RunFolder) -> RunState:
    """Read the state of a run from its journal."""
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
    """Return what is running, and what waits in the queue of a batch system."""
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
    """Return the facts about a run from its journal; empty if it cannot be read."""
    try:
        with closing(Reader(folder.journal)) as reader:
            return reader.facts()
    except TonnageError:
        return {}


def machine_of(facts: dict[str, str]) -> Machine:
    """Return the machine of a run from its facts."""
    found = Machine(1.0, 0.0)
    return found.with_amounts({one: float(facts[one]) for one in Resource if one in facts})
