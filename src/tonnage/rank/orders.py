"""Simple ranking methods: a key for each task, and always the eligible task with the best key next."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.jit import compiled
from tonnage.rank.eligible import Order
from tonnage.workflow import Graph

__all__ = ["by_keys", "critical_path", "descendants", "fifo", "gain", "gain_within", "longest_first", "run_times"]

_Numbers: TypeAlias = Any  # a list for small graphs, an array for compiled kernels
FloatArray: TypeAlias = NDArray[np.float64]


def fifo(graph: Graph) -> Order:
    """Order tasks first in, first out, as they become eligible."""
    return graph.order.astype(np.int64)


def critical_path(graph: Graph, seconds: FloatArray | None = None) -> Order:
    """Order tasks by the longest remaining chain of work; unknown run times count as the mean."""
    return by_keys(graph, -_work_left(graph, seconds))


def longest_first(graph: Graph, seconds: FloatArray, method: Callable[[Graph], Order]) -> Order:
    """Order tasks by a method, with ties broken by the longest remaining chain of work."""
    # Every method breaks ties by task number, so the tasks are renumbered.
    task = np.argsort(-_work_left(graph, seconds), kind="stable")
    number = np.empty_like(task)
    number[task] = np.arange(graph.size)
    return task[method(Graph.from_edges(graph.size, number[graph.edge_parents()], number[graph.child]))]


def _work_left(graph: Graph, seconds: FloatArray | None) -> FloatArray:
    """Return the longest chain of work that starts with each task, its own included."""
    weights = run_times(graph.size, seconds)
    left = weights.copy()
    compiled(_longest_left, graph.size)(graph.child_start, graph.child, graph.order, weights, left)
    return left


def run_times(size: int, seconds: FloatArray | None) -> FloatArray:
    """Return all run times: unknown ones count as the mean, or 1 if none are known."""
    if seconds is None or np.isnan(seconds).all():
        return np.ones(size)
    return np.where(np.isnan(seconds), np.nanmean(seconds), seconds)


def descendants(graph: Graph) -> Order:
    """Order tasks by the number of descendants; one that waits for several tasks is shared among them."""
    shares = np.zeros(graph.size)
    compiled(_shared, graph.size)(graph.child_start, graph.child, graph.order, graph.indegree, shares)
    return by_keys(graph, -shares)


def by_keys(graph: Graph, keys: FloatArray) -> Order:
    """Order tasks, always continuing with the eligible task of the smallest key; ties go to the first in the file."""
    return _climbed(graph, keys, follow=False)


def gain(graph: Graph) -> Order:
    """Order tasks by how many others each makes eligible immediately; ties go to the first in the file."""
    return _climbed(graph, np.zeros(graph.size), follow=True)


def gain_within(graph: Graph, block: Order) -> Order:
    """Order tasks like `gain`, but one block after the other; no task may wait for one of a later block."""
    return _climbed(graph, block * np.float64(graph.size + 1), follow=True)


def _climbed(graph: Graph, keys: FloatArray, *, follow: bool) -> Order:
    size = graph.size
    walk: Callable[..., None] = compiled(_walk, size)
    arrays: tuple[_Numbers, ...] = (
        graph.child_start,
        graph.child,
        graph.parent_start,
        graph.parent,
        graph.indegree.copy(),
        keys.astype(np.float64),
        np.empty(size, np.int64),
        np.full(size, -1, np.int64),
        np.empty(size, np.int64),
    )
    if walk is _walk:  # plain Python is fastest on lists
        arrays = tuple(array.tolist() for array in arrays)
    walk(*arrays, follow)
    return np.array(arrays[-1], np.int64)


def _longest_left(child_start: _Numbers, child: _Numbers, order: _Numbers, weights: _Numbers, left: _Numbers) -> None:
    """Fill `left` with the longest chain of work that starts with each task, its own included."""
    for place in range(len(order) - 1, -1, -1):
        task = order[place]
        longest = 0.0
        for edge in range(child_start[task], child_start[task + 1]):
            longest = max(longest, left[child[edge]])
        left[task] = weights[task] + longest


def _shared(child_start: _Numbers, child: _Numbers, order: _Numbers, parents: _Numbers, shares: _Numbers) -> None:
    """Fill `shares` with the number of descendants of each task, each divided among its parents."""
    for place in range(len(order) - 1, -1, -1):
        task = order[place]
        for edge in range(child_start[task], child_start[task + 1]):
            after = child[edge]
            shares[task] += (1.0 + shares[after]) / parents[after]


def _walk(  # noqa: PLR0912, PLR0915 (a kernel is one function)
    child_start: _Numbers,
    child: _Numbers,
    parent_start: _Numbers,
    parent: _Numbers,
    waiting: _Numbers,
    keys: _Numbers,
    heap: _Numbers,
    place_of: _Numbers,
    order: _Numbers,
    follow: bool,
) -> None:
    """Fill `order`, always continuing with the eligible task of the smallest key.

    With `follow`, a task's key is minus the number of tasks that it would make eligible, and changes as others run.
    The heap contains the eligible tasks; `place_of` is the position of each of them.
    """

    def before(one: int, other: int) -> bool:
        return keys[one] < keys[other] or (keys[one] == keys[other] and one < other)

    def up(place: int) -> None:
        task = heap[place]
        while place > 0:
            above = (place - 1) // 2
            if not before(task, heap[above]):
                break
            heap[place] = heap[above]
            place_of[heap[place]] = place
            place = above
        heap[place] = task
        place_of[task] = place

    def down(place: int, size: int) -> None:
        task = heap[place]
        while 2 * place + 1 < size:
            below = 2 * place + 1
            if below + 1 < size and before(heap[below + 1], heap[below]):
                below += 1
            if not before(heap[below], task):
                break
            heap[place] = heap[below]
            place_of[heap[place]] = place
            place = below
        heap[place] = task
        place_of[task] = place

    total = len(waiting)
    size = 0
    if follow:
        for task in range(total):
            if waiting[task] == 1:
                keys[parent[parent_start[task]]] -= 1
    for task in range(total):
        if waiting[task] == 0:
            heap[size] = task
            size += 1
            up(size - 1)
    done = 0
    while size > 0:
        task = heap[0]
        order[done] = task
        done += 1
        place_of[task] = -2  # it has run
        size -= 1
        if size > 0:
            heap[0] = heap[size]
            down(0, size)
        for edge in range(child_start[task], child_start[task + 1]):
            after = child[edge]
            waiting[after] -= 1
            if waiting[after] == 0:
                heap[size] = after
                size += 1
                up(size - 1)
            elif follow and waiting[after] == 1:
                # The last of its parents that has not run would make it eligible.
                for back in range(parent_start[after], parent_start[after + 1]):
                    last = parent[back]
                    if place_of[last] != -2:
                        keys[last] -= 1
                        if place_of[last] >= 0:
                            up(place_of[last])
                        break
