"""The ranking methods, by their names on the command line."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tonnage.errors import InputError
from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from tonnage.rank.eligible import Order
    from tonnage.workflow import Workflow

__all__ = ["METHODS", "order_of", "rank"]


def _of_graph(path: str) -> "Callable[[Workflow], Order]":
    """Return a method that only looks at the dependencies."""
    method = Deferred(path)
    return lambda workflow: method(workflow.graph)


METHODS: "dict[str, Callable[[Workflow], Order]]" = {
    "prio": _of_graph("tonnage.rank.prio:prio"),
    "fifo": _of_graph("tonnage.rank.orders:fifo"),
    "critical-path": lambda workflow: Deferred("tonnage.rank.orders:critical_path")(workflow.graph, workflow.seconds),
    "descendants": _of_graph("tonnage.rank.orders:descendants"),
    "gain": _of_graph("tonnage.rank.orders:gain"),
    "sidney": _of_graph("tonnage.rank.sidney:sidney"),
    "best": lambda workflow: Deferred("tonnage.rank.best:best")(workflow).order,
}
"""Each orders the tasks of a workflow."""
_OF_GRAPH = ("prio", "fifo", "descendants", "gain", "sidney")
"""The methods that only look at the dependencies: without any, tasks keep their order."""


def rank(workflow: "Workflow", method: str = "prio") -> "Order":
    """Return the tasks of a workflow, by their numbers, in the order in which they should run."""
    try:
        order = METHODS[method]
    except KeyError:
        raise InputError(f'"{method}" is not a method', hint=f"one of {', '.join(METHODS)}") from None
    return order(workflow)


def order_of(workflow: "Workflow", method: str = "prio") -> "Sequence[int]":
    """Return the same order as a sequence of numbers, without importing numpy if tasks keep their order."""
    if workflow.dependencies is None and method in _OF_GRAPH:
        return range(len(workflow))
    order: list[int] = rank(workflow, method).tolist()
    return order
