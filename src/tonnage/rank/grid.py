"""The stochastic grid of the PRIO paper (its section 4): workers arrive in batches, and each asks for one task.

Batches arrive at random times and have random sizes; a request that finds no eligible task is dropped. Run times are
nearly equal. Three things are measured in a run: how long it takes, how often a batch finds nothing to do although
tasks remain, and how many of the requests are satisfied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jit import compiled
from tonnage.rank.eligible import Order, positions
from tonnage.workflow import Graph

__all__ = ["Grid", "Measures", "simulate"]

FloatArray: TypeAlias = NDArray[np.float64]

_SPREAD = 0.1
"""The standard deviation of a run time whose mean is 1."""
_FEWEST = 0.1  # with fewer, hardly any batch has a worker, and a run takes for ever
_SHORTEST = 1e-6  # with less, a run consists only of arrivals
_ABSURD = 1e9
_EVENTS = 20
"""A task of a run takes about as long as this many in other kernels."""


@dataclass(frozen=True, slots=True)
class Grid:
    """How workers arrive; the unit of time is the mean run time of a task."""

    between: float
    """The mean time between two batches."""
    batch: float
    """The mean number of workers in a batch."""

    def __post_init__(self) -> None:
        if not _SHORTEST <= self.between <= _ABSURD:
            raise InputError(
                f"the mean time between batches must be {_SHORTEST:g} to {_ABSURD:g}, not {self.between:g}"
            )
        if not _FEWEST <= self.batch <= _ABSURD:
            raise InputError(f"the mean size of a batch must be {_FEWEST:g} to {_ABSURD:g} workers, not {self.batch:g}")


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """The measurements of some runs, one number per run."""

    seconds: FloatArray
    """How long the run took."""
    stalling: FloatArray
    """The fraction of batches that found nothing to do."""
    utilisation: FloatArray
    """The fraction of requests that were satisfied."""


def simulate(
    graph: Graph, order: Order | None, grid: Grid, *, runs: int, seed: int, weights: FloatArray | None = None
) -> Measures:
    """Run a workflow `runs` times; without an order, tasks run first in, first out as they become eligible.

    Each task takes about one unit of time, or about as many as its weight.
    """
    found = Measures(np.zeros(runs), np.zeros(runs), np.zeros(runs))
    if graph.size:
        rank = np.zeros(graph.size, np.int64) if order is None else positions(order)
        kernel: Callable[..., None] = compiled(_simulate, graph.size * runs * _EVENTS)
        lengths = np.ones(graph.size) if weights is None else weights
        rows = (graph.child_start, graph.child, graph.indegree, rank, lengths, order is None, grid.between, grid.batch)
        rng = np.random.Generator(np.random.PCG64(seed))
        kernel(*rows, rng, found.seconds, found.stalling, found.utilisation)
    return found


def _simulate(  # noqa: PLR0912, PLR0915 (a kernel is one function)
    child_start: NDArray[np.int64],
    child: NDArray[np.int32],
    parents: NDArray[np.int64],
    rank: NDArray[np.int64],
    lengths: FloatArray,
    fifo: bool,
    between: float,
    batch: float,
    rng: np.random.Generator,
    seconds: FloatArray,
    stalling: FloatArray,
    utilisation: FloatArray,
) -> None:
    size = len(parents)
    eligible = np.empty(size, np.int64)

    def add(task: int, place: int) -> None:
        """Append a task to the queue, or insert it into the heap of `place` tasks."""
        if not fifo:
            while place > 0 and rank[eligible[(place - 1) // 2]] > rank[task]:
                eligible[place] = eligible[(place - 1) // 2]
                place = (place - 1) // 2
        eligible[place] = task

    times, running = np.empty(size), np.empty(size, np.int64)
    for run in range(len(seconds)):
        waiting = parents.copy()
        head, tail = 0, 0  # FIFO: a queue; else a heap by rank, with its size in `tail`
        busy = 0  # `times` and `running` are a heap of what runs, by its end
        assigned, now, end = 0, 0.0, 0.0
        batches, empty, requests = 0, 0, 0
        for task in range(size):
            if waiting[task] == 0:
                add(task, tail)
                tail += 1
        while assigned < size:
            # Tasks that end before or when the batch arrives are done.
            while busy > 0 and times[0] <= now:
                task = running[0]
                end = max(end, times[0])
                busy -= 1
                last_time, last_task = times[busy], running[busy]
                place = 0
                while 2 * place + 1 < busy:
                    below = 2 * place + 1
                    if below + 1 < busy and times[below + 1] < times[below]:
                        below += 1
                    if times[below] >= last_time:
                        break
                    times[place], running[place] = times[below], running[below]
                    place = below
                times[place], running[place] = last_time, last_task
                for edge in range(child_start[task], child_start[task + 1]):
                    after = child[edge]
                    waiting[after] -= 1
                    if waiting[after] == 0:
                        add(after, tail)
                        tail += 1
            workers = int(np.rint(rng.exponential(batch)))
            batches += 1
            requests += workers
            if tail == head:
                empty += 1
            for _ in range(min(workers, tail - head)):
                task = eligible[head]
                if fifo:
                    head += 1
                else:
                    tail -= 1
                    last_task = eligible[tail]
                    place = 0
                    while 2 * place + 1 < tail:
                        below = 2 * place + 1
                        if below + 1 < tail and rank[eligible[below + 1]] < rank[eligible[below]]:
                            below += 1
                        if rank[eligible[below]] >= rank[last_task]:
                            break
                        eligible[place] = eligible[below]
                        place = below
                    eligible[place] = last_task
                until = now + lengths[task] * max(0.0, rng.normal(1.0, _SPREAD))
                place = busy
                busy += 1
                while place > 0 and times[(place - 1) // 2] > until:
                    times[place], running[place] = times[(place - 1) // 2], running[(place - 1) // 2]
                    place = (place - 1) // 2
                times[place], running[place] = until, task
                assigned += 1
            now += rng.exponential(between)
        for place in range(busy):
            end = max(end, times[place])
        seconds[run] = end
        stalling[run] = empty / batches
        utilisation[run] = size / requests if requests else 0.0
