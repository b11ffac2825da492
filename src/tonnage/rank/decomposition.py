"""Decompose a workflow into building blocks: the smallest groups that PRIO schedules one at a time (steps 1 and 2).

A component is the smallest set that contains, with a source, all its children, and with a task, all its parents; most
are bipartite blocks: tasks that share children, and these children. In a graph in which each task points to its parents
and each source also to its children, they are the strongly connected components without an outgoing edge. Detaching one
leaves the others unchanged, so the order in which they are found does not matter.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.jit import compiled
from tonnage.workflow import Graph

__all__ = ["Decomposition", "decompose"]

_Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Decomposition:
    """The components of a workflow, numbered as they were detached: each after everything it waits for."""

    graph: Graph
    """The workflow without shortcuts (dependencies that others imply)."""
    runs_in: _Ints
    """The component in which each task runs; -1 for the workflow's own sinks, which run at the end."""
    sink_of: _Ints
    """The component of which each task is a sink; -1 if none: for tasks without parents or inside a component."""
    bipartite: NDArray[np.bool_]
    """Whether each component is a block of sources and their children."""

    def __len__(self) -> int:
        return len(self.bipartite)

    def runs(self) -> tuple[_Ints, _Ints]:
        """Return the tasks that run in each component, by number: where those of each start, and all of them."""
        return _grouped(self.runs_in, len(self))

    def sinks(self) -> tuple[_Ints, _Ints]:
        """Return the sinks of each component, by number: where those of each start, and all of them."""
        return _grouped(self.sink_of, len(self))

    def superdag(self) -> Graph:
        """Return which component waits for which."""
        first, second = self.runs_in[self.graph.edge_parents()], self.runs_in[self.graph.child]
        apart = (second >= 0) & (first != second)
        return Graph.from_edges(len(self), first[apart], second[apart])


def _grouped(group: _Ints, groups: int) -> tuple[_Ints, _Ints]:
    members = np.flatnonzero(group >= 0)
    members = members[np.argsort(group[members], kind="stable")]
    start = np.zeros(groups + 1, np.int64)
    np.cumsum(np.bincount(group[members], minlength=groups), out=start[1:])
    return start, members


def decompose(graph: Graph) -> Decomposition:
    """Take a workflow apart into its components, after removing shortcuts."""
    reduced = graph.reduced()
    size = reduced.size
    runs_in, sink_of = np.full(size, -2, np.int64), np.full(size, -1, np.int64)
    runs_in[reduced.outdegree == 0] = -1
    rows = (reduced.child_start, reduced.child, reduced.parent_start, reduced.parent)
    found = compiled(_detach, size)(*rows, reduced.indegree.copy(), runs_in, sink_of)
    sink_of[sink_of == runs_in] = -1  # a task that waits for others of its component also runs in it
    bipartite = np.ones(found, np.bool_)
    before = runs_in[reduced.edge_parents()]
    bipartite[before[before == runs_in[reduced.child]]] = False  # one task that runs in it waits for another
    return Decomposition(reduced, runs_in, sink_of, bipartite)


def _detach(  # noqa: PLR0912, PLR0915 (a kernel is one function)
    child_start: _Ints,
    child: NDArray[np.int32],
    parent_start: _Ints,
    parent: NDArray[np.int32],
    waiting: _Ints,
    runs_in: _Ints,
    sink_of: _Ints,
) -> int:
    """Fill in `runs_in` (-2 before) and `sink_of`, here also for inner tasks; return the number of components.

    This is Tarjan's search for strongly connected components, without recursion. The first component that it completes
    has no outgoing edge. It is detached, and the search continues: what remains of the component, its sinks, are now
    sources that have not been visited. Only the last edge taken can lead into it, and that edge is followed again.
    """
    size = len(waiting)
    index, low, at = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    stack, path = np.empty(size, np.int64), np.empty(size, np.int64)
    member_of = np.full(size, -1, np.int64)
    stacked, counter, found = 0, 0, 0
    for root in range(size):
        while runs_in[root] == -2:
            depth = 0
            path[0] = root
            while depth >= 0:
                task = path[depth]
                if index[task] == 0:
                    counter += 1
                    index[task] = low[task] = counter
                    at[task] = 0
                    stack[stacked] = task
                    stacked += 1
                parents = parent_start[task + 1] - parent_start[task]
                ways = parents + (child_start[task + 1] - child_start[task] if waiting[task] == 0 else 0)
                deeper = False
                while at[task] < ways:
                    way = at[task]
                    other = (
                        parent[parent_start[task] + way] if way < parents else child[child_start[task] + way - parents]
                    )
                    if runs_in[other] < 0:  # otherwise it is already detached
                        if index[other] == 0:
                            depth += 1
                            path[depth] = other
                            deeper = True
                            break
                        # Tasks further up the path get their lowest number from their own edges.
                        low[task] = min(low[task], low[other])
                    at[task] += 1
                if deeper:
                    continue
                depth -= 1
                if low[task] < index[task]:
                    continue
                first = stacked
                while True:
                    first -= 1
                    member_of[stack[first]] = found
                    if stack[first] == task:
                        break
                for place in range(first, stacked):
                    one = stack[place]
                    index[one] = 0
                    inside = False
                    for edge in range(child_start[one], child_start[one + 1]):
                        if member_of[child[edge]] == found:
                            inside = True
                            sink_of[child[edge]] = found
                    if inside:
                        runs_in[one] = found
                        for edge in range(child_start[one], child_start[one + 1]):
                            waiting[child[edge]] -= 1
                stacked = first
                found += 1
    return found
