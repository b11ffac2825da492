"""Every way to rank by the name that it has on the command line."""

from collections.abc import Callable

from tonnage.errors import InputError
from tonnage.rank.best import best
from tonnage.rank.eligible import Order
from tonnage.rank.orders import critical_path, descendants, fifo, gain
from tonnage.rank.prio import prio
from tonnage.rank.sidney import sidney
from tonnage.workflow import Workflow

__all__ = ["METHODS", "rank"]

METHODS: dict[str, Callable[[Workflow], Order]] = {
    "prio": lambda workflow: prio(workflow.graph),
    "fifo": lambda workflow: fifo(workflow.graph),
    "critical-path": lambda workflow: critical_path(workflow.graph, workflow.seconds),
    "descendants": lambda workflow: descendants(workflow.graph),
    "gain": lambda workflow: gain(workflow.graph),
    "sidney": lambda workflow: sidney(workflow.graph),
    "best": lambda workflow: best(workflow).order,
}
"""How to order the tasks of a workflow."""


def rank(workflow: Workflow, method: str = "prio") -> Order:
    """Return the tasks of a workflow, by their numbers, in the order in which they should run."""
    try:
        order = METHODS[method]
    except KeyError:
        raise InputError(f'"{method}" is not a method', hint=f"one of {', '.join(METHODS)}") from None
    return order(workflow)
