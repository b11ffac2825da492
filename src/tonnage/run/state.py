"""How far a run is, as its journal says: for whoever looks at it from outside."""

import time
from contextlib import closing
from dataclasses import dataclass

from tonnage.errors import TonnageError
from tonnage.jobs import Resource
from tonnage.run.batch_jobs import BatchJob, batch_jobs
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Reader
from tonnage.run.machines import Machine
from tonnage.run.rows import Row
from tonnage.run.summary import Summary, summarise

__all__ = ["RunState", "facts_of", "state_of"]


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
    running: list[Row]
    """Attempts without an end; where nobody executes the run, they are lost."""
    failed: list[Row]
    """The last attempts of tasks that were given up."""
    refused: dict[str, str]
    """Tasks that were given up without an attempt, and why."""
    summary: Summary
    batch_jobs: list[BatchJob]
    """On a cluster, what was submitted."""


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
            running=list(reader.running().values()),
            failed=reader.failed(),
            refused=reader.given_up(),
            summary=summarise(reader.rows(), machine_of(facts)),
            batch_jobs=batch_jobs(reader),
        )
    finally:
        reader.close()


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
