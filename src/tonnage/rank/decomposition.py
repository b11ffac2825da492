"""A workflow in building blocks: the smallest groups of tasks that PRIO schedules one at a time (its steps 1 and 2).

A component is detached when all tasks that it needs are done. Most are bipartite blocks: tasks that share children,
with these children. Which tasks share children does not change while blocks are detached, so union-find tells all
blocks at once, and one is ready as soon as its last member is a source. Only where none is ready, a component is
larger: the smallest set that holds, with a source, all its children, and with a task, all its parents. Such sets are
the strongly connected components without a way out of the graph in which a task leads to its parents, and a source
also to its children.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.kernels import fast
from tonnage.workflow import Graph

__all__ = ["Decomposition", "decompose"]

_Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Decomposition:
    """The components of a workflow, numbered as they were detached: each after all that it waits for."""

    graph: Graph
    """Without shortcuts: dependencies that others imply."""
    runs_in: _Ints
    """The component in which each task runs; -1 for the workflow's own sinks, which run at the end."""
    sink_of: _Ints
    """The component of which each task is a sink, -1 where it is a sink of none: it is eligible from the start."""
    bipartite: NDArray[np.bool_]
    """Whether each component is a block of sources and their children."""

    def __len__(self) -> int:
        return len(self.bipartite)

    def runs(self) -> tuple[_Ints, _Ints]:
        """Return the tasks that run in each component, by number: where those of each start, and all of them."""
        return _grouped(self.runs_in, len(self))

    def sinks(self) -> tuple[_Ints, _Ints]:
        """Return the sinks of each component, by number: where those of each start, and all of them."""
        return _grouped(np.where(self.sink_of == self.runs_in, -1, self.sink_of), len(self))

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
    """Return the components of a workflow."""
    reduced = graph.reduced()
    size = reduced.size
    runs_in, sink_of = np.full(size, -2, np.int64), np.full(size, -1, np.int64)
    waiting = reduced.indegree.copy()
    runs_in[reduced.outdegree == 0] = -1
    rows = (reduced.child_start, reduced.child, reduced.parent_start, reduced.parent)
    bipartite: list[NDArray[np.bool_]] = []
    found = 0
    while True:
        before = found
        found = fast(_detach_blocks, size)(*rows, waiting, runs_in, sink_of, found)
        bipartite.append(np.ones(found - before, np.bool_))
        if not (runs_in == -2).any():
            break
        before = found
        found = _detach_larger(reduced, waiting, runs_in, sink_of, found)
        bipartite.append(np.zeros(found - before, np.bool_))
    return Decomposition(reduced, runs_in, sink_of, np.concatenate(bipartite))


def _detach_blocks(  # noqa: PLR0912, PLR0915 (a kernel is one function)
    child_start: _Ints,
    child: NDArray[np.int32],
    parent_start: _Ints,
    parent: NDArray[np.int32],
    waiting: _Ints,
    runs_in: _Ints,
    sink_of: _Ints,
    found: int,
) -> int:
    """Detach bipartite blocks as long as one is ready; return how many components there are then.

    `runs_in` is -2 for tasks that are left, -1 for sinks of the workflow. `waiting` counts the parents that are left.
    """
    size = len(waiting)
    leader = np.arange(size)
    # Parents that share a child are in one class; a class is led by its smallest number.
    for task in range(size):
        first = -1
        for place in range(parent_start[task], parent_start[task + 1]):
            one = parent[place]
            if runs_in[one] != -2:
                continue
            while leader[one] != one:
                leader[one] = leader[leader[one]]
                one = leader[one]
            if first == -1:
                first = one
            elif first < one:
                leader[one] = first
            else:
                leader[first] = one
                first = one
    members = np.zeros(size + 1, np.int64)
    for task in range(size):
        if runs_in[task] == -2:
            one = task
            while leader[one] != one:
                one = leader[one]
            leader[task] = one
            members[one + 1] += 1
    for task in range(size):
        members[task + 1] += members[task]
    listed, fill = np.empty(members[size], np.int64), members[:-1].copy()
    missing = np.zeros(size, np.int64)
    for task in range(size):
        if runs_in[task] == -2:
            one = leader[task]
            listed[fill[one]] = task
            fill[one] += 1
            missing[one] += waiting[task] > 0
    queue = np.empty(size, np.int64)
    head, tail = 0, 0
    for task in range(size):
        if runs_in[task] == -2 and leader[task] == task and missing[task] == 0:
            queue[tail] = task
            tail += 1
    while head < tail:
        one = queue[head]
        head += 1
        for place in range(members[one], members[one + 1]):
            task = listed[place]
            runs_in[task] = found
            for edge in range(child_start[task], child_start[task + 1]):
                after = child[edge]
                sink_of[after] = found
                waiting[after] -= 1
                if waiting[after] == 0 and runs_in[after] == -2:
                    other = leader[after]
                    missing[other] -= 1
                    if missing[other] == 0:
                        queue[tail] = other
                        tail += 1
        found += 1
    return found


def _detach_larger(graph: Graph, waiting: _Ints, runs_in: _Ints, sink_of: _Ints, found: int) -> int:
    """Detach the smallest components where none is bipartite; return how many components there are then."""
    left = runs_in == -2
    # The workflow's sinks are still there while a parent of theirs is.
    left |= (runs_in == -1) & (waiting > 0)
    component = np.full(graph.size, -1, np.int64)
    rows = (graph.child_start, graph.child, graph.parent_start, graph.parent)
    number = fast(_strong_components, graph.size)(*rows, left, waiting, component)
    leaves = np.zeros(number, np.bool_)  # whether a way leads out of it
    parents, children = graph.edge_parents(), graph.child
    both = left[parents] & left[children]
    parents, children = parents[both], children[both]
    apart = component[parents] != component[children]
    leaves[component[children[apart]]] = True  # to its parent
    from_source = apart & (waiting[parents] == 0)
    leaves[component[parents[from_source]]] = True
    inside = ~apart & ~leaves[component[parents]]
    smallest = np.unique(component[left & ~leaves[np.where(left, component, 0)]])
    numbers = np.full(number, -1, np.int64)
    numbers[smallest] = np.arange(found, found + len(smallest))
    runs = np.unique(parents[inside])
    runs_in[runs] = numbers[component[runs]]
    for task in runs.tolist():
        for after in graph.children_of(task).tolist():
            waiting[after] -= 1
            if component[after] == component[task]:
                sink_of[after] = runs_in[task]
    return found + len(smallest)


def _strong_components(  # noqa: PLR0912 (a kernel is one function)
    child_start: _Ints,
    child: NDArray[np.int32],
    parent_start: _Ints,
    parent: NDArray[np.int32],
    left: NDArray[np.bool_],
    waiting: _Ints,
    component: _Ints,
) -> int:
    """Number the strongly connected components of what is left (Tarjan, without recursion); return how many."""
    size = len(left)
    index, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
    at = np.zeros(size, np.int64)
    on_stack = np.zeros(size, np.bool_)
    stack, path = np.empty(size, np.int64), np.empty(size, np.int64)
    stacked, counter, number = 0, 0, 0
    for root in range(size):
        if not left[root] or index[root]:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            task = path[depth]
            if index[task] == 0:
                counter += 1
                index[task] = low[task] = counter
                stack[stacked] = task
                stacked += 1
                on_stack[task] = True
            parents = parent_start[task + 1] - parent_start[task]
            ways = parents + (child_start[task + 1] - child_start[task] if waiting[task] == 0 else 0)
            deeper = False
            while at[task] < ways:
                way = at[task]
                at[task] += 1
                other = parent[parent_start[task] + way] if way < parents else child[child_start[task] + way - parents]
                if not left[other]:
                    continue
                if index[other] == 0:
                    depth += 1
                    path[depth] = other
                    deeper = True
                    break
                if on_stack[other]:
                    low[task] = min(low[task], index[other])
            if deeper:
                continue
            if low[task] == index[task]:
                while True:
                    stacked -= 1
                    one = stack[stacked]
                    on_stack[one] = False
                    component[one] = number
                    if one == task:
                        break
                number += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[task])
    return number
