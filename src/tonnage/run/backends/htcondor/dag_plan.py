"""The contents of a DAG: the remaining tasks, their sizes, and their order.

A file next to a submitted DAG records the task of each node, and what it was allocated.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tonnage.batch.htcondor.dag import Dag, Node, Order
from tonnage.errors import TonnageError
from tonnage.files import write_atomically
from tonnage.jobs import Decision
from tonnage.run.engine import Engine
from tonnage.run.events import State
from tonnage.run.options import PoolOptions
from tonnage.run.retry_rules import Rules
from tonnage.run.serialisation import plain_decision, restore_decision
from tonnage.workflow import Workflow

__all__ = ["Plan", "Sent", "read_nodes", "to_submit", "write_nodes"]

_Terms: TypeAlias = Mapping[str, object]
"""Properties that all jobs of a DAG share."""
_FILE = "nodes.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The properties of a run that DAGs are made of."""

    workflow: Workflow
    engine: Engine
    places: Sequence[int]
    """The position of each task in the preferred order."""
    home: Path
    options: PoolOptions
    grows_disk: bool
    rules: Rules
    sandbox: bool

    def dag(self, folder: Path, tasks: Sequence[int]) -> Dag:
        """Create a DAG of some tasks."""
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
        """Return the children of each task by their positions in the DAG."""
        place_of = {task: place for place, task in enumerate(tasks)}
        graph, ours = self.workflow.graph, len(self.workflow)
        return [
            [place_of[child] for child in graph.children_of(task).tolist() if child in place_of] if task < ours else []
            for task in tasks
        ]


def to_submit(engine: Engine, tasks: Sequence[int]) -> list[int]:
    """Select the tasks for DAGMan: not done, not sent, and not dependent on a failed task."""
    hopeless, states = set(engine.unreachable()), engine.states
    return [task for task in tasks if states[task] in (State.WAITING, State.READY) and task not in hopeless]


@dataclass(frozen=True, slots=True)
class Sent:
    """A task that DAGMan starts."""

    node: str
    task: str
    number: int
    """The number in the names of its files."""
    before: int
    """Its number of earlier attempts."""
    decisions: tuple[Decision, ...]


def write_nodes(folder: Path, nodes: Sequence[Node], before: Sequence[int], terms: _Terms) -> None:
    """Write the nodes of a DAG: first their common terms, then each decision once, then a line for each node."""
    numbers: dict[int, int] = {}
    lines = [json.dumps({"terms": terms})]
    listed = []
    for node, tried in zip(nodes, before, strict=True):
        for one in node.order.decisions:
            if id(one) not in numbers:
                numbers[id(one)] = len(numbers)
                lines.append(json.dumps({"decision": plain_decision(one)}))
        given = [numbers[id(one)] for one in node.order.decisions]
        listed.append(json.dumps([node.name, node.order.task.name, node.number, tried, given]))
    write_atomically(folder / _FILE, "".join(f"{line}\n" for line in [*lines, *listed]))


def read_nodes(folder: Path) -> tuple[dict[str, Sent], _Terms]:
    """Return the nodes of a DAG by their names, and their common terms; empty if there is no file.

    Raises TonnageError if the file is damaged.
    """
    decisions: list[Decision] = []
    found: dict[str, Sent] = {}
    terms: _Terms = {}
    try:
        with (folder / _FILE).open(encoding="utf-8") as file:
            for line in file:
                value = json.loads(line)
                if isinstance(value, list):
                    node, task, number, tried, given = value
                    found[node] = Sent(node, task, number, tried, tuple(decisions[one] for one in given))
                elif "decision" in value:
                    decisions.append(restore_decision(value["decision"]))
                else:
                    terms = value["terms"]
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise TonnageError(f"{folder / _FILE}: cannot be read: {error}") from None
    return found, terms
