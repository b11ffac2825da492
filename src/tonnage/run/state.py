"""The state and the summary of a run, read from its journal, for commands and pages that show it."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from tonnage.errors import TonnageError
from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.run.bad_nodes import BadNode
from tonnage.run.batch_jobs import BatchJob, batch_jobs
from tonnage.run.events import Action
from tonnage.run.failed_tasks import FailedTask, failed_tasks
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.run.machines import Machine
from tonnage.waste import NOTHING_HELD, Account, account_for, held_seconds

__all__ = [
    "QUEUED",
    "InFlight",
    "RunState",
    "Summary",
    "declared_and_given",
    "describe_growth",
    "facts_of",
    "in_flight",
    "machine_of",
    "state_of",
    "summarise",
    "summary_of",
]

QUEUED = "queued"
"""The fact about a run on a pool with the number of jobs that wait there."""

_UNKNOWN = "did not finish"
_WHY_AGAIN = {
    Outcome.DONE: "had to be done again",  # its files or its command changed
    Outcome.FAILED: "failed before",
    Outcome.EXHAUSTED: "needed more than they had",
    Outcome.PREEMPTED: "preempted",
    Outcome.LOST: "lost or killed from outside",
    Outcome.CANCELLED: "interrupted",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a run."""

    attempts: int
    outcomes: dict[Outcome, int]
    retried: int
    """Number of tasks that needed more than one attempt."""
    retried_because: dict[str, int]
    """Why: for each reason, the number of tasks."""
    seconds: float
    """The time during which something ran, or waited in the queue of a cluster."""
    task_seconds: float
    """The time that all attempts took together."""
    accounts: dict[Resource, Account]
    adjusted: dict[Action, int] = field(default_factory=dict)
    """How many attempts outgrew their memory, or were paused or stopped for lack of it."""

    def average(self, resource: Resource) -> tuple[float, float | None] | None:
        """Return what a task had on average, and what it used of that, if known; None if no task succeeded."""
        account = self.accounts.get(resource)
        if account is None or not self.task_seconds or not self.outcomes.get(Outcome.DONE):
            return None
        given, wasted = account.given / self.task_seconds, account.waste_fraction
        return given, None if wasted is None else given * (1 - wasted)


def summarise(rows: Iterable[Row], machine: Machine) -> Summary:
    """Add up the attempts of a run."""
    outcomes: dict[Outcome, int] = defaultdict(int)
    spans: list[tuple[float, float]] = []
    reasons: dict[str, set[str]] = defaultdict(set)
    ended: dict[str, str] = {}
    task_seconds = 0.0
    accounts: dict[tuple[str, Resource], Account] = defaultdict(Account)
    peaks: dict[tuple[str, Resource], float] = defaultdict(float)
    times: dict[str, float] = defaultdict(float)
    for row in rows:
        if row.ended is None or row.outcome is None:
            continue
        outcomes[row.outcome] += 1
        spans.append((row.started if row.submitted is None else row.submitted, row.ended))
        if row.number > 1:
            reasons[ended.get(row.task, _UNKNOWN)].add(row.task)
        ended[row.task] = _why(row)
        seconds = held_seconds(row.started, row.ended, row.used.wall_time) or 0.0
        task_seconds += seconds
        succeeded = row.outcome is Outcome.DONE
        times[row.category] += seconds if succeeded else 0.0
        for resource in SHARED:
            given, peak = getattr(row.held, resource), getattr(row.used, resource)
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
    return Summary(
        attempts=sum(outcomes.values()),
        outcomes=dict(outcomes),
        retried=len(set().union(*reasons.values())),
        retried_because={why: len(tasks) for why, tasks in sorted(reasons.items(), key=lambda one: -len(one[1]))},
        seconds=_covered(spans),
        task_seconds=task_seconds,
        accounts=found,
    )


def summary_of(reader: Reader, machine: Machine) -> Summary:
    """Add up the attempts in a journal, and what became of their memory while they ran."""
    return replace(summarise(reader.rows(), machine), adjusted=reader.adjusted_attempts())


def describe_growth(adjusted: Mapping[Action, int]) -> str:
    """Describe how many attempts outgrew their memory, or were paused or stopped for lack of it; empty if none."""
    words = {
        Action.GROW: "outgrew the allocated memory",
        Action.PAUSE: "paused until there was room",
        Action.STOP: "stopped to make room",
    }
    counts = [f"{adjusted[action]:,} {what}" for action, what in words.items() if adjusted.get(action)]
    return f"attempts: {', '.join(counts)}" if counts else ""


def _why(row: Row) -> str:
    """Return why a task needs another attempt after this one."""
    if row.outcome is Outcome.EXHAUSTED and row.exhausted is not None:
        return f"needed more {str(row.exhausted).replace('_', ' ')}"
    return _WHY_AGAIN.get(row.outcome, _UNKNOWN) if row.outcome is not None else _UNKNOWN


def declared_and_given(rows: Iterable[Row], declared: Mapping[str, float]) -> tuple[float, float]:
    """Return the memory that tasks would have had if each had what it declares, and what they had, times seconds.

    `declared` has the tasks that declare something; the others do not count, and neither do attempts of unknown size.
    """
    wanted = given = 0.0
    for row in rows:
        asked, had = declared.get(row.task), row.held.memory
        seconds = held_seconds(row.started, row.ended, row.used.wall_time) if row.ended is not None else None
        if asked is None or had is None or seconds is None:
            continue
        given += had * seconds
        wanted += asked * seconds if row.outcome is Outcome.DONE else 0.0
    return wanted, given


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
    failed: list[FailedTask]
    summary: Summary
    batch_jobs: list[BatchJob]
    """The batch jobs that were submitted to a cluster."""
    bad_nodes: list[BadNode]
    """Nodes that are or were avoided, because tasks failed there and not elsewhere."""

    @property
    def failures(self) -> int:
        """Number of tasks that failed."""
        return len(self.failed)

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
            failed=failed_tasks(reader),
            summary=summary_of(reader, machine_of(facts)),
            batch_jobs=batch_jobs(reader),
            bad_nodes=reader.bad_nodes().found,
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
