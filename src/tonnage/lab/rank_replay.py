"""Compare ranking methods on the stochastic grid, with the statistics of the PRIO paper (its section 4.2)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.rank.eligible import Order
from tonnage.rank.grid import Grid, Measures, simulate
from tonnage.workflow import Graph

__all__ = ["Comparison", "Ratio", "compare", "ratio"]

FloatArray: TypeAlias = NDArray[np.float64]
Mapper: TypeAlias = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]

_CHUNK = 10  # samples simulated at once: small enough to spread over the cores, large enough to be worth it


@dataclass(frozen=True, slots=True)
class Ratio:
    """How one method's mean compares with another's.

    95 % of the ratios of all pairs of samples lie between `low` and `high`, as in the paper: this is the spread of the
    ratios, which does not shrink with the number of samples. All are None if a sample of the other method is 0.
    """

    median: float | None
    low: float | None
    high: float | None
    mean: float | None
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method compared with a baseline, at one point of the grid."""

    grid: Grid
    method: str
    baseline: str
    execution_time: Ratio
    stalling: Ratio
    utilisation: Ratio


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """Some samples of one method: a unit of work for one process."""

    graph: Graph
    order: Order | None
    grid: Grid
    samples: int
    runs: int
    seed: int


def compare(
    graph: Graph,
    orders: Mapping[str, Order | None],
    grid: Grid,
    *,
    baseline: str,
    samples: int = 300,
    runs: int = 300,
    seed: int = 0,
    mapper: Mapper = map,
) -> list[Comparison]:
    """Compare each method with the baseline by `samples` means of `runs` runs each.

    An order of None means first in, first out as tasks become eligible. `mapper` can spread the work over processes.
    """
    if baseline not in orders:
        raise InputError(f'the baseline "{baseline}" is not among the methods', hint=f"one of {', '.join(orders)}")
    if min(samples, runs) < 1:
        raise InputError("there must be at least one sample and one run")
    chunks = range(0, samples, _CHUNK)
    jobs = [
        _Job(graph, order, grid, min(_CHUNK, samples - begin), runs, _seed(seed, name, begin))
        for name, order in orders.items()
        for begin in chunks
    ]
    found = list(mapper(_sampled, jobs))
    tables = {
        name: np.concatenate(found[number * len(chunks) : (number + 1) * len(chunks)])
        for number, name in enumerate(orders)
    }
    return [
        Comparison(
            grid, name, baseline, *(ratio(tables[name][:, place], tables[baseline][:, place]) for place in range(3))
        )
        for name in orders
        if name != baseline
    ]


def _seed(seed: int, method: str, chunk: int) -> int:
    """Return a separate seed for each part of the work, so that the results do not depend on how it is spread."""
    return int(np.random.SeedSequence([seed, *method.encode(), chunk]).generate_state(1, np.uint64)[0])


def _sampled(job: _Job) -> FloatArray:
    """Return the means of each sample: execution time, stalling, utilisation."""
    found: Measures = simulate(job.graph, job.order, job.grid, runs=job.samples * job.runs, seed=job.seed)
    columns = (found.seconds, found.stalling, found.utilisation)
    return np.stack([column.reshape(job.samples, job.runs).mean(axis=1) for column in columns], axis=1)


def ratio(ours: Sequence[float] | FloatArray, theirs: Sequence[float] | FloatArray) -> Ratio:
    """Return the statistics of the ratios of all pairs of samples."""
    first, second = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if (second == 0).any():
        return Ratio(None, None, None, None, None)
    pairs = np.sort((first[:, None] / second[None, :]).ravel())
    dropped = int(0.025 * len(pairs))
    kept = pairs[dropped : len(pairs) - dropped]
    return Ratio(float(np.median(pairs)), float(kept[0]), float(kept[-1]), float(pairs.mean()), float(pairs.std()))
