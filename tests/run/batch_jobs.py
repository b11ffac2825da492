"""Batch jobs without a cluster: folders with orders or a job spec, and the processes that a cluster would start."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.deadlines import HANGS
from tests.processes import with_variable
from tests.run.cli_runs import Begun, marked
from tonnage.atomic import make_private_folder
from tonnage.jobs import Amounts, Outcome, Resource
from tonnage.run.backends.batch.order_files import write_orders
from tonnage.run.events import Start, State
from tonnage.run.machines import Machine
from tonnage.run.minders import Answer, Order, result_of
from tonnage.run.pilot.job_spec import LEDGER, JobSpec
from tonnage.run.pilot.ledger import AttemptEnded, AttemptStarted, Entry, LedgerReader, PilotFinished
from tonnage.workflow import Task

MACHINES = {"n1": Machine(4, 1e9, 1e9), "n2": Machine(2, 2e9, 1e9), "n3": Machine(4, 1e9, 1e9)}
ERRAND = [sys.executable, "-P", "-m", "tonnage.watch.single_task"]


class SingleTasks:
    """The folder of a run with one batch job, whose elements are the orders."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.batch = folder / "batch" / "1"
        self.orders: list[Order] = []
        for path in (self.batch, folder / "logs"):
            make_private_folder(path)

    def add(self, script: str, **options: object) -> int:
        """Add an order, whose attempt is its element and 100 more."""
        attempt = 100 + len(self.orders)
        files = {"stdout": str(self.path / "logs" / f"{attempt}.out"), "stderr": str(self.path / "logs" / "err")}
        given = {"executable": "/bin/sh", "folder": str(self.path), **files, **options}
        self.orders.append(Order(attempt, ("sh", "-c", script), **given))  # type: ignore[arg-type]
        write_orders(self.batch, self.orders)
        return attempt

    def begin(self, *arguments: str, **environment: str) -> Begun:
        return Begun(
            [*ERRAND, str(self.batch), *arguments],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *arguments: str, **environment: str) -> str:
        """Carry out an order that can be answered; return what was said."""
        with self.begin(*arguments, **environment) as process:
            said = process.communicate(timeout=HANGS)[1]
            assert process.returncode == 0, said
        return said

    def result(self, attempt: int = 100) -> Answer:
        answer = result_of(self.path, attempt)
        assert answer is not None
        return answer


@dataclass
class BatchJob:
    """A packed batch job of a run in a folder, and the pilot that runs it."""

    folder: Path
    number: int = 1
    nodes: Sequence[str] = ("n1", "n2", "n3")
    tasks: list[Task] = field(default_factory=list)
    dependencies: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run = self.folder / ".tonnage" / "runs" / "r"
        self.path = self.run / "batch" / str(self.number)
        for path in (self.path, self.run / "logs"):
            make_private_folder(path)

    @property
    def token(self) -> str:
        return f"token-{abs(hash(self.folder))}"

    def add(self, name: str, command: str, *after: int, **options: object) -> int:
        """Add a task that waits for others."""
        asked = {"request": Amounts.of(cores=1, memory=50e6, disk=1e6), **options}
        self.tasks.append(Task(name, command, **asked))  # type: ignore[arg-type]
        number = len(self.tasks) - 1
        self.dependencies += [(parent, number) for parent in after]
        return number

    def write(self, **options: object) -> None:
        facts = {
            "run": str(self.run),
            "home": str(self.folder),
            "token": self.token,
            "number": self.number,
            "first_attempt": 1000 * self.number,
            "attempts": 500,
            "tasks": tuple(self.tasks),
            "places": tuple(range(len(self.tasks))),
            "nodes": MACHINES,
            "dependencies": tuple(self.dependencies),
        }
        JobSpec(**{**facts, **options}).write(self.path)  # type: ignore[arg-type]

    def begin(self) -> Begun:
        words = [sys.executable, "-P", "-m", "tonnage.run.pilot.pilot_job", str(self.path), "--here", *self.nodes]
        return Begun(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def go(self, status: int = 0, **options: object) -> list[Entry]:
        """Write the job spec, carry it, and return the ledger."""
        self.write(**options)
        with self.begin() as pilot:
            self.finish(pilot, status)
        return self.entries()

    def finish(self, pilot: "subprocess.Popen[str]", status: int = 0) -> str:
        """Wait for the pilot's end, and return what it said."""
        try:
            said = pilot.communicate(timeout=HANGS)[0]
        except BaseException:
            pilot.kill()
            raise
        assert "Traceback" not in said, said
        assert pilot.returncode == status, said
        return said

    def entries(self) -> list[Entry]:
        return LedgerReader(self.path / LEDGER).new()

    def starts(self, task: str) -> list[Start]:
        return [entry.start for entry in self.entries() if isinstance(entry, AttemptStarted) and entry.task == task]

    def ends(self) -> list[AttemptEnded]:
        return [entry for entry in self.entries() if isinstance(entry, AttemptEnded)]

    def done(self) -> Counter[str]:
        return Counter(entry.task for entry in self.ends() if entry.settled.state is State.DONE)

    def outcomes(self, task: str) -> list[Outcome]:
        return [entry.end.outcome for entry in self.ends() if entry.task == task]

    def finished_because(self) -> str:
        last = self.entries()[-1]
        assert isinstance(last, PilotFinished)
        return last.reason

    def check(self, nodes: Mapping[str, Machine] = MACHINES) -> None:
        """Check that each task was done once, after those that it waits for, and that nodes never held too much."""
        entries = self.entries()
        assert self.done() == Counter(task.name for task in self.tasks)
        parents: dict[str, list[str]] = {}
        for parent, child in self.dependencies:
            parents.setdefault(self.tasks[child].name, []).append(self.tasks[parent].name)
        done: set[str] = set()
        held = {name: Counter[Resource]() for name in nodes}
        began: dict[int, AttemptStarted] = {}
        for entry in entries:
            if isinstance(entry, AttemptStarted):
                assert done.issuperset(parents.get(entry.task, []))
                began[entry.start.attempt] = entry
                held[entry.node].update({one.resource: int(one.amount) for one in entry.start.decisions})
                assert all(held[entry.node][resource] <= most for resource, most in nodes[entry.node].amounts().items())
            if isinstance(entry, AttemptEnded):
                start = began.pop(entry.end.attempt)
                assert entry.task == start.task
                held[start.node].subtract({one.resource: int(one.amount) for one in start.start.decisions})
                if entry.settled.state is State.DONE:
                    assert entry.end.host == start.node
                    done.add(entry.task)
        assert not began
        assert marked(self.token) == []


def running(mark: str) -> list[int]:
    """Return the processes whose variable MARK is this."""
    return with_variable(f"MARK={mark}\0")
