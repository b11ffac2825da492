"""A pool as the place of a run: its machines, how much a task can get, and what earlier engines have submitted."""

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import nan

from tonnage.batch.htcondor.dag import MONITOR, write_dag
from tonnage.batch.htcondor.system import HTCondor, submit_words
from tonnage.batch.scheduler import Node
from tonnage.errors import InputError
from tonnage.files import stem
from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.run.backends.backend import AttemptRecorder, Driver, Outstanding, RunContext, Watcher, refuse_too_large
from tonnage.run.backends.batch.in_queue import in_queue, open_jobs
from tonnage.run.backends.htcondor.dag_plan import Plan, read_nodes, to_submit
from tonnage.run.backends.htcondor.driver import DagmanDriver
from tonnage.run.batch_jobs import BatchJobs
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.folders import RUNS, RunFolder
from tonnage.run.journal import Journal
from tonnage.run.machines import Machine, QueueRoom, Space
from tonnage.run.options import PoolOptions
from tonnage.run.recovery import NO_SUCH_TASK, finals
from tonnage.run.setup import path_of
from tonnage.workflow import Workflow

__all__ = ["HTCondorBackend"]

_COARSE = 8
_ANY = 1 << 40  # attempts at once: DAGMan and the pool know how many


class HTCondorBackend:
    """The HTCondor pool to which a user submits."""

    name = HTCondor.name
    coarse: int | None = _COARSE

    def __init__(self, options: PoolOptions, amounts: Mapping[Resource, float], *, dry: bool = False) -> None:
        """Ask the pool what there is; `amounts` are what a task may have at most.

        Raises InputError where nothing can be submitted. With `dry` nothing will be: what is on this machine or in the
        pool need not be there.
        """
        self._options = options
        self._machines = self._seen(options.system, amounts)
        self.machine = _largest(self._machines)
        self._grows_disk = _grows_disk(options.system, dry)
        if not dry:
            options.system.look()  # a schedd that does not answer is found out before anything is written

    @staticmethod
    def _seen(system: HTCondor, amounts: Mapping[Resource, float]) -> list[Machine]:
        """Return the machines of the pool, as large as the user lets them be; one who says it all need not ask."""
        if all(one in amounts for one in SHARED):
            cores, memory, disk = (amounts[one] for one in SHARED)
            return [_machine(Node("any", int(cores), memory, disk), {})]
        return [_machine(node, amounts) for node in system.limits().nodes]

    def amounts(self) -> dict[Resource, float]:
        """Return how much a task can get at most."""
        return self.machine.amounts()

    def space(self) -> Space:
        """Return the room in the queue."""
        return QueueRoom(self._machines, _ANY)

    def check(self, workflow: Workflow) -> None:
        """Raise InputError where a task asks for more than any machine has."""
        refuse_too_large(workflow, self.machine, "the largest machine of the pool")

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:
        """Return the attempts and tasks of DAGs that have not ended, as far as the journal knows.

        Raises InputError where one with a task that is `stale` is still in the queue.
        """
        jobs = {job.id: job for job in BatchJobs(journal).open()}
        tasks = {one: {sent.task for sent in read_nodes(folder.batches / str(one))[0].values()} for one in jobs}
        outdated = in_queue([jobs[one] for one, names in tasks.items() if names & stale], self._options.system)
        if outdated:
            raise InputError(
                f"tasks have changed, or what they follow, that DAGMan has: {', '.join(sorted(outdated))}",
                hint=f"tonnage stop {folder.id} removes it; then the same command goes on",
            )
        running = [row for row in journal.running().values() if row.machine in jobs and row.task not in stale]
        names = frozenset[str]().union(*tasks.values())
        return Outstanding(frozenset(row.attempt for row in running), names - stale)

    def still_out(self, folder: RunFolder) -> int:
        """Return how many DAGs a run has in the queue."""
        return len(in_queue(open_jobs(folder), self._options.system))

    @contextmanager
    def driving(self, context: RunContext, watcher: Watcher) -> Iterator[Driver]:
        """Send tasks to the pool."""
        recorder = AttemptRecorder(engine=context.engine, journal=context.journal, watcher=watcher)
        driver = DagmanDriver(context, self.plan(context), recorder)
        self._adopt(context)
        driver.take_up(BatchJobs(context.journal).open())
        yield driver

    def submissions(self, context: RunContext) -> list[str]:
        """Write the DAG that would be submitted, and return how that is done."""
        self._adopt(context)
        workflow, home = context.workflow, context.files.folder
        last = finals(workflow)
        found = [f"# left out, since tonnage run starts it itself: {last[0].name}"] if last else []
        left = to_submit(context.engine, range(len(workflow)))
        if not left:
            return found
        dag = self.plan(context).dag(home / RUNS.parent / "dry-run" / stem(path_of(workflow)), left)
        write_dag(dag)
        command = shlex.join(submit_words(dag.path, f"tonnage-{workflow.name}", self._options.most))
        return ["\n".join([*found, f"cd {shlex.quote(str(home))} && {command}"])]

    def plan(self, context: RunContext) -> Plan:
        """Return what DAGs are made of."""
        return Plan(
            workflow=context.workflow,
            engine=context.engine,
            places=context.places,
            home=context.files.folder,
            options=self._options,
            grows_disk=self._grows_disk,
            rules=context.rules,
            sandbox=context.sandbox,
        )

    def _adopt(self, context: RunContext) -> None:
        """Let the engine know which attempts may still run."""
        for row in context.journal.running().values():
            task = context.workflow.index.get(row.task)
            if task is None:
                end = Ended(attempt=row.attempt, outcome=Outcome.LOST, ended=time.time())
                context.journal.ended(end, Settled(-1, State.STOPPED, NO_SUCH_TASK))
            else:
                context.engine.adopt(Start(row.attempt, task, row.number, row.machine, row.decisions, nan))


def _machine(node: Node, amounts: Mapping[Resource, float]) -> Machine:
    """Return what a task can have of a machine: what measures it has its part, and the user may want to give less."""
    there = Machine(float(node.cores), max(node.memory - MONITOR, 0.0), node.disk)
    return there.with_amounts({one: min(amounts[one], getattr(there, one)) for one in SHARED if one in amounts})


def _largest(machines: Sequence[Machine]) -> Machine:
    return max(machines, key=lambda one: (one.memory, one.cores))


def _grows_disk(system: HTCondor, dry: bool) -> bool:
    try:
        return system.grows_disk(system.version())
    except InputError:
        if dry:
            return True  # the pool that it is submitted to elsewhere is new, we hope; the documentation says so
        raise
