"""The contents of a batch job that carries many tasks: its job spec, and what it requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tonnage.batch.scheduler import Limits, Request
from tonnage.jobs import Resource
from tonnage.pack import Submission
from tonnage.run.backends.batch.submitter import OUTPUT, module_command
from tonnage.run.batch_jobs import BatchJob
from tonnage.run.engine import Engine
from tonnage.run.events import Carried, State
from tonnage.run.pilot.job_spec import JobSpec
from tonnage.workflow import Workflow

__all__ = ["Awaited", "Loading", "packed_request", "time_limit_for"]

_STARTING = 60  # seconds that a batch job needs to start its first task, and to shut down

Awaited = dict[int, tuple[tuple[int, str], ...]]
"""For each task, the tasks of other batch jobs that it waits for: number of the batch job, and name of the task."""


@dataclass(frozen=True, slots=True)
class Loading:
    """Creates job specs for tasks; `common` holds what they all share."""

    workflow: Workflow
    places: Sequence[int]
    """The position of each task in the preferred order."""
    common: JobSpec
    avoided: tuple[str, ...] = ()
    """Nodes that are too small for the sizes of tasks."""

    def awaited(self, tasks: Sequence[int], engine: Engine, pilot_of: Callable[[int], int | None]) -> Awaited | None:
        """Return the tasks of other batch jobs that some wait for; None if one of these is not in any batch job."""
        inside = set(tasks)
        found: Awaited = {}
        for number, task in enumerate(tasks):
            others = []
            for parent in self.workflow.graph.parents_of(task).tolist():
                if parent in inside or engine.states[parent] == State.DONE:
                    continue
                pilot = pilot_of(parent)
                if pilot is None:
                    return None
                others.append((pilot, self.workflow.tasks[parent].name))
            if others:
                found[number] = tuple(others)
        return found

    def job_spec(self, job: BatchJob, tasks: Sequence[int], awaited: Awaited, engine: Engine) -> JobSpec:
        """Create the job spec of a batch job."""
        number = {task: place for place, task in enumerate(tasks)}
        dependencies = tuple(
            (number[parent], number[task])
            for task in tasks
            for parent in self.workflow.graph.parents_of(task).tolist()
            if parent in number
        )
        return replace(
            self.common,
            number=job.id,
            first_attempt=job.first_attempt,
            attempts=job.attempts,
            tasks=tuple(self.workflow.tasks[task] for task in tasks),
            places=tuple(self.places[task] for task in tasks),
            dependencies=dependencies,
            awaited=awaited,
            carried={number[task]: _carried(engine, task) for task in tasks},
        )


def _carried(engine: Engine, task: int) -> Carried:
    """Return the next allocation of a task; if nothing is known yet, the batch job learns it itself."""
    known = engine.next_try(task)
    decided = [one for one in known.decisions or () if one.resource is Resource.MEMORY]
    return known if known.attempts or any(one.samples for one in decided) else replace(known, decisions=None)


def packed_request(
    name: str, home: Path, folder: Path, nodes: int, seconds: float | None, avoided: tuple[str, ...], inside: str
) -> Request:
    """Return the request for a packed batch job, which runs on all nodes but `avoided`; for `inside` see Scheduler."""
    return Request(
        name=name,
        words=(*module_command("tonnage.run.pilot.pilot_job"), str(folder), "--inside", inside),
        folder=home,
        output=folder / OUTPUT,
        nodes=nodes,
        whole_nodes=True,
        seconds=seconds,
        avoided=avoided,
    )


def time_limit_for(chosen: Submission, limits: Limits) -> float:
    """Return the time limit of a batch job: what the packer requests, plus time to start its agents."""
    return min(float(chosen.seconds + _STARTING), limits.seconds)
