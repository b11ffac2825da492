"""List scheduling: whenever a node is free, the first of the tasks that could start takes it.

The kernels take the dependencies among some tasks (where each one's children start, and all children), run times, keys,
and the number of parents that each task waits for.
"""

from typing import Any, TypeAlias

import numpy as np

__all__ = ["WHOLE", "run_times", "schedule", "shared_run_times", "shared_schedule"]

Ints: TypeAlias = Any
"""An array of int64."""

WHOLE = 1000
"""The cores and the memory of a node; what a task needs is a fraction of this."""


def run_times(child_start: Ints, child: Ints, seconds: Ints, key: Ints, parents: Ints, found: Ints) -> None:
    """Fill `found` with how long all tasks take on 1, 2, ... nodes."""
    size = len(seconds)
    ready, ends = np.zeros(size, np.int64), np.empty(size, np.int64)
    for place in range(len(found)):
        schedule(child_start, child, seconds, key, parents, place + 1, ready, ends)
        found[place] = ends.max()


def schedule(
    child_start: Ints, child: Ints, seconds: Ints, key: Ints, parents: Ints, nodes: int, ready: Ints, ends: Ints
) -> None:
    """Fill `ends` with when each task ends; none starts before its time in `ready`."""
    size = len(seconds)
    waiting, since = parents.copy(), ready.copy()
    # Heaps of tasks: those that could start, by key; those to come, by time; those that run, by their end.
    could, coming, running = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    could_size, coming_size, running_size = 0, 0, 0
    for task in range(size):
        if waiting[task] == 0:
            coming_size = _push(coming, coming_size, task, since)
    now = np.int64(0)
    while coming_size + could_size + running_size > 0:
        while running_size > 0 and ends[running[0]] <= now:
            done = running[0]
            running_size = _pop(running, running_size, ends)
            for edge in range(child_start[done], child_start[done + 1]):
                after = child[edge]
                waiting[after] -= 1
                since[after] = max(since[after], now)
                if waiting[after] == 0:
                    coming_size = _push(coming, coming_size, after, since)
        while coming_size > 0 and since[coming[0]] <= now:
            task = coming[0]
            coming_size = _pop(coming, coming_size, since)
            could_size = _push(could, could_size, task, key)
        while could_size > 0 and running_size < nodes:
            task = could[0]
            could_size = _pop(could, could_size, key)
            ends[task] = now + seconds[task]
            running_size = _push(running, running_size, task, ends)
        if running_size > 0 and (coming_size == 0 or running_size == nodes or ends[running[0]] <= since[coming[0]]):
            now = ends[running[0]]
        elif coming_size > 0:
            now = max(now, since[coming[0]])


def shared_run_times(
    child_start: Ints, child: Ints, seconds: Ints, key: Ints, parents: Ints, cores: Ints, memory: Ints, found: Ints
) -> None:
    """Fill `found` with how long all tasks take on 1, 2, ... nodes that tasks can share."""
    size = len(seconds)
    ready, ends = np.zeros(size, np.int64), np.empty(size, np.int64)
    for place in range(len(found)):
        shared_schedule(child_start, child, seconds, key, parents, cores, memory, place + 1, ready, ends)
        found[place] = ends.max()


def shared_schedule(  # noqa: PLR0912 (a kernel is one function)
    child_start: Ints,
    child: Ints,
    seconds: Ints,
    key: Ints,
    parents: Ints,
    cores: Ints,
    memory: Ints,
    nodes: int,
    ready: Ints,
    ends: Ints,
) -> None:
    """Fill `ends` with when each task ends on nodes that tasks share: a node has WHOLE of cores and of memory.

    A task goes to the first node where it fits; one that fits nowhere lets others pass.
    """
    size = len(seconds)
    waiting, since, place_of = parents.copy(), ready.copy(), np.empty(size, np.int64)
    could, coming, running = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    passed = np.empty(size, np.int64)
    could_size, coming_size, running_size = 0, 0, 0
    free_cores, free_memory = np.full(nodes, WHOLE, np.int64), np.full(nodes, WHOLE, np.int64)
    for task in range(size):
        if waiting[task] == 0:
            coming_size = _push(coming, coming_size, task, since)
    now = np.int64(0)
    while coming_size + could_size + running_size > 0:
        while running_size > 0 and ends[running[0]] <= now:
            done = running[0]
            running_size = _pop(running, running_size, ends)
            free_cores[place_of[done]] += cores[done]
            free_memory[place_of[done]] += memory[done]
            for edge in range(child_start[done], child_start[done + 1]):
                after = child[edge]
                waiting[after] -= 1
                since[after] = max(since[after], now)
                if waiting[after] == 0:
                    coming_size = _push(coming, coming_size, after, since)
        while coming_size > 0 and since[coming[0]] <= now:
            task = coming[0]
            coming_size = _pop(coming, coming_size, since)
            could_size = _push(could, could_size, task, key)
        held, least_cores, least_memory = 0, WHOLE + 1, WHOLE + 1
        while could_size > 0:
            task = could[0]
            could_size = _pop(could, could_size, key)
            node = -1
            # A task that needs at least as much as one that did not fit does not fit either.
            if cores[task] < least_cores or memory[task] < least_memory:
                for one in range(nodes):
                    if free_cores[one] >= cores[task] and free_memory[one] >= memory[task]:
                        node = one
                        break
            if node < 0:
                if cores[task] <= least_cores and memory[task] <= least_memory:
                    least_cores, least_memory = cores[task], memory[task]
                passed[held] = task
                held += 1
                continue
            free_cores[node] -= cores[task]
            free_memory[node] -= memory[task]
            place_of[task], ends[task] = node, now + seconds[task]
            running_size = _push(running, running_size, task, ends)
        for place in range(held):
            could_size = _push(could, could_size, passed[place], key)
        if running_size > 0 and (coming_size == 0 or ends[running[0]] <= since[coming[0]]):
            now = ends[running[0]]
        elif coming_size > 0:
            now = max(now, since[coming[0]])


def _before(one: int, other: int, keys: Ints) -> bool:
    return bool(keys[one] < keys[other] or (keys[one] == keys[other] and one < other))


def _push(heap: Ints, size: int, task: int, keys: Ints) -> int:
    """Add a task to a heap of `size` tasks; return the new size."""
    place = size
    while place > 0 and _before(task, heap[(place - 1) // 2], keys):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = task
    return size + 1


def _pop(heap: Ints, size: int, keys: Ints) -> int:
    """Remove the first task from a heap of `size` tasks; return the new size."""
    last = heap[size - 1]
    size -= 1
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and _before(heap[below + 1], heap[below], keys):
            below += 1
        if not _before(heap[below], last, keys):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = last
    return size
