"""An HTCondor pool as a backend: its machines, the limits for tasks, and what earlier engines submitted."""

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
_ANY = 1 << 40  # attempts at once: DAGMan and the pool limit them


class HTCondorBackend:
    """The HTCondor pool to which a user submits."""

    name = HTCondor.name
    coarse: int | None = _COARSE

    def __init__(self, options: PoolOptions, amounts: Mapping[Resource, float], *, dry: bool = False) -> None:
        """Query the machines of the pool; `amounts` are the user's maximum for a task.

        Raises InputError if nothing can be submitted. With `dry` nothing will be submitted, and HTCondor need not be
        available.
        """
        self._options = options
        nodes = self._seen(options.system, amounts)
        self._machines = [_machine(node, amounts) for node in nodes]
        self._names = [] if all(one in amounts for one in SHARED) else [node.name for node in nodes]
        self.machine = _largest(self._machines)
        self._grows_disk = _grows_disk(options.system, dry)
        if not dry:
            options.system.poll()  # to detect a schedd that does not answer before anything is written

    @staticmethod
    def _seen(system: HTCondor, amounts: Mapping[Resource, float]) -> Sequence[Node]:
        """Return the machines of the pool; if all limits are set by the user, the pool is not queried."""
        if all(one in amounts for one in SHARED):
            cores, memory, disk = (amounts[one] for one in SHARED)
            return [Node("any", int(cores), memory, disk)]
        return system.limits().nodes

    def amounts(self) -> dict[Resource, float]:
        """Return the maximum of each resource for a task."""
        return self.machine.amounts()

    def space(self) -> Space:
        """Return the room in the queue."""
        return QueueRoom(self._machines, _ANY, self._names)

    def check(self, workflow: Workflow) -> None:
        """Raise InputError if a task requests more than any machine has."""
        refuse_too_large(workflow, self.machine, "the largest machine of the pool")

    def outstanding(self, journal: Journal, folder: RunFolder, stale: frozenset[str]) -> Outstanding:
        """Return the attempts and tasks of DAGs that have not ended according to the journal.

        Raises InputError if a DAG with a `stale` task is still in the queue.
        """
        jobs = {job.id: job for job in BatchJobs(journal).open()}
        tasks = {one: {sent.task for sent in read_nodes(folder.batches / str(one))[0].values()} for one in jobs}
        outdated = in_queue([jobs[one] for one, names in tasks.items() if names & stale], self._options.system)
        if outdated:
            raise InputError(
                f"DAGMan runs tasks that have changed or depend on changed ones: {', '.join(sorted(outdated))}",
                hint=f"remove it with tonnage stop {folder.id}, then run the same command again",
            )
        running = [row for row in journal.running().values() if row.machine in jobs and row.task not in stale]
        names = frozenset[str]().union(*tasks.values())
        return Outstanding(frozenset(row.attempt for row in running), names - stale)

    def still_out(self, folder: RunFolder) -> int:
        """Return the number of DAGs that a run has in the queue."""
        return len(in_queue(open_jobs(folder), self._options.system))

    @contextmanager
    def driving(self, context: RunContext, watcher: Watcher) -> Iterator[Driver]:
        """Take over an earlier DAG, and return a driver that submits tasks to the pool."""
        recorder = AttemptRecorder(engine=context.engine, journal=context.journal, watcher=watcher)
        driver = DagmanDriver(context, self.plan(context), recorder)
        self._adopt(context)
        driver.take_up(BatchJobs(context.journal).open())
        yield driver

    def submissions(self, context: RunContext) -> list[str]:
        """Write the DAG that would be submitted, and return the command that submits it."""
        self._adopt(context)
        workflow, home = context.workflow, context.files.folder
        last = finals(workflow)
        found = [f"# left out, because tonnage run starts it itself: {last[0].name}"] if last else []
        left = to_submit(context.engine, range(len(workflow)))
        if not left:
            return found
        dag = self.plan(context).dag(home / RUNS.parent / "dry-run" / stem(path_of(workflow)), left)
        write_dag(dag)
        command = shlex.join(submit_words(dag.path, f"tonnage-{workflow.name}", self._options.most))
        return ["\n".join([*found, f"cd {shlex.quote(str(home))} && {command}"])]

    def plan(self, context: RunContext) -> Plan:
        """Return the plan for the DAGs of a run."""
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
        """Register attempts that may still be running with the engine."""
        for row in context.journal.running().values():
            task = context.workflow.index.get(row.task)
            if task is None:
                end = Ended(attempt=row.attempt, outcome=Outcome.LOST, ended=time.time())
                context.journal.ended(end, Settled(-1, State.STOPPED, NO_SUCH_TASK))
            else:
                context.engine.adopt(Start(row.attempt, task, row.number, row.machine, row.decisions, nan))


def _machine(node: Node, amounts: Mapping[Resource, float]) -> Machine:
    """Return what a task can use of a machine: without the memory of our monitor, and within the user's limits."""
    there = Machine(float(node.cores), max(node.memory - MONITOR, 0.0), node.disk)
    return there.with_amounts({one: min(amounts[one], getattr(there, one)) for one in SHARED if one in amounts})


def _largest(machines: Sequence[Machine]) -> Machine:
    return max(machines, key=lambda one: (one.memory, one.cores))


def _grows_disk(system: HTCondor, dry: bool) -> bool:
    try:
        return system.grows_disk(system.version())
    except InputError:
        if dry:
            return True  # assume that it will be submitted to a recent version, as documented
        raise
