"""The nodes of a DAG that was submitted: which task each is, and what it was given; kept in a file beside the DAG."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tonnage.batch.htcondor.dag import Node
from tonnage.errors import TonnageError
from tonnage.files import write_atomically
from tonnage.jobs import Decision
from tonnage.run.serialisation import decision_of, plain_decision

__all__ = ["Sent", "Terms", "read_nodes", "write_nodes"]

Terms: TypeAlias = Mapping[str, object]
"""What holds for all jobs of a DAG."""
_FILE = "nodes.jsonl"


@dataclass(frozen=True, slots=True)
class Sent:
    """A task that DAGMan starts."""

    node: str
    task: str
    number: int
    """By which its files are called."""
    before: int
    """How often it was tried before."""
    decisions: tuple[Decision, ...]


def write_nodes(folder: Path, nodes: Sequence[Node], before: Sequence[int], terms: Terms) -> None:
    """Write the nodes of a DAG: first the terms of all of them, then each decision once, then a line for each node."""
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


def read_nodes(folder: Path) -> tuple[dict[str, Sent], Terms]:
    """Return the nodes of a DAG by their names, and the terms of all of them; nothing where it has none.

    Raises TonnageError where the file is damaged.
    """
    decisions: list[Decision] = []
    found: dict[str, Sent] = {}
    terms: Terms = {}
    try:
        with (folder / _FILE).open(encoding="utf-8") as file:
            for line in file:
                value = json.loads(line)
                if isinstance(value, list):
                    node, task, number, tried, given = value
                    found[node] = Sent(node, task, number, tried, tuple(decisions[one] for one in given))
                elif "decision" in value:
                    decisions.append(decision_of(value["decision"]))
                else:
                    terms = value["terms"]
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise TonnageError(f"{folder / _FILE}: cannot be read: {error}") from None
    return found, terms
