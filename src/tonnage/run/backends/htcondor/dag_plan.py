"""What is put into a DAG: tasks that are left, what each is given, and which goes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tonnage.batch.htcondor.dag import Dag, Order
from tonnage.run.engine import Engine
from tonnage.run.events import Rules, State
from tonnage.run.options import PoolOptions
from tonnage.workflow import Workflow

__all__ = ["Plan", "to_submit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run, as far as a DAG must know about it."""

    workflow: Workflow
    engine: Engine
    places: Sequence[int]
    """The place of each task in the order in which tasks should run."""
    home: Path
    options: PoolOptions
    grows_disk: bool
    rules: Rules
    sandbox: bool

    def dag(self, folder: Path, tasks: Sequence[int]) -> Dag:
        """Return the DAG of some tasks."""
        return Dag(
            folder=folder,
            home=self.home,
            title=self.workflow.name,
            orders=[self._order(task) for task in tasks],
            children=self._children(tasks),
            retries=self.rules.retries,
            kills=self.rules.kills,
            transfers=self.sandbox,
            grows_disk=self.grows_disk,
            throttles=self.options.throttles,
            commands=self.options.commands,
            most=self.options.most,
        )

    def _order(self, task: int) -> Order:
        decisions = self.engine.next_try(task).decisions or ()
        last = len(self.places)
        return Order(self.engine.tasks[task], decisions, last - self.places[task] if task < last else 0)

    def _children(self, tasks: Sequence[int]) -> list[list[int]]:
        """Return who waits for whom, by the places of tasks in the DAG."""
        place_of = {task: place for place, task in enumerate(tasks)}
        graph, ours = self.workflow.graph, len(self.workflow)
        return [
            [place_of[child] for child in graph.children_of(task).tolist() if child in place_of] if task < ours else []
            for task in tasks
        ]


def to_submit(engine: Engine, tasks: Sequence[int]) -> list[int]:
    """Return those of some tasks that DAGMan is to run: not done, not sent, and not behind one that has failed."""
    hopeless, states = set(engine.unreachable()), engine.states
    return [task for task in tasks if states[task] in (State.WAITING, State.READY) and task not in hopeless]
