"""The pilot: the first process of a packed batch job, which runs the tasks of its job spec on the nodes of the job.

The job's script executes ``python -P -m tonnage.run.pilot.pilot_job BATCHFOLDER --inside MODULE:CLASS``: the engine for
one machine, with an agent on each node to run tasks, and the ledger as its journal. The class is the batch system's
InsideJob. With ``--here NODE ...`` instead, there is no batch system: agents with these names run on this machine.
"""

import logging
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.batch.scheduler import InsideJob
from tonnage.errors import TonnageError
from tonnage.jobs import SHARED, Outcome
from tonnage.lazy import Deferred
from tonnage.run.backends.local import Local
from tonnage.run.bad_nodes import Avoiding, BadNodes, kind_of
from tonnage.run.engine import Engine
from tonnage.run.events import Carried, Ended, Settled, Start, State
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.machines import Room, largest
from tonnage.run.minders import Answer, Seen
from tonnage.run.outcomes import judge
from tonnage.run.pilot.agent import ShutdownSignal
from tonnage.run.pilot.agent_pool import Agents, Here, undelivered
from tonnage.run.pilot.job_spec import LEDGER, JobSpec
from tonnage.run.pilot.ledger import (
    AttemptAdjusted,
    AttemptEnded,
    AttemptStarted,
    Entry,
    Ledger,
    LedgerReader,
    PilotFinished,
    TaskRefused,
)
from tonnage.run.recovery import carried_after
from tonnage.size import Plan
from tonnage.size.learner import Learner
from tonnage.watch.order import TERMINATED
from tonnage.wording import counted
from tonnage.workflow import Workflow

__all__ = ["Pilot", "main"]

_TO_END = 2.0  # seconds: soon afterwards, a cluster may kill what has not ended by itself
_LOOK = 1.0
_DONE = "nothing left to run"
_FAILED = "a task failed, and --fail-fast is set"
_NO_ROOM = "no remaining node has room for the rest"
_USED_UP = "no attempt numbers left"
_LOST = "all nodes were lost"
_TERMINATED = "the batch job was terminated"
_GOOD = (_DONE, _FAILED, _NO_ROOM, _USED_UP)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _News:
    """News about tasks in other batch jobs that ours wait for."""

    done: list[int] = field(default_factory=list)
    """Our tasks, once for each task that they wait for and that is done."""
    failed: list[int] = field(default_factory=list)
    """Our tasks that wait for a task that failed."""


class _Awaiting:
    """Tasks of other batch jobs that ours wait for; their ends are in the ledgers of those jobs."""

    def __init__(self, folder: Path, awaited: Mapping[int, Sequence[tuple[int, str]]]) -> None:
        """Find the other ledgers next to our folder; `awaited` are the batch jobs and tasks that ours wait for."""
        self._waiting: dict[int, dict[str, list[int]]] = {}
        for task, others in awaited.items():
            for batch, name in others:
                self._waiting.setdefault(batch, {}).setdefault(name, []).append(task)
        self._readers = {batch: LedgerReader(folder.parent / str(batch) / LEDGER) for batch in self._waiting}

    @property
    def tasks(self) -> set[int]:
        """Our tasks that wait for a task that can still finish."""
        return {task for names in self._waiting.values() for tasks in names.values() for task in tasks}

    def look(self) -> _News:
        """Return what happened since the last call."""
        news = _News()
        for batch, names in list(self._waiting.items()):
            for entry in self._readers[batch].new():
                self._take(entry, names, news)
            if not names:
                del self._waiting[batch]
        return news

    def _take(self, entry: Entry, names: dict[str, list[int]], news: _News) -> None:
        if isinstance(entry, PilotFinished):
            names.clear()  # the engine that submitted us takes care of the rest
        if isinstance(entry, AttemptEnded | TaskRefused):
            state = entry.settled.state
            if state is State.DONE:
                news.done += names.pop(entry.task, [])
            elif state is State.FAILED:
                news.failed += names.pop(entry.task, [])


def main(arguments: list[str]) -> int:
    """Run the pilot of a batch job; return the exit status."""
    # The batch job's output is its log: the batch system keeps it in a file.
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    folder = Path(arguments[0])
    shutdown = ShutdownSignal()
    try:
        return Pilot(folder, _job(arguments[1:]), shutdown).carry()
    except TonnageError as error:
        _log.error("%s", error.report())
        return error.exit_status


@dataclass
class _Past:
    """What an earlier start of the same batch job achieved, according to its ledger."""

    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    carried: dict[str, Carried] = field(default_factory=dict)
    open: dict[int, AttemptStarted] = field(default_factory=dict)
    """Attempts whose end is not in the ledger."""
    grew_to: dict[int, float] = field(default_factory=dict)
    """The memory of attempts that outgrew their allocations."""
    last_attempt: int = 0
    ends: list[AttemptEnded] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "_Past":
        """Summarise the entries of a ledger."""
        past = cls()
        for entry in entries:
            if isinstance(entry, AttemptStarted):
                past.failed.discard(entry.task)  # it was revived
                past.open[entry.start.attempt] = entry
                past.last_attempt = max(past.last_attempt, entry.start.attempt)
            elif isinstance(entry, AttemptAdjusted):
                if entry.change.memory is not None:
                    past.grew_to[entry.change.attempt] = entry.change.memory
            elif isinstance(entry, AttemptEnded):
                past.ends.append(entry)
                past.take(entry.task, entry.end, entry.settled)
            elif isinstance(entry, TaskRefused):
                past.failed.add(entry.task)
        return past

    def take(self, task: str, end: Ended, settled: Settled) -> None:
        """Process the end of an attempt."""
        began = self.open.pop(end.attempt, None)
        if settled.state is State.DONE:
            self.done.add(task)
        elif settled.state is State.FAILED:
            self.failed.add(task)
        elif began is not None:
            self.carried[task] = carried_after(
                began.start.number,
                began.start.decisions,
                end.outcome,
                end.exhausted,
                end.used,
                self.grew_to.get(end.attempt),
            )


class Pilot:
    """Runs the tasks of a job spec until nothing more can be done or a signal arrives."""

    def __init__(self, folder: Path, job: InsideJob, shutdown: ShutdownSignal) -> None:
        """Read the job spec and the results of an earlier start; nodes that are not in the job spec are not used."""
        self._folder = folder.absolute()
        self._job_spec = job_spec = JobSpec.read(self._folder)
        nodes = job.nodes()
        self._nodes = [name for name in nodes if name in job_spec.nodes]
        if not self._nodes:
            raise TonnageError(f"none of the nodes is in the job spec: {' '.join(nodes)}")
        self._shutdown = shutdown
        self._job = job
        self._run = RunFolder(Path(job_spec.run))
        self._files = Files(Path(job_spec.home), self._run, sandbox=job_spec.sandbox)
        parents, children = [one for one, _ in job_spec.dependencies], [other for _, other in job_spec.dependencies]
        self._workflow = Workflow.build("batch job", job_spec.tasks, (parents, children))
        past = _Past.of(LedgerReader(self._folder / LEDGER).new())
        self._ledger = Ledger(self._folder / LEDGER, [task.name for task in job_spec.tasks], self._nodes)
        self._settle(past)
        self._engine = self._new_engine(past)
        self._cancel(self._workflow.index[name] for name in past.failed)
        self._awaiting = _Awaiting(self._folder, job_spec.awaited)
        self._next_look, self._hope = 0.0, False

    def carry(self) -> int:
        """Run everything, recording it in the ledger; return the exit status."""
        _log.info("%s on %s", counted(len(self._job_spec.tasks), "task"), " ".join(self._nodes))
        try:
            reason = self._drive()
        except TonnageError as error:
            reason = f"{error}"
            self._ledger.finish(reason, time.time())
        counts = self._engine.counts
        _log.info("%s; %s done, %d failed", reason, counted(counts[State.DONE], "task"), counts[State.FAILED])
        return 0 if reason in _GOOD else 1

    def _drive(self) -> str:
        """Run everything, and return why it ended."""
        token, patience = self._job_spec.token, self._job_spec.patience
        with Agents(self._folder, self._nodes, token, job=self._job, patience=patience) as self._agents:
            self._agents.watch_also(self._shutdown.descriptor)
            local = Local(self._engine, self._ledger, self._files, self._run, token, self._agents)
            local.drive(_Log(self._job_spec, self._engine.bad_nodes), self._more)
            reason = self._why_ended()
            self._ledger.finish(reason, time.time())  # before agents end, which may take too long
            return reason

    def _more(self) -> bool:
        """Process signals, lost nodes and news from other batch jobs; return whether more may come."""
        if self._shutdown.received():
            self._engine.closed = True
            self._agents.end(_TO_END)
        for machine in self._agents.lost_machines():
            self._engine.lose(machine)
            self._ledger.machine_lost(machine, time.time())
        if self._engine.closed or self._engine.used_up or not self._agents.there:
            return False
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._engine.avoid_bad_nodes(time.time())  # or stop avoiding them
            self._hope = self._look()
        return self._hope

    def _look(self) -> bool:
        """Check on tasks in other batch jobs; return whether one of ours can still start because of them."""
        news = self._awaiting.look()
        for task in news.done:
            self._engine.awaited_is_done(task)
        self._cancel(news.failed)
        waiting = {task for task in self._awaiting.tasks if self._engine.states[task] == State.WAITING}
        return bool(waiting) and not waiting <= set(self._engine.unreachable())

    def _why_ended(self) -> str:
        if self._shutdown.received():
            return _TERMINATED
        if not self._agents.there:
            return _LOST
        if not self._engine.counts[State.READY]:
            return _DONE
        if self._engine.closed:
            return _FAILED
        return _USED_UP if self._engine.used_up else _NO_ROOM

    def _cancel(self, tasks: Iterable[int]) -> None:
        """Cancel tasks, and all tasks that depend on them."""
        stack = list(tasks)
        while stack:
            task = stack.pop()
            if self._engine.cancel(task):
                stack += self._workflow.children_of(task)

    # Recovery from an earlier start

    def _settle(self, past: _Past) -> None:
        """Record how attempts of an earlier start ended, using results that its agents could not deliver."""
        results = undelivered(self._folder) if past.open else {}
        for attempt, began in list(past.open.items()):
            place = self._workflow.index[began.task]
            lost = Answer(attempt, started=began.time, ended=time.time(), stopped_because=TERMINATED, host=began.node)
            end = judge(results.get(attempt) or lost, self._job_spec.tasks[place], self._files)
            done = end.outcome is Outcome.DONE
            settled = Settled(place, State.DONE) if done else Settled(place, State.READY, "retrying")
            self._ledger.ended(end, settled)
            past.take(began.task, end, settled)
        self._ledger.commit()

    def _new_engine(self, past: _Past) -> Engine:
        job_spec, index = self._job_spec, self._workflow.index
        machines = [job_spec.nodes[name] for name in self._nodes]
        carried = {**job_spec.carried, **{index[name]: one for name, one in past.carried.items()}}
        done = {index[name] for name in past.done}
        plan = Plan(
            strategy=job_spec.strategy,
            machine=largest(machines),
            resources=SHARED,
            overridden=job_spec.overridden,
            can_grow=job_spec.rules.elastic,
        )
        engine = Engine(
            job_spec.tasks,
            Learner(plan),
            Room(machines, self._nodes),
            workflow=self._workflow,
            places=job_spec.places,
            rules=job_spec.rules,
            input_bytes=lambda task: self._files.input_bytes(job_spec.tasks[task]),
            done=done,
            carried={task: one for task, one in carried.items() if task not in done},
            awaited={task: len(others) for task, others in job_spec.awaited.items() if task not in done},
            first_attempt=max(job_spec.first_attempt, past.last_attempt + 1),
        )
        for entry in past.ends:
            task, end = job_spec.tasks[index[entry.task]], entry.end
            if end.host is not None and end.ended is not None:
                kind = kind_of(end.outcome, end.exit_status, end.signal)
                engine.bad_nodes.ended(task.name, task.category, end.host, end.outcome, kind, end.ended)
        engine.last_attempt = job_spec.first_attempt + job_spec.attempts - 1
        return engine


class _Log:
    """Logs failures to the output of the batch job."""

    def __init__(self, job_spec: JobSpec, bad_nodes: BadNodes) -> None:
        self._tasks = job_spec.tasks
        self._avoiding = Avoiding(bad_nodes)

    def started(self, start: Start, now: float) -> None:
        """Do nothing: it is in the ledger."""

    def seen(self, seen: Seen) -> None:
        """Do nothing."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """Log what went wrong."""
        if settled.state is not State.DONE:
            why = "; ".join(part for part in (end.note, settled.reason) if part)
            _log.info("%s: %s", self._tasks[settled.task].title, why)
        for line in self._avoiding.news():
            _log.info(line)

    def tick(self, engine: Engine) -> None:
        """Do nothing."""


def _job(arguments: Sequence[str]) -> InsideJob:
    """Return the batch job in which this process runs."""
    if arguments[:1] == ["--here"]:
        return Here(arguments[1:])
    if arguments[:1] != ["--inside"]:
        raise TonnageError("expected --inside MODULE:CLASS or --here NODE ...")
    found: InsideJob = Deferred(arguments[1])()
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
