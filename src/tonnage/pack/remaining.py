"""A workflow as packers see it: the remaining tasks by level, and how long each group of levels takes on n nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jit import compiled
from tonnage.jobs import Amounts, Resource
from tonnage.pack.list_schedule import WHOLE, run_times, schedule, shared_run_times, shared_schedule
from tonnage.pack.packers import ORDERS
from tonnage.workflow import Graph, Workflow

__all__ = ["NEVER", "Remaining", "Work", "actual_times", "unknown_run_times"]

IntArray: TypeAlias = NDArray[np.int64]
NEVER = 2**61
"""The start time of a task whose parents will never be done."""

_LONGEST = 2**40
_EFFORT = 100
"""A task in a list schedule takes about as long as this many in other kernels, because there are many schedules."""


@dataclass(frozen=True, eq=False)
class Work:
    """The tasks of a workflow: dependencies, levels, and run times in whole seconds."""

    graph: Graph
    seconds: IntArray
    key: IntArray
    """Of the tasks that could start, the one with the smallest key goes first."""
    shares: tuple[IntArray, IntArray] | None = None
    """The shares of a node's cores and memory that each task needs, in thousandths; None: each takes a whole node."""
    _known: "dict[tuple[bytes, int], IntArray]" = field(default_factory=dict, repr=False)
    """A cache of the run times of tasks on 1, 2, ... nodes, because the same ones are requested many times."""

    @classmethod
    def of(cls, workflow: Workflow, order: str = "longest", node: Amounts | None = None) -> "Work":
        """Return the work of a workflow, all of whose run times must be known.

        If the size of a `node` is given, tasks share nodes according to the cores and the memory that they request.
        """
        if not len(workflow):
            raise InputError(f'workflow "{workflow.name}" has no tasks')
        unknown = np.flatnonzero(np.isnan(workflow.seconds))
        if len(unknown):
            problem = unknown_run_times(workflow, unknown.tolist(), among=len(workflow))
            raise InputError(problem, hint="packing needs run times, which WfFormat and DAX files can contain")
        seconds = np.clip(np.ceil(workflow.seconds), 1, _LONGEST).astype(np.int64)
        shares = None if node is None else _shares(workflow, node)
        return cls(workflow.graph, seconds, _keys(workflow, seconds, order), shares)

    def everything(self) -> "Remaining":
        """Return all tasks as remaining."""
        return Remaining(self, np.ones(self.graph.size, np.bool_))

    def taking(self, seconds: IntArray) -> "Work":
        """Return the same work with other run times, tasks in the same order."""
        return Work(self.graph, seconds, self.key, self.shares)

    def run_times(self, tasks: IntArray, most: int) -> IntArray:
        """Return how long these tasks take on 1, 2, ... nodes; everything they depend on outside is done."""
        key = (tasks.tobytes(), most)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = np.empty(most, np.int64)
            kernel = self._kernel(run_times if self.shares is None else shared_run_times)
            kernel(*self._rows(tasks), *self._needs(tasks), found)
        return found

    def ends(self, tasks: IntArray, nodes: int, ready: IntArray) -> IntArray:
        """Return when each of these tasks ends on a number of nodes, counted from 0, if it can start at `ready`."""
        found = np.empty(len(tasks), np.int64)
        kernel = self._kernel(schedule if self.shares is None else shared_schedule)
        kernel(*self._rows(tasks), *self._needs(tasks), nodes, ready, found)
        return found

    def use(self, tasks: IntArray) -> int:
        """Return for how many node-seconds these tasks keep nodes busy; shared nodes by their scarcer resource."""
        seconds = self.seconds[tasks]
        if self.shares is None:
            return int(seconds.sum())
        return max(int(seconds @ share[tasks]) // WHOLE for share in self.shares)

    def _needs(self, tasks: IntArray) -> tuple[IntArray, ...]:
        return () if self.shares is None else tuple(share[tasks] for share in self.shares)

    def _rows(self, tasks: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Return the dependencies among some tasks, their run times and keys, numbered among themselves."""
        number = np.full(self.graph.size, -1, np.int64)
        number[tasks] = np.arange(len(tasks))
        counts = self.graph.outdegree[tasks]
        ends = np.cumsum(counts)
        place = np.arange(int(counts.sum())) + np.repeat(self.graph.child_start[tasks] - ends + counts, counts)
        child = number[self.graph.child[place]]
        inside = child >= 0
        start = np.append(0, np.cumsum(inside))[np.append(0, ends)]
        return (
            start,
            child[inside],
            self.seconds[tasks],
            self.key[tasks],
            np.bincount(child[inside], minlength=len(tasks)),
        )

    def _kernel(self, function: Callable[..., None]) -> Callable[..., None]:
        return compiled(function, self.graph.size * _EFFORT)


def actual_times(work: Work, variation: float, *, seed: int) -> IntArray:
    """Draw how long tasks might really take: log-normal around the expected run times, with this variation."""
    if not variation:
        return work.seconds
    spread = np.sqrt(np.log1p(variation**2))
    drawn = np.random.default_rng(seed).lognormal(-(spread**2) / 2, spread, len(work.seconds))
    return np.maximum(np.ceil(work.seconds * drawn), 1).astype(np.int64)


def _shares(workflow: Workflow, node: Amounts) -> tuple[IntArray, IntArray]:
    """Return what each task needs of a node: what it requests, or all of a resource that it does not request."""
    return _share(workflow, "cores", node.cores), _share(workflow, "memory", node.memory)


def _share(workflow: Workflow, resource: str, capacity: float | None) -> IntArray:
    if capacity is None:
        return np.zeros(len(workflow), np.int64)
    found = np.full(len(workflow), WHOLE, np.int64)
    for place, task in enumerate(workflow.tasks):
        asked = getattr(task.request, resource)
        if asked is None:
            continue
        if asked > capacity:
            problem = f'task "{task.name}" requests {Resource(resource).format_amount(asked)} of {resource}'
            raise InputError(f"{problem}, but a node has {Resource(resource).format_amount(capacity)}")
        found[place] = ceil(WHOLE * asked / capacity)
    return found


def unknown_run_times(workflow: Workflow, tasks: Sequence[int], *, among: int | None = None) -> str:
    """Return the message that the run times of these tasks, out of `among`, are unknown; it names the first."""
    count = f"{len(tasks):,}" if among is None else f"{len(tasks):,} of {among:,}"
    return f'the run times of {count} tasks are unknown (first: "{workflow.tasks[tasks[0]].name}")'


def _keys(workflow: Workflow, seconds: IntArray, order: str) -> IntArray:
    if order == "shortest":
        return seconds
    if order == "longest":
        return -seconds
    if order == "rank":
        from tonnage.rank import rank
        from tonnage.rank.eligible import positions

        return positions(rank(workflow))
    raise InputError(f'"{order}" is not an order', hint=f"one of {', '.join(ORDERS)}")


@dataclass(frozen=True, eq=False)
class Remaining:
    """The tasks that are neither done nor in a batch job; levels count from the first that has any."""

    work: Work
    mask: NDArray[np.bool_]

    @cached_property
    def levels(self) -> IntArray:
        """The workflow's levels that have remaining tasks."""
        return np.unique(self.work.graph.level[self.mask]).astype(np.int64)

    @property
    def last(self) -> int:
        """The number of the last level."""
        return len(self.levels) - 1

    def tasks(self, first: int, last: int) -> IntArray:
        """Return the remaining tasks of the levels from `first` to `last`."""
        level = self.work.graph.level
        inside = (level >= self.levels[first]) & (level <= self.levels[last])
        return np.flatnonzero(self.mask & inside)

    def width(self, first: int, last: int) -> int:
        """Return the number of tasks in the widest of these levels."""
        return int(np.bincount(self.work.graph.level[self.tasks(first, last)]).max())

    def load(self, first: int, last: int) -> tuple[int, int]:
        """Return the number of tasks in these levels, and for how many node-seconds they keep nodes busy."""
        tasks = self.tasks(first, last)
        return len(tasks), self.work.use(tasks)

    def run_times(self, first: int, last: int, nodes: int) -> IntArray:
        """Return how long these levels take on 1, 2, ... nodes, up to the number of nodes and the levels' width."""
        return self.work.run_times(self.tasks(first, last), min(self.width(first, last), nodes))
