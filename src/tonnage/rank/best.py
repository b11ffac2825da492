"""Choose the best of several orders by simulating the given workflow.

No method is best on every workflow. Therefore several orders are simulated on the stochastic grid, with as many workers
as the workflow can use, a quarter of them, and four times as many. Among the orders that keep at least as many tasks
eligible as PRIO and first in, first out, the one that finishes soonest is chosen; if the runs cannot tell several
apart, the one that keeps most tasks eligible. It is then simulated again with other random numbers, because the winner
of a contest looks better than it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.rank.eligible import Order, mean_eligible
from tonnage.rank.grid import Grid, simulate
from tonnage.rank.orders import critical_path, descendants, fifo, gain, longest_first, run_times
from tonnage.rank.prio import prio
from tonnage.rank.sidney import blocks, sidney, sidney_gain
from tonnage.workflow import Graph, Workflow

__all__ = ["Best", "Candidate", "Gain", "best"]

FloatArray: TypeAlias = NDArray[np.float64]

_WORKERS = (0.25, 1.0, 4.0)
"""Mean sizes of batches, relative to the number of tasks that the workflow can run at once on average."""
_TASKS = 10_000_000
"""How many tasks are simulated in total to choose: many runs of a small workflow, few of a large one, at least two."""
_RUNS = (2, 200)
_NEARLY = 0.99
_CHOOSING, _TESTING = 1, 2
"""The seeds for the choice, and for the reported gains."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """How an order did in the simulations for the choice."""

    method: str
    mean_eligible: float
    time: float
    """Its execution time relative to first in, first out: the mean over all numbers of workers."""
    allowed: bool
    """Whether it keeps enough tasks eligible to be chosen."""


@dataclass(frozen=True, slots=True)
class Gain:
    """How much sooner the chosen order ends than another, in runs that were not used for the choice."""

    rival: str
    ratio: float
    low: float
    high: float
    """The ratio of mean execution times, and its 95 % confidence interval."""


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The chosen order, and why it was chosen."""

    method: str
    order: Order
    bound: float | None
    """An upper bound on the mean number of eligible tasks for any order; None if it takes too long to compute."""
    candidates: tuple[Candidate, ...]
    gains: tuple[Gain, ...]
    runs: int
    """How often each order was simulated, with each number of workers."""


def best(workflow: Workflow) -> Best:
    """Return the order that does best in simulations of this workflow."""
    graph = workflow.graph
    orders, bound = _orders(workflow)
    contest = _Contest(workflow, len(orders))
    eligible = {name: mean_eligible(graph, order) for name, order in orders.items()}
    enough = _NEARLY * max(eligible["prio"], eligible["fifo"])
    played = {name: contest.play(order, name, _CHOOSING) for name, order in orders.items()}
    ratios = {name: _compared(name, times, played["fifo"]) for name, times in played.items()}
    allowed = [name for name in orders if eligible[name] >= enough]
    leader = min(allowed, key=lambda name: ratios[name].ratio)
    # Among those that the runs cannot tell apart, take the one that keeps most tasks eligible.
    equal = [name for name in allowed if name == leader or _compared(leader, played[name], played[leader]).low <= 1]
    chosen = max(equal, key=lambda name: eligible[name])
    candidates = tuple(Candidate(name, eligible[name], ratios[name].ratio, name in allowed) for name in orders)
    rivals = [name for name in ("fifo", "prio") if name != chosen]
    again = {name: contest.play(orders[name], name, _TESTING) for name in (chosen, *rivals)}
    gains = tuple(_compared(rival, again[chosen], again[rival]) for rival in rivals)
    return Best(chosen, orders[chosen], bound, candidates, gains, contest.runs)


def _orders(workflow: Workflow) -> tuple[Mapping[str, Order], float | None]:
    """Return all candidates by name, and the upper bound that comes with Sidney's decomposition."""
    graph = workflow.graph
    orders = {
        "prio": prio(graph),
        "fifo": fifo(graph),
        "critical-path": critical_path(graph, workflow.seconds),
        "descendants": descendants(graph),
        "gain": gain(graph),
    }
    seconds = workflow.seconds
    timed = not np.isnan(seconds).all()
    if timed:
        orders["prio+critical-path"] = longest_first(graph, seconds, prio)
        orders["descendants+critical-path"] = longest_first(graph, seconds, descendants)
    try:
        found = blocks(graph)
    except InputError:  # too large for minimum cuts
        return orders, None
    orders |= {"sidney": sidney(graph, found), "sidney+gain": sidney_gain(graph, found)}
    if timed:
        order = orders["prio+critical-path"]
        orders["sidney+critical-path"] = order[np.argsort(found.block[order], kind="stable")]
    return orders, found.bound()


class _Contest:
    """Simulates orders of one workflow on grids that suit it, with its run times if they are known."""

    def __init__(self, workflow: Workflow, orders: int) -> None:
        graph = workflow.graph
        self._graph: Graph = graph
        times = run_times(graph.size, workflow.seconds)
        self._weights = times / times.mean() if times.any() else np.ones(graph.size)
        longest = graph.longest_path(self._weights)[0]
        together = graph.size / longest if longest > 0 else 1.0
        self._grids = [Grid(1.0, max(1.0, part * together)) for part in _WORKERS]
        self.runs = int(np.clip(_TASKS / (max(graph.size, 1) * len(self._grids) * orders), *_RUNS))

    def play(self, order: Order, name: str, seed: int) -> list[FloatArray]:
        """Return how long each run took, for each number of workers."""
        played = None if name == "fifo" else order
        return [
            simulate(self._graph, played, grid, runs=self.runs, seed=seed, weights=self._weights).seconds
            for grid in self._grids
        ]


def _compared(rival: str, ours: list[FloatArray], theirs: list[FloatArray]) -> Gain:
    """Return the ratio of mean times, averaged over the numbers of workers."""
    logs = [
        np.log(one.mean() / other.mean()) if other.mean() > 0 else 0.0 for one, other in zip(ours, theirs, strict=True)
    ]
    errors = [_relative_error(one) ** 2 + _relative_error(other) ** 2 for one, other in zip(ours, theirs, strict=True)]
    middle, error = float(np.mean(logs)), float(np.sqrt(sum(errors))) / len(logs)
    low, high = middle - 1.96 * error, middle + 1.96 * error
    return Gain(rival, float(np.exp(middle)), float(np.exp(low)), float(np.exp(high)))


def _relative_error(times: FloatArray) -> float:
    """Return the standard error of a mean, relative to the mean."""
    mean = times.mean()
    return float(times.std(ddof=1) / mean / np.sqrt(len(times))) if mean > 0 else 0.0
