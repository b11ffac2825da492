"""A directed acyclic graph of numbered tasks, in arrays: order, levels, longest path, reachability, reduction.

Both directions are stored as compressed sparse rows: the children of task u are in ``child`` from
``child_start[u]`` to ``child_start[u + 1]``, in increasing order, and likewise its parents. A million tasks with
three million dependencies take 40 MB.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tonnage.jit import COMPILE_FROM, compiled

__all__ = ["Cycle", "FloatArray", "Graph"]

FloatArray: TypeAlias = NDArray[np.float64]

# Reachability is computed for this many target tasks at a time: 8 words of 64 bits per task fill one cache line.
_BLOCK = 512


# The search back from a single task stops after this many dependencies.
_NEAR = 1000


class Cycle(Exception):  # noqa: N818 (not shown to users: the workflow turns it into an error with names)
    """The dependencies contain a cycle; `tasks` lists its tasks in order."""

    def __init__(self, tasks: list[int]) -> None:
        super().__init__(f"cycle through {len(tasks)} tasks")
        self.tasks = tasks


@dataclass(frozen=True, eq=False)
class Graph:
    """The dependencies between tasks 0 to size - 1: immutable, without duplicates."""

    child_start: NDArray[np.int64]
    child: NDArray[np.int32]
    parent_start: NDArray[np.int64]
    parent: NDArray[np.int32]

    @classmethod
    def from_edges(cls, size: int, parents: ArrayLike, children: ArrayLike) -> "Graph":
        """Build the graph in which ``children[k]`` waits for ``parents[k]``; duplicates count once.

        Raises Cycle if a task waits for itself, directly or through others.
        """
        first = np.asarray(parents, dtype=np.int64)
        second = np.asarray(children, dtype=np.int64)
        if first.shape != second.shape or first.ndim != 1:
            raise ValueError("parents and children must be two lists of the same length")
        if len(first) and not 0 <= min(first.min(), second.min()) <= max(first.max(), second.max()) < size:
            raise ValueError(f"a dependency names a task outside 0 to {size - 1}")
        loops = np.flatnonzero(first == second)
        if loops.size:
            raise Cycle([int(first[loops[0]])])
        child_start, child = _rows(size, first, second)
        parent_start, parent = _rows(size, second, first)
        graph = cls(child_start=child_start, child=child, parent_start=parent_start, parent=parent)
        for array in (graph.child_start, graph.child, graph.parent_start, graph.parent):
            array.flags.writeable = False
        _ = graph.order  # a graph with a cycle must not exist
        return graph

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Graph)
            and np.array_equal(self.child_start, other.child_start)
            and np.array_equal(self.child, other.child)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def size(self) -> int:
        """The number of tasks."""
        return len(self.child_start) - 1

    @property
    def edges(self) -> int:
        """The number of dependencies."""
        return len(self.child)

    def children_of(self, task: int) -> NDArray[np.int32]:
        """Return the tasks that wait for this one, in increasing order."""
        return self.child[self.child_start[task] : self.child_start[task + 1]]

    def parents_of(self, task: int) -> NDArray[np.int32]:
        """Return the tasks that this one waits for, in increasing order."""
        return self.parent[self.parent_start[task] : self.parent_start[task + 1]]

    @cached_property
    def indegree(self) -> NDArray[np.int64]:
        """How many tasks each task waits for."""
        return np.diff(self.parent_start)

    @cached_property
    def outdegree(self) -> NDArray[np.int64]:
        """How many tasks wait for each task."""
        return np.diff(self.child_start)

    def edge_parents(self) -> NDArray[np.int64]:
        """Return the parent of every dependency, in the order of `child`."""
        return np.repeat(np.arange(self.size), self.outdegree)

    def renumbered(self, order: Sequence[int]) -> bytes:
        """Return the dependencies as sorted bytes, with each task numbered by its place in `order`."""
        place = np.empty(self.size, dtype=np.int64)
        place[order] = np.arange(self.size)
        keys = place[self.edge_parents()] * max(self.size, 1) + place[self.child]
        return np.sort(keys).astype("<i8").tobytes()

    @cached_property
    def order(self) -> NDArray[np.int32]:
        """A topological order: first in, first out, starting with the entry tasks in their own order."""
        return self._order_and_level[0]

    @cached_property
    def level(self) -> NDArray[np.int32]:
        """The longest distance of each task from an entry task, counted in dependencies."""
        return self._order_and_level[1]

    @cached_property
    def _order_and_level(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        order = np.empty(self.size, dtype=np.int32)
        level = np.zeros(self.size, dtype=np.int32)
        if not self.edges:  # a bag of tasks needs no compiled loop, which would take longer to load than to run
            order[:] = np.arange(self.size)
            order.flags.writeable = level.flags.writeable = False
            return order, level
        waiting = self.indegree.astype(np.int32)
        done = self._fast(_first_in_first_out)(self.child_start, self.child, waiting, order, level)
        if done < self.size:
            raise Cycle(self._find_cycle(waiting))
        order.flags.writeable = level.flags.writeable = False
        return order, level

    def _find_cycle(self, waiting: NDArray[np.int32]) -> list[int]:
        """Walk from a task that never became ready to a parent that did not either, until one is visited twice."""
        task = int(np.flatnonzero(waiting)[0])
        seen: dict[int, int] = {}
        walk: list[int] = []
        while task not in seen:
            seen[task] = len(walk)
            walk.append(task)
            task = next(int(parent) for parent in self.parents_of(task) if waiting[parent])
        return walk[seen[task] :][::-1]

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """The number of tasks in each level."""
        return np.bincount(self.level) if self.size else np.zeros(0, dtype=np.int64)

    def longest_path(self, weights: ArrayLike) -> tuple[float, list[int]]:
        """Return the largest sum of weights along a path, and that path; ties go to the lowest task numbers."""
        if not self.size:
            return 0.0, []
        weight = np.asarray(weights, dtype=np.float64)
        finish = np.empty(self.size)
        through = np.empty(self.size, dtype=np.int32)
        self._fast(_longest_paths)(self.parent_start, self.parent, self.order, weight, finish, through)
        task = int(np.argmax(finish))
        path = [task]
        while through[task] >= 0:
            task = int(through[task])
            path.append(task)
        return float(finish.max()), path[::-1]

    @cached_property
    def descendants(self) -> NDArray[np.int64]:
        """How many tasks wait for each task, directly or through others."""
        return _reachable_counts(_Ordered(self.child_start, self.child, self.order[::-1]))

    @cached_property
    def ancestors(self) -> NDArray[np.int64]:
        """How many tasks each task waits for, directly or through others."""
        return _reachable_counts(_Ordered(self.parent_start, self.parent, self.order))

    @cached_property
    def shortcuts(self) -> NDArray[np.bool_]:
        """Which dependencies, in the order of `child`, are implied by a longer path between the same tasks."""
        shortcut = np.zeros(self.edges, dtype=np.bool_)
        # A longer path spans at least two levels, so only dependencies that do can be shortcuts.
        climb = self.level[self.child] - self.level[self.edge_parents()]
        if not (climb >= 2).any():
            return shortcut
        far = np.zeros(self.size, dtype=np.bool_)
        far[self.child[climb >= 2]] = True
        if _work(self.size, self.edges) >= COMPILE_FROM:
            # Most can be decided by a short search; those that would take long are handled all together.
            near = np.zeros(self.edges, dtype=np.bool_)
            far[:] = False
            self._fast(_near_shortcuts)(self.parent_start, self.parent, self.level, self.outdegree, near, far)
            # The position in `child` of each dependency in the order of `parent`.
            shortcut[np.lexsort((self.edge_parents(), self.child))] = near
        if far.any():
            rows = _Ordered(self.child_start, self.child, self.order[::-1])
            found = np.zeros(self.edges, dtype=np.bool_)
            for _ in rows.reachability(np.flatnonzero(far[rows.order]), found):
                pass
            shortcut[rows.edge[found]] = True
        return shortcut

    def reduced(self) -> "Graph":
        """Return the transitive reduction: the fewest dependencies that imply all the others."""
        if not self.shortcuts.any():
            return self
        keep = ~self.shortcuts
        return Graph.from_edges(self.size, self.edge_parents()[keep], self.child[keep])

    def _fast(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        return compiled(kernel, _work(self.size, self.edges))


class _Ordered:
    """The dependencies, with tasks renumbered by an order that lists every task after all its followers.

    In this order the tasks that can reach a target are the last rows, and neighbours are close in memory.
    """

    def __init__(self, start: NDArray[np.int64], follower: NDArray[np.int32], order: NDArray[np.int32]) -> None:
        size = len(order)
        place = np.empty(size, dtype=np.int32)
        place[order] = np.arange(size, dtype=np.int32)
        degree = np.diff(start)[order]
        self.order = order
        self.start = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(degree, out=self.start[1:])
        self.edge = np.arange(len(follower)) + np.repeat(start[order] - self.start[:-1], degree)
        self.follower = place[follower[self.edge]]

    def reachability(
        self, targets: NDArray[np.int64], shortcut: NDArray[np.bool_]
    ) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Yield, for each block of targets (places), the first place that can reach any, and a row of bits per place.

        The bits are the targets that a place reaches. Dependencies on a target that can also be reached through another
        follower are marked in `shortcut`.
        """
        size = len(self.order)
        work = _work(size, len(self.follower))
        # Uncompiled, a row operation costs the same for a few words as for hundreds, so one block is used.
        block = _BLOCK if work >= COMPILE_FROM else max(_BLOCK, size)
        spread = compiled(_spread_targets, work)
        reach = np.zeros((size, -(-min(block, max(len(targets), 1)) // 64)), dtype=np.uint64)
        column = np.full(size, -1, dtype=np.int32)
        bit = np.uint64(1) << np.arange(64, dtype=np.uint64)
        previous = 0
        for begin in range(0, len(targets), block):
            chunk = targets[begin : begin + block]
            first = int(chunk[0])
            column[chunk] = np.arange(len(chunk), dtype=np.int32)
            reach[previous:first] = 0  # earlier rows were cleared for an earlier block
            spread(self.start, self.follower, first, column, bit, reach, shortcut)
            column[chunk] = -1
            previous = first
            yield first, reach


def _work(size: int, edges: int) -> int:
    """Return the amount of work as an equivalent number of tasks with few dependencies."""
    return max(size, edges // 10)


def _reachable_counts(rows: _Ordered) -> NDArray[np.int64]:
    counts = np.zeros(len(rows.order), dtype=np.int64)
    ignored = np.zeros(len(rows.follower), dtype=np.bool_)
    for first, reach in rows.reachability(np.arange(len(rows.order)), ignored):
        counts[first:] += np.bitwise_count(reach[first:]).sum(axis=1, dtype=np.int64)
    by_task = np.empty_like(counts)
    by_task[rows.order] = counts
    return by_task


def _rows(size: int, row: NDArray[np.int64], value: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return compressed sparse rows: where each row starts, and its values in increasing order, each once."""
    # One sorted key per dependency puts the rows in order and the duplicates side by side.
    key = np.sort(row * size + value)
    key = key[np.diff(key, prepend=-1) != 0]
    start = np.zeros(size + 1, dtype=np.int64)
    row, values = np.divmod(key, max(size, 1))
    np.cumsum(np.bincount(row, minlength=size), out=start[1:])
    return start, values.astype(np.int32)


# The kernels below run uncompiled on small inputs and compiled on large ones: plain loops over arrays, no objects.


def _first_in_first_out(
    child_start: NDArray[np.int64],
    child: NDArray[np.int32],
    waiting: NDArray[np.int32],
    order: NDArray[np.int32],
    level: NDArray[np.int32],
) -> int:
    """Fill `order` and `level`, count `waiting` down to 0, and return how many tasks became ready."""
    ready = 0
    for task in range(len(waiting)):
        if waiting[task] == 0:
            order[ready] = task
            ready += 1
    done = 0
    while done < ready:
        task = order[done]
        done += 1
        below = level[task] + 1
        for edge in range(child_start[task], child_start[task + 1]):
            other = child[edge]
            level[other] = max(level[other], below)
            waiting[other] -= 1
            if waiting[other] == 0:
                order[ready] = other
                ready += 1
    return done


def _longest_paths(
    parent_start: NDArray[np.int64],
    parent: NDArray[np.int32],
    order: NDArray[np.int32],
    weight: NDArray[np.float64],
    finish: NDArray[np.float64],
    through: NDArray[np.int32],
) -> None:
    """Fill `finish` with the largest sum that ends at each task, and `through` with the parent it comes from or -1."""
    for place in range(len(order)):
        task = order[place]
        best = 0.0
        last = -1
        for edge in range(parent_start[task], parent_start[task + 1]):
            other = parent[edge]
            if last < 0 or finish[other] > best:
                best = finish[other]
                last = other
        finish[task] = best + weight[task]
        through[task] = last


def _near_shortcuts(
    parent_start: NDArray[np.int64],
    parent: NDArray[np.int32],
    level: NDArray[np.int32],
    children: NDArray[np.int64],
    shortcut: NDArray[np.bool_],
    far: NDArray[np.bool_],
) -> None:
    """Mark dependencies, in the order of `parent`, that a longer path implies; mark tasks with too many paths as `far`.

    From each task the search goes back, but not below the lowest of its parents that have another child.
    """
    size = len(level)
    seen, reached = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    stack = np.empty(size, np.int32)
    for task in range(size):
        begin, end = parent_start[task], parent_start[task + 1]
        lowest = level[task]
        for edge in range(begin, end):
            if children[parent[edge]] > 1:
                lowest = min(lowest, level[parent[edge]])
        if lowest + 2 > level[task] or end - begin < 2:
            continue
        depth, steps = 0, 0
        for edge in range(begin, end):
            other = parent[edge]
            seen[other] = task
            if level[other] > lowest:
                stack[depth] = other
                depth += 1
        while depth > 0 and steps <= _NEAR:
            depth -= 1
            one = stack[depth]
            for edge in range(parent_start[one], parent_start[one + 1]):
                other = parent[edge]
                steps += 1
                if level[other] < lowest:
                    continue
                reached[other] = task
                if seen[other] != task and level[other] > lowest:
                    seen[other] = task
                    stack[depth] = other
                    depth += 1
        if steps > _NEAR:
            far[task] = True
            continue
        for edge in range(begin, end):
            shortcut[edge] = reached[parent[edge]] == task


def _spread_targets(
    start: NDArray[np.int64],
    follower: NDArray[np.int32],
    first: int,
    column: NDArray[np.int32],
    bit: NDArray[np.uint64],
    reach: NDArray[np.uint64],
    shortcut: NDArray[np.bool_],
) -> None:
    """Fill each row of `reach`, from place `first` on, with the targets that are reached from there."""
    for place in range(first, len(start) - 1):
        row = reach[place]
        row[:] = 0
        for edge in range(start[place], start[place + 1]):
            row |= reach[follower[edge]]
        # The row now has what is reached through a follower; a target that is also a follower has two paths.
        for edge in range(start[place], start[place + 1]):
            target = column[follower[edge]]
            if target >= 0 and row[target >> 6] & bit[target & 63] != 0:
                shortcut[edge] = True
        for edge in range(start[place], start[place + 1]):
            target = column[follower[edge]]
            if target >= 0:
                row[target >> 6] |= bit[target & 63]
