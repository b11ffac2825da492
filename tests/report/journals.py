"""Journals of runs that never ran, written by the journal's own code: as large and as odd as a test needs."""

import math
import random
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tonnage.jobs import Amounts, Decision, Outcome, Resource
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.folders import RUNS, RunFolder
from tonnage.run.journal import Journal

__all__ = ["BEGUN", "Try", "many", "write_run"]

BEGUN = 1_700_000_000.0
GB = 1e9


@dataclass(frozen=True)
class Try:
    """One attempt; without an end it runs."""

    task: int
    number: int = 1
    started: float = 0.0
    ended: float | None = 1.0
    given: float = 2 * GB
    used: float | None = GB
    outcome: Outcome = Outcome.DONE
    exhausted: Resource | None = None
    note: str = ""
    wall_time: float | None = None
    """What the monitor measured; otherwise from its start to its end."""


def write_run(
    folder: Path, tasks: list[tuple[str, str]], tries: Iterable[Try], *, id: str = "made-20231114-221320", **facts: str
) -> RunFolder:
    """Write the journal of a run of some tasks (name, category), whose attempts these are."""
    run = RunFolder(folder / RUNS / id)
    run.make()
    with closing(Journal(run.journal)) as journal:
        journal.note(
            {
                "name": "made",
                "begun": str(BEGUN),
                "cores": "8",
                "memory": str(16 * GB),
                "disk": str(100 * GB),
                "strategy": "auto",
                "rank": "prio",
                "on": "local",
                **facts,
            }
        )
        journal.take_tasks([(name, category, b"") for name, category in tasks])
        for number, one in enumerate(tries, 1):
            decisions = (
                Decision(Resource.MEMORY, (one.given, 16 * GB), "auto", 7, f"because it is {one.given / GB:g}"),
                Decision(Resource.CORES, (1.0, 8.0), "percentile", 7, "cores are cores"),
            )
            journal.started([Start(number, one.task, one.number, 0, decisions, math.nan)], BEGUN + one.started)
            if one.ended is None:
                continue
            took = one.ended - one.started if one.wall_time is None else one.wall_time
            used = Amounts.of(memory=one.used, cores=0.5, wall_time=took)
            end = Ended(
                attempt=number,
                outcome=one.outcome,
                used=used,
                exhausted=one.exhausted,
                started=BEGUN + one.started,
                ended=BEGUN + one.ended,
                note=one.note,
            )
            state = State.DONE if one.outcome is Outcome.DONE else State.FAILED
            journal.ended(end, Settled(one.task, state))
        journal.commit()
    return run


def many(folder: Path, attempts: int, categories: int = 10) -> RunFolder:
    """Write the journal of a large run."""
    chance = random.Random(4)
    tasks = [(f"task-{place}", f"category-{place % categories}") for place in range(attempts)]
    tries = (
        Try(
            place,
            started=place * 0.01,
            ended=place * 0.01 + chance.expovariate(1 / 60),
            used=chance.lognormvariate(0, 0.4) * GB,
        )
        for place in range(attempts)
    )
    return write_run(folder, tasks, tries, finished=str(BEGUN + attempts))
