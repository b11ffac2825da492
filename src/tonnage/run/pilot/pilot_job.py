"""The pilot: the head of a packed batch job, which runs the tasks of its job spec on the nodes of the job.

``python -P -m tonnage.run.pilot.pilot_job BATCHFOLDER --inside MODULE:CLASS`` is what the job's script executes: the
engine of one machine, with an agent on each node to run tasks and the ledger for its journal; the class is the batch
system's InsideJob. With ``--here NODE ...`` instead there is no batch system: agents of nodes with these names are
started on this machine.
"""

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
from tonnage.run.engine import Engine
from tonnage.run.events import Carried, Ended, Settled, Start, State
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.machines import Room, largest
from tonnage.run.minders import Answer, Seen
from tonnage.run.outcomes import judge
from tonnage.run.pilot.agent import Ending
from tonnage.run.pilot.agents import Agents, Here, undelivered
from tonnage.run.pilot.job_spec import LEDGER, JobSpec
from tonnage.run.pilot.ledger import (
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
from tonnage.workflow import Workflow

__all__ = ["Pilot", "main"]

_TO_END = 2.0  # seconds: after a little more, a cluster may kill what does not end by itself
_LOOK = 1.0
_DONE = "nothing is left to do"
_FAILED = "a task failed, after which nothing more was to start"
_NO_ROOM = "no node is left that has room for the rest"
_USED_UP = "the numbers for attempts are used up"
_LOST = "all nodes were lost"
_TERMINATED = "the batch job was ended"
_GOOD = (_DONE, _FAILED, _NO_ROOM, _USED_UP)


@dataclass(slots=True)
class _News:
    """What has become of tasks that are awaited."""

    done: list[int] = field(default_factory=list)
    """Our tasks, once for each that they wait for and that is done."""
    failed: list[int] = field(default_factory=list)
    """Our tasks that wait for one which was given up."""


class _Awaiting:
    """Tasks of other batch jobs that some of ours wait for: their ends are in the ledgers of those jobs."""

    def __init__(self, folder: Path, awaited: Mapping[int, Sequence[tuple[int, str]]]) -> None:
        """Look into the folders beside our own; `awaited` are the batch jobs and tasks that each of ours waits for."""
        self._waiting: dict[int, dict[str, list[int]]] = {}
        for task, others in awaited.items():
            for batch, name in others:
                self._waiting.setdefault(batch, {}).setdefault(name, []).append(task)
        self._readers = {batch: LedgerReader(folder.parent / str(batch) / LEDGER) for batch in self._waiting}

    @property
    def tasks(self) -> set[int]:
        """Our tasks that wait for something which can still come."""
        return {task for names in self._waiting.values() for tasks in names.values() for task in tasks}

    def look(self) -> _News:
        """Return what has happened since the last call."""
        news = _News()
        for batch, names in list(self._waiting.items()):
            for entry in self._readers[batch].new():
                self._take(entry, names, news)
            if not names:
                del self._waiting[batch]
        return news

    def _take(self, entry: Entry, names: dict[str, list[int]], news: _News) -> None:
        if isinstance(entry, PilotFinished):
            names.clear()  # the engine that submitted us knows what becomes of the rest
        if isinstance(entry, AttemptEnded | TaskRefused):
            state = entry.settled.state
            if state is State.DONE:
                news.done += names.pop(entry.task, [])
            elif state is State.FAILED:
                news.failed += names.pop(entry.task, [])


def main(arguments: list[str]) -> int:
    """Carry what a batch job carries; return the exit status."""
    folder = Path(arguments[0])
    ending = Ending()
    try:
        return Pilot(folder, _job(arguments[1:]), ending).carry()
    except TonnageError as error:
        _say(error.report())
        return error.exit_status


@dataclass
class _Past:
    """What an earlier start of the same batch job has achieved, as its ledger has it."""

    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    carried: dict[str, Carried] = field(default_factory=dict)
    open: dict[int, AttemptStarted] = field(default_factory=dict)
    """Attempts whose end is not in the ledger."""
    last_attempt: int = 0

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "_Past":
        """Add up what a ledger says."""
        past = cls()
        for entry in entries:
            if isinstance(entry, AttemptStarted):
                past.open[entry.start.attempt] = entry
                past.last_attempt = max(past.last_attempt, entry.start.attempt)
            elif isinstance(entry, AttemptEnded):
                past.take(entry.task, entry.end, entry.settled)
            elif isinstance(entry, TaskRefused):
                past.failed.add(entry.task)
        return past

    def take(self, task: str, end: Ended, settled: Settled) -> None:
        """Take in the end of an attempt."""
        began = self.open.pop(end.attempt, None)
        if settled.state is State.DONE:
            self.done.add(task)
        elif settled.state is State.FAILED:
            self.failed.add(task)
        elif began is not None:
            self.carried[task] = carried_after(
                began.start.number, began.start.decisions, end.outcome, end.exhausted, end.used
            )


class Pilot:
    """Runs the tasks of a job spec, until there is nothing more to do or it is told to end."""

    def __init__(self, folder: Path, job: InsideJob, ending: Ending) -> None:
        """Read the job spec and what an earlier start has achieved; unknown nodes are left alone."""
        self._folder = folder.absolute()
        self._job_spec = job_spec = JobSpec.read(self._folder)
        nodes = job.nodes()
        self._nodes = [name for name in nodes if name in job_spec.nodes]
        if not self._nodes:
            raise TonnageError(f"none of the nodes is known: {' '.join(nodes)}")
        self._ending = ending
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
        """Run everything; return the exit status. Whatever happens is in the ledger."""
        _say(f"{len(self._job_spec.tasks):,} tasks on {' '.join(self._nodes)}")
        try:
            reason = self._drive()
        except TonnageError as error:
            reason = f"{error}"
            self._ledger.bye(reason, time.time())
        counts = self._engine.counts
        _say(f"{reason}; {counts[State.DONE]:,} tasks are done, {counts[State.FAILED]:,} failed")
        return 0 if reason in _GOOD else 1

    def _drive(self) -> str:
        """Run everything, and return why it ended."""
        token, patience = self._job_spec.token, self._job_spec.patience
        with Agents(self._folder, self._nodes, token, job=self._job, patience=patience) as self._agents:
            self._agents.watch_also(self._ending.descriptor)
            local = Local(self._engine, self._ledger, self._files, self._run, token, self._agents)
            local.drive(_Log(self._job_spec), self._more)
            reason = self._why_ended()
            self._ledger.bye(reason, time.time())  # before agents end, which may take longer than we have
            return reason

    def _more(self) -> bool:
        """Take in what came from elsewhere: signals, lost nodes, other batch jobs; whether more may come."""
        if self._ending.told():
            self._engine.closed = True
            self._agents.end(_TO_END)
        for machine in self._agents.lost_machines():
            _say(f"{self._nodes[machine]} was lost")
            self._engine.lose(machine)
            self._ledger.machine_lost(machine, time.time())
        if self._engine.closed or self._engine.used_up or not self._agents.there:
            return False
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._hope = self._look()
        return self._hope

    def _look(self) -> bool:
        """See what has become of tasks in other batch jobs; whether one of ours can still start because of them."""
        news = self._awaiting.look()
        for task in news.done:
            self._engine.awaited_is_done(task)
        self._cancel(news.failed)
        waiting = {task for task in self._awaiting.tasks if self._engine.states[task] == State.WAITING}
        return bool(waiting) and not waiting <= set(self._engine.unreachable())

    def _why_ended(self) -> str:
        if self._ending.told():
            return _TERMINATED
        if not self._agents.there:
            return _LOST
        if not self._engine.counts[State.READY]:
            return _DONE
        if self._engine.closed:
            return _FAILED
        return _USED_UP if self._engine.used_up else _NO_ROOM

    def _cancel(self, tasks: Iterable[int]) -> None:
        """Let tasks not start any more, nor those that depend on them."""
        stack = list(tasks)
        while stack:
            task = stack.pop()
            if self._engine.cancel(task):
                stack += self._workflow.graph.children_of(task).tolist()

    # What there was before

    def _settle(self, past: _Past) -> None:
        """Write down how attempts of an earlier start ended; agents may have left results that were not heard."""
        results = undelivered(self._folder) if past.open else {}
        for attempt, began in list(past.open.items()):
            place = self._workflow.index[began.task]
            lost = Answer(attempt, started=began.time, ended=time.time(), stopped_because=TERMINATED, host=began.node)
            end = judge(results.get(attempt) or lost, self._job_spec.tasks[place], self._files)
            done = end.outcome is Outcome.DONE
            settled = Settled(place, State.DONE) if done else Settled(place, State.READY, "it is tried again")
            self._ledger.ended(end, settled)
            past.take(began.task, end, settled)
        self._ledger.commit()

    def _new_engine(self, past: _Past) -> Engine:
        job_spec, index = self._job_spec, self._workflow.index
        machines = [job_spec.nodes[name] for name in self._nodes]
        carried = {**job_spec.carried, **{index[name]: one for name, one in past.carried.items()}}
        done = {index[name] for name in past.done}
        engine = Engine(
            job_spec.tasks,
            Learner(Plan(strategy=job_spec.strategy, machine=largest(machines), resources=SHARED)),
            Room(machines),
            workflow=self._workflow,
            places=job_spec.places,
            rules=job_spec.rules,
            input_bytes=lambda task: self._files.input_bytes(job_spec.tasks[task]),
            done=done,
            carried={task: one for task, one in carried.items() if task not in done},
            awaited={task: len(others) for task, others in job_spec.awaited.items() if task not in done},
            first_attempt=max(job_spec.first_attempt, past.last_attempt + 1),
        )
        engine.last_attempt = job_spec.first_attempt + job_spec.attempts - 1
        return engine


class _Log:
    """Prints what happens into the output of the batch job."""

    def __init__(self, job_spec: JobSpec) -> None:
        self._tasks = job_spec.tasks

    def started(self, start: Start, now: float) -> None:
        """Say nothing: it is in the ledger."""

    def seen(self, seen: Seen) -> None:
        """Say nothing."""

    def ended(self, end: Ended, settled: Settled) -> None:
        """Say what went wrong."""
        if settled.state is not State.DONE:
            why = "; ".join(part for part in (end.note, settled.reason) if part)
            _say(f"{self._tasks[settled.task].name}: {why}")

    def tick(self, engine: Engine) -> None:
        """Say nothing."""


def _job(arguments: Sequence[str]) -> InsideJob:
    """Return the batch job in which this is."""
    if arguments[:1] == ["--here"]:
        return Here(arguments[1:])
    if arguments[:1] != ["--inside"]:
        raise TonnageError("expected --inside MODULE:CLASS or --here NODE ...")
    found: InsideJob = Deferred(arguments[1])()
    return found


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
