"""A cluster as a backend: its nodes, the limits of its queue, and the batch jobs of earlier engines."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import nan
from pathlib import Path

from tonnage.batch.scheduler import Node, Request, Scheduler
from tonnage.errors import InputError, SubmissionRejectedError, TonnageError
from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.pack.remaining import unknown_run_times
from tonnage.run.backends.backend import Driver, Outstanding, RunContext, Watcher, refuse_too_large
from tonnage.run.backends.batch.arrays import MONITOR, Arrays
from tonnage.run.backends.batch.driver import BatchDriver
from tonnage.run.backends.batch.in_queue import in_queue, open_jobs
from tonnage.run.backends.batch.outlook import array_scripts, packed_scripts
from tonnage.run.backends.batch.pack_contents import Loading
from tonnage.run.backends.batch.packing import Packing
from tonnage.run.backends.batch.packs import Packs
from tonnage.run.backends.batch.submitter import Submitter
from tonnage.run.batch_jobs import BatchJobs
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal
from tonnage.run.journal_rows import Row
from tonnage.run.machines import Machine, QueueRoom, Space
from tonnage.run.pilot.job_spec import JobSpec
from tonnage.run.recovery import NO_SUCH_TASK
from tonnage.workflow import Workflow

__all__ = ["ALONE", "BatchBackend"]

ALONE = "per-task"
"""The packing strategy that makes each task a batch job of its own."""
_COARSE = 8
_AT_ONCE, _PER_CORE = 200, 4
"""At most this many tasks are queued or running, or this many per core: later ones benefit from what was learnt."""
_PACKED_AT_ONCE = 100
_AGENT, _MINDER = 64.0 * 2**20, 12.0 * 2**20
"""Memory of our own processes on a whole node: one agent, and one minder per core."""
_NETWORK_GRACE = 90.0  # seconds until a network file system shows what was written elsewhere

_log = logging.getLogger(__name__)


class BatchBackend:
    """The part of a cluster to which a user submits."""

    coarse: int | None = _COARSE

    def __init__(
        self,
        scheduler: Scheduler,
        home: Path,
        *,
        pack: str = ALONE,
        amounts: Mapping[Resource, float] | None = None,
        max_running: int | None = None,
        max_submitted: int | None = None,
    ) -> None:
        """Query the nodes and limits of the cluster; `amounts` are the user's maximum for a task.

        Raises InputError if nothing can be submitted.
        """
        self.name = scheduler.name
        self.pack = pack
        self.scheduler = scheduler
        self.limits = scheduler.limits()
        for note in self.limits.notes:
            _log.info(note)
        every = {node.name: self._machine(node, amounts or {}) for node in self.limits.nodes}
        self._machines = [every[node.name] for node in self.limits.nodes if node.usable] or list(every.values())
        self.machine = _largest(self._machines) if pack == ALONE else _usual(self._machines)
        need = self.machine.cores, self.machine.memory, 0.0
        self.nodes = {name: machine for name, machine in every.items() if machine.holds(need)}
        """The nodes for packed batch jobs: all that are large enough for the sizes of tasks."""
        self.avoided = tuple(name for name in every if name not in self.nodes)
        self.most = self._at_once(max_running, max_submitted)
        self._try(home)

    def _machine(self, node: Node, amounts: Mapping[Resource, float]) -> Machine:
        """Return what tasks can use of a node, without the memory of our own processes."""
        ours = MONITOR * node.cores if self.pack == ALONE else _AGENT + _MINDER * node.cores
        # Disk is not limited by nodes: tasks write to the shared file system.
        there = Machine(float(node.cores), node.memory - min(ours, node.memory / 4))
        limits = {one: min(amount, getattr(there, one)) for one, amount in amounts.items() if one in SHARED}
        return there.with_amounts(limits)

    def _at_once(self, max_running: int | None, max_submitted: int | None) -> int:
        cores = sum(int(one.cores) for one in self._machines)
        usual = max(_AT_ONCE, _PER_CORE * cores) if self.pack == ALONE else _PACKED_AT_ONCE
        limits = [one for one in (max_running, max_submitted) if one is not None] or [usual]
        return max(1, min(limits if self.limits.submitted is None else [*limits, self.limits.submitted]))

    def _try(self, home: Path) -> None:
        """Check that the cluster would accept a small job, to detect problems such as an invalid account early."""
        request = Request(
            name="tonnage-try", words=("true",), folder=home, output=home / "output", cores=1, memory=MONITOR
        )
        try:
            self.scheduler.check(request)
        except SubmissionRejectedError as error:
            raise InputError(str(error), hint=error.hint) from None

    def amounts(self) -> dict[Resource, float]:
        """Return the maximum of each resource for a task, including its time limit."""
        return {**self.machine.amounts(), Resource.WALL_TIME: self.limits.seconds}

    def space(self) -> Space:
        """Return the room in the queue."""
        usable = [node.name for node in self.limits.nodes if node.usable] or [node.name for node in self.limits.nodes]
        there = usable if self.pack == ALONE else [name for name in usable if name in self.nodes]
        return QueueRoom(self._machines, self.most, there)

    def check(self, workflow: Workflow) -> None:
        """Raise InputError if a task requests more than any node has."""
        if self.pack == ALONE:
            refuse_too_large(workflow, self.machine, "the largest node")
        else:
            hint = "--pack per-task uses the largest nodes, too"
            refuse_too_large(workflow, self.machine, "a typical node", hint)

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:
        """Return the attempts and tasks of batch jobs that have not ended according to the journal.

        Raises InputError if a batch job with a `stale` task is still in the queue.
        """
        jobs = {job.id: job for job in BatchJobs(journal).open()}
        running = [row for row in journal.running().values() if row.machine in jobs]
        tasks = {job.id: _carried(folder.batches / str(job.id)) if job.packed else set() for job in jobs.values()}
        for row in running:
            tasks[row.machine].add(row.task)
        outdated = in_queue([jobs[number] for number, names in tasks.items() if names & stale], self.scheduler)
        if outdated:
            raise InputError(
                f"batch jobs contain tasks that have changed or depend on changed ones: {', '.join(sorted(outdated))}",
                hint=f"cancel them with tonnage stop {folder.id}, then run the same command again",
            )
        attempts = frozenset(row.attempt for row in running if row.task not in stale)
        return Outstanding(attempts, frozenset().union(*tasks.values()) - stale)

    def still_out(self, folder: RunFolder) -> int:
        """Return the number of batch jobs that a run has in the queue."""
        return len(in_queue(open_jobs(folder), self.scheduler))

    @contextmanager
    def driving(self, context: RunContext, watcher: Watcher) -> Iterator[Driver]:
        """Take over earlier batch jobs, and return a driver that submits tasks to the cluster."""
        submitter = Submitter(
            engine=context.engine,
            journal=context.journal,
            files=context.files,
            folder=context.folder,
            lock=context.lock,
            token=context.token,
            scheduler=self.scheduler,
            limits=self.limits,
            watcher=watcher,
        )
        packs = self._packs(submitter, context)
        grace = _NETWORK_GRACE if context.shared_disk else 0.0
        driver = BatchDriver(submitter, Arrays(submitter), packs, context.run_fraction, grace)
        driver.take_up(submitter.jobs.open(), self._adopt(context))
        yield driver

    def submissions(self, context: RunContext) -> list[str]:
        """Return the scripts of the batch jobs that would be submitted first."""
        self._adopt(context)
        packing = self._packing(context)
        if self.pack == ALONE or self._cannot_pack(packing, context):
            return array_scripts(self, context.engine, context.files, context.folder)
        packed = packing.ask(context.engine, self.scheduler.queue(context.run_fraction), [], self.most)
        if packed is None or packed.singly:
            return array_scripts(self, context.engine, context.files, context.folder)
        return packed_scripts(self, packed.jobs, context.files, context.folder)

    def _packing(self, context: RunContext) -> Packing:
        return Packing(self.pack, context.workflow, context.places, self.machine, context.seconds)

    def _packs(self, submitter: Submitter, context: RunContext) -> Packs:
        packing = self._packing(context)
        common = JobSpec(
            run=str(context.folder.path),
            home=str(context.files.folder),
            token=context.token,
            number=0,
            first_attempt=0,
            attempts=0,
            tasks=(),
            places=(),
            nodes=self.nodes,
            strategy=context.strategy,
            overridden=context.overridden,
            rules=context.rules,
            sandbox=context.sandbox,
        )
        packs = Packs(
            submitter,
            packing,
            Loading(context.workflow, context.places, common, self.avoided),
            self.most,
            context.stale,
        )
        packs.singly = self.pack == ALONE or self._cannot_pack(packing, context)
        return packs

    def _cannot_pack(self, packing: Packing, context: RunContext) -> bool:
        """Whether run times that the packer needs are unknown; raises InputError if the user chose that packer."""
        unknown = packing.unknown(context.engine)
        if not unknown:
            return False
        problem = unknown_run_times(context.workflow, unknown)
        if self.pack != "auto":
            hint = "run the workflow once with --pack per-task, so that the archive knows them, or use --pack auto"
            raise InputError(f"{problem}, and --pack {self.pack} needs them", hint=hint)
        _log.info("%s: submitting each task as a batch job of its own", problem)
        return True

    def _adopt(self, context: RunContext) -> dict[int, Start]:
        """Register attempts that may still be running with the engine; return them by their numbers."""
        packed = {job.id: job.packed for job in BatchJobs(context.journal).open()}
        found = {}
        for row in context.journal.running().values():
            task = context.workflow.index.get(row.task)
            if task is None:
                end = Ended(attempt=row.attempt, outcome=Outcome.LOST, ended=time.time())
                context.journal.ended(end, Settled(-1, State.STOPPED, NO_SUCH_TASK))
            elif row.machine in packed:
                start = found[row.attempt] = _start(row, task)
                context.engine.adopt(start, in_our_room=not packed[row.machine], grew_to=row.grew_to)
        return found


def _largest(machines: Sequence[Machine]) -> Machine:
    return max(machines, key=lambda one: (one.memory, one.cores))


def _usual(machines: Sequence[Machine]) -> Machine:
    """Return the most common kind of machine, on which packed batch jobs will mostly run."""
    return max(Counter(machines).items(), key=lambda item: (item[1], item[0].memory, item[0].cores))[0]


def _start(row: Row, task: int) -> Start:
    size = nan if row.input_bytes is None else row.input_bytes
    return Start(row.attempt, task, row.number, row.machine, row.decisions, size)


def _carried(folder: Path) -> set[str]:
    try:
        return {task.name for task in JobSpec.read(folder).tasks}
    except TonnageError:
        return set()  # it was never submitted
