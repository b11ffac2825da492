"""What a run would do, without doing it: sizes, batch jobs, and what may become of them in the queue."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.archive import run_fraction
from tonnage.archive.remote import Contact, contact
from tonnage.errors import InputError
from tonnage.files import stem
from tonnage.jobs import Resource
from tonnage.rank import rank
from tonnage.run.engine import Engine
from tonnage.run.files import Files
from tonnage.run.folders import RUNS, RunFolder
from tonnage.run.past import peaks_of_tasks, wanted_for
from tonnage.run.preparing import (
    Explained,
    Options,
    PoolOptions,
    Sizes,
    asking_for_gpus,
    check_commands,
    check_gpus,
    explained,
    path_of,
    sizes_of,
    world_of,
)
from tonnage.run.queue import places_of
from tonnage.run.resuming import finals
from tonnage.run.worlds import World
from tonnage.workflow import Workflow

if TYPE_CHECKING:
    from tonnage.batch import Snapshot
    from tonnage.batch.scheduler import Request
    from tonnage.pack import Submission
    from tonnage.pack.trial import Trial
    from tonnage.run.cluster.packing import Packing
    from tonnage.run.cluster.world import ClusterWorld

__all__ = ["Outlook", "Preview", "outlook", "preview"]

_FINALISTS = 3  # batch jobs whose start the cluster itself is asked for


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do at first."""

    explained: list[Explained]
    scripts: list[str]
    """The batch jobs that would be submitted, where it runs on a cluster."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What may become of a workflow in a live queue, with some strategies."""

    queue: "Snapshot"
    trials: "list[Trial]"
    asked: list[float | None]
    """When the first batch jobs of the first strategy would start, as the cluster says: seconds from now."""
    scripts: list[str]
    """The batch jobs that the first strategy would submit now."""
    run_fraction: float
    """For which part of their time limits others' jobs are reckoned to run."""


def preview(workflow: Workflow, options: Options, say: Callable[[str], None]) -> Preview:
    """Return what a run would do at first, without touching anything."""
    check_commands(workflow)
    check_gpus(workflow, options.cluster)
    with contact(options.archive) as opened:
        draft = _Draft(workflow, options, opened, say)
        found = explained(draft.sizes, draft.files, range(len(workflow)))
        return Preview(found, draft.scripts() if options.cluster else [])


def outlook(workflow: Workflow, options: Options, strategies: Sequence[str], say: Callable[[str], None]) -> Outlook:
    """Return what strategies would submit to the live queue, and what may become of it."""
    from tonnage.batch import Cluster
    from tonnage.pack.trial import try_on

    asking = asking_for_gpus(workflow)
    if asking and set(strategies) != {"per-task"}:
        say(f"{asking}: tonnage run passes that on with --pack per-task only")
    with contact(options.archive) as opened:
        draft = _Draft(workflow, options, opened, say)
        packing, world = draft.packing(strategies[0]), draft.cluster()
        unknown = packing.unknown(draft.engine)
        if unknown:
            problem = f'the run times of {len(unknown):,} tasks are unknown ("{workflow.tasks[unknown[0]].name}")'
            hint = "let the workflow run once: the archive knows them then; WfFormat and DAX files can hold them"
            raise InputError(problem, path=path_of(workflow), hint=hint)
        queue, work = draft.queue(), packing.work(draft.engine)
        trials = [
            try_on(work, Cluster.after(queue, max_submitted=world.most), name, packing.settings) for name in strategies
        ]
        first = trials[0]
        alone = first.strategy == "per-task"
        scripts = draft.array_scripts() if alone else draft.packed_scripts(first.first)
        return Outlook(queue, trials, [] if alone else draft.ask(first.first), scripts, draft.run_fraction)


class _Draft:
    """A run that is only thought of."""

    def __init__(self, workflow: Workflow, options: Options, contact: Contact, say: Callable[[str], None]) -> None:
        home = path_of(workflow).parent
        self.world: World = world_of(home, options, say)
        self.world.check(workflow)
        for warning in contact.ask(wanted_for(workflow)):
            say(warning)
        archive = contact.archive
        self.sizes: Sizes = sizes_of(workflow, options.strategy, self.world, archive)
        self.folder = RunFolder(home / RUNS / "RUN")
        self.files = Files(home, self.folder, sandbox=options.sandbox)
        self.run_fraction = (run_fraction(archive) or 1.0) if options.cluster else 1.0
        self._seconds = peaks_of_tasks(archive, workflow, Resource.WALL_TIME) if options.cluster else {}
        self._options = options
        ready = self.sizes.workflow
        self._places = places_of(ready, rank(ready, options.rank).tolist())
        self.engine = Engine(
            ready.tasks,
            self.sizes.learner,
            self.world.space(),
            workflow=ready,
            places=self._places,
            rules=options.rules,
            input_bytes=lambda number: self.files.input_bytes(ready.tasks[number]),
            carried=self.sizes.known,
        )

    def cluster(self) -> "ClusterWorld":
        """Return the cluster."""
        from tonnage.run.cluster.world import ClusterWorld

        if not isinstance(self.world, ClusterWorld):
            raise InputError("this is for clusters")
        return self.world

    def packing(self, strategy: str) -> "Packing":
        """Return who asks a packer."""
        from tonnage.run.cluster.packing import Packing

        return Packing(strategy, self.sizes.workflow, self._places, self.world.machine, self._seconds)

    def queue(self) -> "Snapshot":
        """Return the live queue."""
        return self.cluster().scheduler.queue(self.run_fraction)

    def scripts(self) -> list[str]:
        """Return the scripts of the batch jobs that would be submitted at first."""
        if isinstance(self._options.cluster, PoolOptions):
            return [self._written_dag()]
        world = self.cluster()
        packing = self.packing(world.pack)
        if world.pack == "per-task" or (world.pack == "auto" and packing.unknown(self.engine)):
            return self.array_scripts()
        packed = packing.ask(self.engine, self.queue(), [], world.most)
        if packed is None or packed.singly:
            return self.array_scripts()
        return self.packed_scripts(packed.jobs)

    def _written_dag(self) -> str:
        """Write the DAG that would be submitted, and return how that is done."""
        from tonnage.batch.htcondor.dag import write_dag
        from tonnage.batch.htcondor.system import submit_words
        from tonnage.run.pool.planning import Plan
        from tonnage.run.pool.world import PoolWorld

        if not isinstance(self.world, PoolWorld):
            raise InputError("this is for pools")
        workflow, home = self.sizes.workflow, self.files.folder
        last = finals(workflow)
        left_out = f"# left out, since tonnage run starts it itself: {last[0].name}\n" if last else ""
        if not len(workflow):
            return left_out
        plan = Plan(
            workflow=workflow,
            engine=self.engine,
            places=self._places,
            home=home,
            manner=self.world.manner,
            retries=self._options.rules.retries,
            sandbox=self._options.sandbox,
        )
        folder = home / RUNS.parent / "dry-run" / stem(path_of(workflow))
        dag = plan.dag(folder, range(len(workflow)))
        write_dag(dag)
        command = shlex.join(submit_words(dag.path, f"tonnage-{workflow.name}", self.world.manner.most))
        return f"{left_out}cd {shlex.quote(str(home))} && {command}"

    def array_scripts(self) -> list[str]:
        """Return the scripts of tasks that go alone."""
        from tonnage.run.cluster.arrays import alike, request_of

        world, found = self.cluster(), []
        groups = alike(self.engine.admit(), self.engine.tasks, max(1, world.limits.array))
        for number, group in enumerate(groups, start=1):
            task, name = self.engine.tasks[group[0].task], f"tonnage-RUN-{number}"
            request = request_of(group[0], task, name, self.files.folder, self._place(number))
            found.append(world.scheduler.script(replace(request, elements=len(group) if len(group) > 1 else 0)))
        return found

    def packed_scripts(self, jobs: "Sequence[Submission]") -> list[str]:
        """Return the scripts of batch jobs that carry many tasks."""
        return [self.cluster().scheduler.script(request) for request in self._requests(jobs)]

    def ask(self, jobs: "Sequence[Submission]") -> list[float | None]:
        """Return when the cluster says that the first batch jobs would start."""
        return [self.cluster().scheduler.check(request) for request in self._requests(jobs[:_FINALISTS])]

    def _requests(self, jobs: "Sequence[Submission]") -> "list[Request]":
        from tonnage.run.cluster.loading import packed_request, seconds_of

        return [
            packed_request(
                f"tonnage-RUN-{number}",
                self.files.folder,
                self._place(number),
                job.nodes,
                seconds_of(job, self.cluster().limits),
                self.cluster().avoided,
            )
            for number, job in enumerate(jobs, start=1)
        ]

    def _place(self, number: int) -> Path:
        return self.folder.batches / str(number)
