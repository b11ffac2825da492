"""The subject of a report: a run and its workflow, or jobs from logs or the archive."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Literal

from tonnage.errors import TonnageError
from tonnage.jobs import Attempt, Outcome, Resource
from tonnage.report.attempt_table import AttemptTable, Gathering
from tonnage.run.archiving import attempts_of
from tonnage.run.bad_nodes import BadNode
from tonnage.run.failed_tasks import FailedTask, failed_tasks
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Reader
from tonnage.run.state import describe_growth, machine_of
from tonnage.workflow import Workflow, read

__all__ = ["ReportSource", "gather_run"]


@dataclass(frozen=True, slots=True)
class ReportSource:
    """The subject of a report: a run, or the jobs of a source."""

    kind: Literal["run", "jobs"]
    title: str
    by: str = "category"
    """What jobs are grouped by."""
    workflow: Workflow | None = None
    machine: Mapping[Resource, float] = field(default_factory=dict)
    tasks: int | None = None
    """How many tasks the workflow has, and how many of them are done; None if there are only jobs."""
    done: int | None = None
    state: Literal["finished", "under way", "not finished", ""] = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """How a run was executed."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What people call tasks, if that is not their name."""
    failures: tuple[FailedTask, ...] = ()
    bad_nodes: tuple[BadNode, ...] = ()
    """Nodes that were avoided, because tasks failed there and not elsewhere."""
    notes: tuple[str, ...] = ()
    """Remarks at the top of the report."""


def gather_run(folder: RunFolder, by: str = "category") -> tuple[ReportSource, AttemptTable]:
    """Read a run, finished or not, and its workflow, unless that has changed since."""
    process = folder.process()
    with closing(Reader(folder.journal)) as reader:
        facts = reader.facts()
        workflow, notes = _workflow(folder, facts)
        growth = describe_growth(reader.adjusted_attempts())
        tasks, done = reader.counts()
        finished = "finished" in facts
        subject = ReportSource(
            kind="run",
            title=folder.id,
            by=by,
            workflow=workflow,
            machine=machine_of(facts).amounts() if "memory" in facts else {},
            tasks=tasks,
            done=done,
            state="under way" if process is not None else "finished" if finished else "not finished",
            settings={name: facts[name] for name in ("strategy", "rank", "on") if name in facts},
            titles=reader.titles(),
            failures=tuple(failed_tasks(reader)),
            bad_nodes=tuple(reader.bad_nodes().found),
            notes=(*notes, f"{growth[0].upper()}{growth[1:]}.") if growth else notes,
        )
        known = workflow or Workflow.build(facts.get("name", folder.id), [])
        open_ends: list[Attempt] = []

        def ended() -> Iterator[Attempt]:
            for attempt in attempts_of(reader, folder, known, open_ends=True):
                if attempt.ended is not None:
                    yield attempt
                elif process is not None:
                    open_ends.append(attempt)
                else:
                    yield replace(attempt, outcome=Outcome.LOST)

        gathering = Gathering(by, workflow)
        material = gathering.gather(ended(), open_ends, time.time())
    return subject, material


def _workflow(folder: RunFolder, facts: Mapping[str, str]) -> tuple[Workflow | None, tuple[str, ...]]:
    """Return the workflow of a run, or None and why it is unknown."""
    name = facts.get("workflow")
    if name is None:
        return None, ("It was run from a Python program, so its dependencies are unknown.",)
    path = folder.path.parents[2] / name
    if not path.is_file():
        return None, (f"The workflow {name} no longer exists, so its dependencies are unknown.",)
    try:
        workflow = read(path)
    except TonnageError:
        return None, (f"The workflow {name} can no longer be read, so its dependencies are unknown.",)
    if workflow.checksum != facts.get("checksum"):
        return None, (f"The workflow {name} has changed since, so its dependencies are unknown.",)
    return workflow, ()
