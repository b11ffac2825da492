"""PRIO's definitions, word by word and slow: what the fast ones are compared with."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tonnage.workflow import Graph

__all__ = ["components", "most_eligible", "priority"]


def components(graph: Graph) -> set[tuple[frozenset[int], frozenset[int]]]:
    """The components of section 3.1, step 2, in which something runs: what runs in each, and all its tasks."""
    children = {task: set(graph.children_of(task).tolist()) for task in range(graph.size)}
    parents = {task: set(graph.parents_of(task).tolist()) for task in range(graph.size)}
    left = set(range(graph.size))
    found = set()
    while left:
        sources = {task for task in left if not parents[task] & left}
        closures = [_closure(source, sources, left, children, parents) for source in sorted(sources)]
        smallest = [one for one in closures if not any(other < one for other in closures)]
        chosen = min(smallest, key=sorted)
        runs = frozenset(task for task in chosen if children[task] & chosen)
        if runs:
            found.add((runs, chosen))
        left -= runs
        left -= {task for task in chosen - runs if not children[task]}
    return found


def _closure(
    source: int, sources: set[int], left: set[int], children: dict[int, set[int]], parents: dict[int, set[int]]
) -> frozenset[int]:
    found = {source}
    while True:
        more = set(found)
        for task in found & sources:
            more |= children[task] & left
        for task in list(more):
            more |= parents[task] & left
        if more == found:
            return frozenset(found)
        found = more


def priority(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The largest r of section 3.1, steps 4 and 5, from all x and y."""
    least = 1.0
    for x in range(len(first)):
        for y in range(len(second)):
            done = min(len(first) - 1, x + y)
            if first[x] + second[y] > 0:
                least = min(least, (first[done] + second[x + y - done]) / (first[x] + second[y]))
    return float(least)


def most_eligible(graph: Graph) -> list[int]:
    """The most tasks that can be eligible after each number of steps, whatever ran."""
    most = [0] * (graph.size + 1)
    for count in range(graph.size + 1):
        for chosen in combinations(range(graph.size), count):
            done = set(chosen)
            if all(set(graph.parents_of(task).tolist()) <= done for task in chosen):
                eligible = sum(
                    task not in done and set(graph.parents_of(task).tolist()) <= done for task in range(graph.size)
                )
                most[count] = max(most[count], eligible)
    return most
