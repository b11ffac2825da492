"""How far a run is, as its journal says: for whoever looks at it from outside."""

import time
from contextlib import closing
from dataclasses import dataclass

from tonnage.errors import TonnageError
from tonnage.jobs import Resource
from tonnage.run.batch_jobs import BatchJob, batch_jobs
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.run.machines import Machine
from tonnage.run.summary import Summary, summarise

__all__ = ["QUEUED", "InFlight", "RunState", "facts_of", "in_flight", "state_of"]

QUEUED = "queued"
"""The fact of a run on a pool that says how many jobs wait there."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """What a run has begun and not ended, as far as is known; where nobody executes it, that is lost."""

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
    """Who executes it; None where nobody does."""
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
