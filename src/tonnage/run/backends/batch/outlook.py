"""What would be submitted to a live queue, and how it would fare there."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tonnage.archive import run_fraction
from tonnage.archive.session import archive_session
from tonnage.batch import Cluster, Snapshot
from tonnage.batch.scheduler import Request
from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.pack import Submission
from tonnage.pack.remaining import unknown_run_times
from tonnage.pack.trial import Trial, try_on
from tonnage.run.archiving import peaks_of_tasks, wanted_for
from tonnage.run.backends.batch.arrays import alike, request_of
from tonnage.run.backends.batch.pack_contents import packed_request, time_limit_for
from tonnage.run.backends.batch.packing import Packing
from tonnage.run.engine import Engine
from tonnage.run.files import Files
from tonnage.run.folders import RUNS, RunFolder
from tonnage.run.options import Options
from tonnage.run.preflight import asking_for_gpus
from tonnage.run.setup import path_of, set_up
from tonnage.workflow import Workflow

if TYPE_CHECKING:
    from tonnage.run.backends.batch.backend import BatchBackend

__all__ = ["Outlook", "array_scripts", "outlook", "packed_scripts"]

_FINALISTS = 3  # number of batch jobs for which the cluster is asked for an expected start

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outlook:
    """How a workflow would fare in a live queue with some strategies."""

    queue: Snapshot
    trials: list[Trial]
    asked: list[float | None]
    """The cluster's estimates for the first batch jobs of the first strategy: seconds until they start."""
    scripts: list[str]
    """The batch jobs that the first strategy would submit now."""
    run_fraction: float
    """The fraction of their time limits for which other users' jobs are assumed to run."""


def outlook(workflow: Workflow, options: Options, backend: "BatchBackend", strategies: Sequence[str]) -> Outlook:
    """Return what strategies would submit to the live queue, and how it would fare."""
    asking = asking_for_gpus(workflow)
    if asking and set(strategies) != {"per-task"}:
        _log.warning("%s, which tonnage run passes on with --pack per-task only", asking)
    backend.check(workflow)
    home = path_of(workflow).parent
    folder = RunFolder(home / RUNS / "RUN")
    files = Files(home, folder, sandbox=options.sandbox)
    with archive_session(options.archive) as opened:
        for warning in opened.ask(wanted_for(workflow, home)) if options.history else ():
            _log.warning(warning)
        setup = set_up(workflow, options, backend, opened, files)
        seconds = peaks_of_tasks(opened.archive, workflow, Resource.WALL_TIME)
        fraction = run_fraction(opened.archive) or 1.0
    engine = setup.engine
    packing = Packing(strategies[0], setup.sizes.workflow, setup.places, backend.machine, seconds)
    unknown = packing.unknown(engine)
    if unknown:
        problem = unknown_run_times(workflow, unknown)
        hint = "run the workflow once, so that the archive knows them; WfFormat and DAX files can also contain them"
        raise InputError(problem, path=path_of(workflow), hint=hint)
    queue, work = backend.scheduler.queue(fraction), packing.work(engine)
    trials = [
        try_on(work, Cluster.after(queue, max_submitted=backend.most), name, packing.settings) for name in strategies
    ]
    first = trials[0].first
    if trials[0].strategy == "per-task":
        return Outlook(queue, trials, [], array_scripts(backend, engine, files, folder), fraction)
    asked = [backend.scheduler.check(request) for request in _requests(backend, first[:_FINALISTS], files, folder)]
    return Outlook(queue, trials, asked, packed_scripts(backend, first, files, folder), fraction)


def array_scripts(backend: "BatchBackend", engine: Engine, files: Files, folder: RunFolder) -> list[str]:
    """Return the scripts of unpacked tasks, similar ones as an array."""
    found = []
    groups = alike(engine.admit(), engine.tasks, max(1, backend.limits.array))
    for number, group in enumerate(groups, start=1):
        task, place = engine.tasks[group[0].task], folder.batches / str(number)
        request = request_of(group[0], task, f"tonnage-{folder.id}-{number}", files.folder, place)
        found.append(backend.scheduler.script(replace(request, elements=len(group) if len(group) > 1 else 0)))
    return found


def packed_scripts(backend: "BatchBackend", jobs: Sequence[Submission], files: Files, folder: RunFolder) -> list[str]:
    """Return the scripts of packed batch jobs."""
    return [backend.scheduler.script(request) for request in _requests(backend, jobs, files, folder)]


def _requests(backend: "BatchBackend", jobs: Sequence[Submission], files: Files, folder: RunFolder) -> list[Request]:
    return [
        packed_request(
            f"tonnage-{folder.id}-{number}",
            files.folder,
            folder.batches / str(number),
            job.nodes,
            time_limit_for(job, backend.limits),
            backend.avoided,
            backend.scheduler.inside,
        )
        for number, job in enumerate(jobs, start=1)
    ]
