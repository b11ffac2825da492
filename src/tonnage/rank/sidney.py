"""Sidney's decomposition: the densest initial sets of a workflow, and an upper bound for all orders.

Keeping most tasks eligible is scheduling for the least weighted completion time: each task that waits for others
becomes eligible when a job of length 0 and weight 1 that follows all its parents is done (Sidney 1975). Hence some best
order first runs the *densest* initial set of the workflow: the set of tasks, closed under dependencies, that makes most
others eligible per task in it; then the densest of the remaining tasks, and so on. No initial set of k tasks makes more
tasks eligible than the blocks up to k do if each block spreads its gain evenly: that bounds all orders.

Whether an initial set is denser than the whole is a minimum-cut problem. A cut splits a set in two, which are then
examined separately, as are parts that are not connected.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jit import compiled
from tonnage.rank.eligible import Order
from tonnage.rank.orders import gain_within
from tonnage.rank.prio import prio
from tonnage.workflow import Graph

__all__ = ["MOST_TASKS", "Blocks", "blocks", "bound", "sidney", "sidney_gain"]

MOST_TASKS = 50_000
"""The most tasks that can be connected: a minimum cut among more takes too long."""

_Ints: TypeAlias = NDArray[np.int64]
_LONG, _SHORT = 20_000_000_000, 300_000_000
"""The most steps that the cuts can take for an order (minutes), and for a bound alone (seconds)."""
_FLOW = 10
"""A task of a flow takes about as long as this many in other kernels."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The tasks of a workflow in blocks, the densest first."""

    block: _Ints
    """The block of each task."""
    tasks: _Ints
    """The number of tasks in each block."""
    eligible: _Ints
    """How many tasks each block makes eligible."""
    sources: int
    """How many tasks are eligible from the start."""

    def most_eligible(self) -> _Ints:
        """Return the most tasks that can be eligible after 0, 1, ... steps, in any order."""
        reached = np.zeros(1, np.int64)
        for size, made in zip(self.tasks.tolist(), self.eligible.tolist(), strict=True):
            reached = np.concatenate((reached, reached[-1] + np.arange(1, size + 1) * made // size))
        return self.sources + reached - np.arange(len(reached))

    def bound(self) -> float:
        """Return an upper bound on the mean number of eligible tasks before each step, for any order."""
        return float(self.most_eligible()[:-1].mean()) if len(self.block) else 0.0


def sidney(graph: Graph, found: Blocks | None = None) -> Order:
    """Order tasks by blocks, the densest first; inside a block, as PRIO does."""
    order = prio(graph)
    return order[np.argsort((found or blocks(graph)).block[order], kind="stable")]


def sidney_gain(graph: Graph, found: Blocks | None = None) -> Order:
    """Order tasks by blocks, the densest first; inside a block, the task with the largest immediate gain first."""
    return gain_within(graph, (found or blocks(graph)).block)


def bound(graph: Graph) -> float | None:
    """Return an upper bound on the mean number of eligible tasks for any order; None if that takes too long."""
    try:
        return blocks(graph, effort=_SHORT).bound()
    except InputError:
        return None


def blocks(graph: Graph, *, effort: int = _LONG) -> Blocks:
    """Return the blocks of a workflow; raise InputError if too many tasks are connected or it takes too long."""
    steps = np.array([effort])
    found = sorted(_blocks(_whole(graph.reduced()), steps), key=lambda one: -one.density)
    block = np.zeros(graph.size, np.int64)
    counts: dict[Fraction, tuple[int, int]] = {}
    for one in found:
        tasks, made = counts.get(one.density, (0, 0))
        counts[one.density] = tasks + len(one.tasks), made + one.made
        block[one.tasks] = len(counts) - 1
    tasks_made = np.array(list(counts.values()), np.int64).reshape(-1, 2)
    return Blocks(block, tasks_made[:, 0], tasks_made[:, 1], int((graph.indegree == 0).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some tasks, and the goals that they reach: a goal is that another task becomes eligible.

    Tasks and goals are numbered within the part. A goal needs tasks, and a task needs its own goal: to be eligible.
    """

    tasks: _Ints
    """The numbers of the tasks outside the part."""
    start: _Ints
    needed: _Ints
    """The tasks that each goal needs, from where it starts."""
    goal_of: _Ints
    """For each task the goal that makes it eligible; -1 if it is eligible from the start."""

    @property
    def goals(self) -> int:
        return len(self.start) - 1

    @property
    def density(self) -> Fraction:
        return Fraction(self.goals, len(self.tasks))

    def picked(self, tasks: _Ints, goals: _Ints) -> "_Part":
        """Return the part of some tasks and goals; anything else that a goal needs counts as done."""
        counts = np.diff(self.start)[goals]
        ends = np.cumsum(counts)
        needed = self.needed[np.arange(int(counts.sum())) + np.repeat(self.start[goals] - ends + counts, counts)]
        number = _numbers(needed, tasks)
        kept = number >= 0
        start = np.append(0, np.cumsum(kept))[np.append(0, ends)]
        return _Part(self.tasks[tasks], start, number[kept], _numbers(self.goal_of[tasks], goals))

    def same(self) -> bytes:
        """Return a key that is equal for parts of the same structure."""
        return b"".join(array.tobytes() for array in (self.start[-1:], self.start, self.needed, self.goal_of))


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    density: Fraction
    tasks: _Ints
    made: int


def _numbers(values: _Ints, among: _Ints) -> _Ints:
    """Return the position of each value in a sorted list, -1 if it is not there."""
    if not len(among):
        return np.full(len(values), -1, np.int64)
    place = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.where(among[place] == values, place, -1)


def _whole(graph: Graph) -> _Part:
    waits = graph.indegree > 0
    start = np.append(graph.parent_start[:-1][waits], graph.edges)
    goal_of = np.where(waits, np.cumsum(waits) - 1, -1)
    return _Part(np.arange(graph.size), start, graph.parent.astype(np.int64), goal_of)


def _blocks(whole: _Part, steps: _Ints) -> Iterator[_Block]:
    """Yield the blocks of a workflow; equally dense ones come in an order that respects their dependencies.

    `steps` holds the number of steps remaining for cuts.
    """
    known: dict[bytes, list[_Block]] = {}
    size = len(whole.tasks)
    for part in _connected(whole, size):
        if len(part.tasks) > MOST_TASKS:
            problem = f"{len(part.tasks):,} tasks are connected; a Sidney decomposition can handle {MOST_TASKS:,}"
            raise InputError(problem, hint="use prio, which has no such limit")
        key = part.same()
        if key not in known:
            known[key] = [
                _Block(one.density, np.searchsorted(part.tasks, one.tasks), one.made)
                for one in _split(part, size, steps)
            ]
        yield from (_Block(one.density, part.tasks[one.tasks], one.made) for one in known[key])


def _split(part: _Part, size: int, steps: _Ints) -> Iterator[_Block]:
    """Yield the blocks of a part, a denser one before those that wait for it."""
    left = [part]
    while left:
        one = left.pop()
        dense = _denser(one, size, steps)
        if dense is None:
            yield _Block(one.density, one.tasks, one.goals)
            continue
        for is_in in (False, True):  # the last one added is processed first
            tasks, goals = (np.flatnonzero(mask == is_in) for mask in dense)
            left += _connected(one.picked(tasks, goals), size)


def _connected(part: _Part, size: int) -> Iterator[_Part]:
    """Yield the connected parts; all tasks that reach no goal form one."""
    label = np.arange(len(part.tasks))
    compiled(_join, size)(part.start, part.needed, part.goal_of, label)
    if not label.any() and len(label):
        yield part
        return
    goal_label = label[part.needed[part.start[:-1]]]
    useless = np.ones(len(label), np.bool_)
    useless[goal_label] = False
    label[useless[label]] = -1
    order, goal_order = np.argsort(label, kind="stable"), np.argsort(goal_label, kind="stable")
    labels, begin = np.unique(label[order], return_index=True)
    goal_begin = np.searchsorted(goal_label[goal_order], [*labels, len(label)])
    if len(labels) == 1:
        yield part
        return
    ends = np.append(begin[1:], len(label))
    for number in range(len(labels)):
        tasks = order[begin[number] : ends[number]]
        goals = goal_order[goal_begin[number] : goal_begin[number + 1]]
        yield part.picked(tasks, goals)


def _denser(part: _Part, size: int, steps: _Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Return the tasks and goals of an initial set that is denser than the part, or None if there is none."""
    if len(part.tasks) == 1 or not part.goals:
        return None
    tasks, goals = np.zeros(len(part.tasks), np.bool_), np.zeros(part.goals, np.bool_)
    found = compiled(_cut, size * _FLOW)(part.start, part.needed, part.goal_of, tasks, goals, steps)
    if steps[0] < 0:
        raise InputError("the Sidney decomposition of this workflow takes too long", hint="use prio instead")
    return (tasks, goals) if found else None


def _join(start: _Ints, needed: _Ints, goal_of: _Ints, label: _Ints) -> None:
    """Label all tasks that are connected by goals with the number of the first of them."""
    for goal in range(len(start) - 1):
        first = -1
        for place in range(start[goal], start[goal + 1]):
            one = needed[place]
            while label[one] != one:
                label[one] = label[label[one]]
                one = label[one]
            if first == -1:
                first = one
            elif first < one:
                label[one] = first
            else:
                label[first] = one
                first = one
    for task in range(len(label)):
        if goal_of[task] >= 0:
            one, first = task, needed[start[goal_of[task]]]
            while label[one] != one:
                one = label[one]
            while label[first] != first:
                first = label[first]
            label[max(one, first)] = min(one, first)
    for task in range(len(label)):
        one = label[task]
        while label[one] != one:
            one = label[one]
        label[task] = one


def _cut(  # noqa: PLR0912, PLR0915 (a kernel is one function)
    start: _Ints,
    needed: _Ints,
    goal_of: _Ints,
    in_tasks: NDArray[np.bool_],
    in_goals: NDArray[np.bool_],
    steps: _Ints,
) -> bool:
    """Mark the tasks and goals of the initial set that is denser than the whole by most; return whether there is one.

    This is a minimum cut. The supply of each goal is the number of tasks; it is pushed to the tasks that the goal
    needs, or through them to what they need. The capacity of each task is the number of goals. Goals that cannot push
    all of their supply are denser than the whole, together with everything that the excess can reach. (Push-relabel,
    Goldberg and Tarjan 1988: flow is pushed downhill, and nodes with stuck excess are lifted; from time to time all
    heights are set to the true distances.) Stops when no steps remain.
    """
    tasks, goals = len(goal_of), len(start) - 1
    nodes, far = tasks + goals, tasks + goals + 1  # tasks are nodes 0 to tasks - 1, goals follow
    # Arcs 2k and 2k + 1 are the two directions of an edge: from a goal to a task it needs, or a task to its own goal.
    head, space = np.empty(2 * (len(needed) + tasks), np.int64), np.zeros(2 * (len(needed) + tasks), np.int64)
    arcs = 0
    for goal in range(goals):
        for place in range(start[goal], start[goal + 1]):
            head[arcs], head[arcs + 1] = needed[place], tasks + goal
            arcs += 2
    for task in range(tasks):
        if goal_of[task] >= 0:
            head[arcs], head[arcs + 1] = tasks + goal_of[task], task
            arcs += 2
    first = np.zeros(nodes + 1, np.int64)
    for arc in range(arcs):
        space[arc] = tasks * goals if arc % 2 == 0 else 0
        first[head[arc ^ 1] + 1] += 1
    for node in range(nodes):
        first[node + 1] += first[node]
    out, fill = np.empty(arcs, np.int64), first[:-1].copy()
    for arc in range(arcs):
        node = head[arc ^ 1]
        out[fill[node]] = arc
        fill[node] += 1
    room, excess = np.full(tasks, goals, np.int64), np.zeros(nodes, np.int64)
    excess[tasks:] = tasks
    height, at = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    queue, queued = np.empty(nodes, np.int64), np.zeros(nodes, np.bool_)
    ring = np.empty(nodes, np.int64)
    lifted = nodes  # so that the heights are set in the first pass
    begin, active = 0, 0
    for node in range(tasks, nodes):
        ring[active], queued[node] = node, True
        active += 1
    while True:
        if lifted >= nodes or active == 0:
            # Set the true distances from the tasks that can take more.
            height[:], at[:] = far, first[:-1]
            tail = 0
            for task in range(tasks):
                if room[task] > 0:
                    height[task], queue[tail] = 1, task
                    tail += 1
            place = 0
            while place < tail:
                node = queue[place]
                place += 1
                for way in range(first[node], first[node + 1]):
                    other = head[out[way]]
                    if height[other] == far and space[out[way] ^ 1] > 0:
                        height[other], queue[tail] = height[node] + 1, other
                        tail += 1
            if active == 0:
                break
            lifted = 0
            steps[0] -= nodes + arcs
            if steps[0] < 0:
                return False
        node = ring[begin]
        begin, active = (begin + 1) % nodes, active - 1
        queued[node] = False
        while excess[node] > 0 and height[node] < far:
            if node < tasks and room[node] > 0:
                amount = min(excess[node], room[node])
                excess[node], room[node] = excess[node] - amount, room[node] - amount
                continue
            if at[node] == first[node + 1]:
                lowest = far
                for way in range(first[node], first[node + 1]):
                    if space[out[way]] > 0:
                        lowest = min(lowest, height[head[out[way]]] + 1)
                height[node], at[node] = lowest, first[node]
                lifted += 1
                steps[0] -= first[node + 1] - first[node]
                continue
            arc = out[at[node]]
            other = head[arc]
            steps[0] -= 1
            if space[arc] == 0 or height[node] != height[other] + 1:
                at[node] += 1
                continue
            amount = min(excess[node], space[arc])
            space[arc], space[arc ^ 1] = space[arc] - amount, space[arc ^ 1] + amount
            excess[node], excess[other] = excess[node] - amount, excess[other] + amount
            if not queued[other]:
                ring[(begin + active) % nodes], queued[other] = other, True
                active += 1
    for task in range(tasks):
        in_tasks[task] = height[task] == far
    for goal in range(goals):
        in_goals[goal] = height[tasks + goal] == far
    return bool(excess.sum() > 0)
