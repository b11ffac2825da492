"""Eligible jobs: how many could run at each step of an order, with one job per step."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.workflow import Graph

__all__ = ["Order", "curve", "is_possible", "mean_eligible", "positions"]

Order: TypeAlias = NDArray[np.int64]
"""Task numbers, in the order in which the tasks run."""


def positions(order: Order) -> Order:
    """Return the place of each task in an order, from 1."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(1, len(order) + 1)
    return place


def _eligible_from(graph: Graph, place: Order) -> Order:
    """Return the step after which each task is eligible: that of its last parent, or 0 if it has none."""
    since = np.zeros(graph.size, np.int64)
    if graph.edges:
        waiting = np.flatnonzero(graph.indegree)
        since[waiting] = np.maximum.reduceat(place[graph.parent], graph.parent_start[waiting])
    return since


def is_possible(graph: Graph, order: Order) -> bool:
    """Whether an order contains each task once, and after everything it waits for."""
    if len(order) != graph.size or not np.array_equal(np.sort(order), np.arange(graph.size)):
        return False
    place = positions(order)
    return bool((_eligible_from(graph, place) < place).all())


def curve(graph: Graph, order: Order) -> Order:
    """Return how many tasks are eligible after 0, 1, ... steps of an order."""
    place = positions(order)
    begins = np.bincount(_eligible_from(graph, place), minlength=graph.size + 1)
    ends = np.bincount(place, minlength=graph.size + 1)
    return np.cumsum(begins - ends)


def mean_eligible(graph: Graph, order: Order) -> float:
    """Return how many tasks are eligible on average, before each step."""
    if not graph.size:
        return 0.0
    place = positions(order)
    return float((place - _eligible_from(graph, place)).sum() / graph.size)
