"""Strategies side by side on a recorded queue: the experiment of GLUME's paper (its section 7).

A workflow is submitted at many moments of a log, each time to the queue as it was then, once with each strategy. The
work is cut into chunks, one workflow and some moments each, and every one begins with an empty machine at the
beginning of the log: so it does not matter how the work is cut, nor which process does it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.batch import Cluster, Workload
from tonnage.errors import InputError
from tonnage.pack.decisions import Settings
from tonnage.pack.packers import PACKERS, simulate
from tonnage.pack.remaining import Work, actual_times
from tonnage.pack.trial import Trial, try_on
from tonnage.units import format_seconds

__all__ = [
    "WORTH",
    "Chunk",
    "Crossings",
    "Experiment",
    "Player",
    "Queue",
    "Result",
    "Score",
    "chunks",
    "results",
    "scores",
    "submission_times",
    "try_out",
]

Crossings: TypeAlias = NDArray[np.int64]
"""What became of a workflow: for each strategy and moment its makespan, its expired batch jobs, idle node-seconds."""

WORTH = 0.05
"""A difference of mean makespans that counts as a win or a loss in the paper."""
_CHUNK = 48  # moments at most: few enough for both cores to be busy, enough for schedules to be used again
_MOST = 1_000_000  # submissions, and days
_HOUR = 3600
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Experiment:
    """When workflows are submitted, to what kind of queue, and with which strategies."""

    times: tuple[int, ...]
    """Moments of the log's clock, ascending."""
    strategies: tuple[str, ...]
    caps: tuple[int | None, ...] = (16,)
    """How many batch jobs of a workflow may be in the system; each is an experiment of its own."""
    max_running: int | None = None
    requests: str = "accurate"
    policy: str = "conservative"
    contiguous: bool = False
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        unknown = [name for name in self.strategies if name not in PACKERS]
        if unknown or not self.strategies:
            raise InputError(f'"{", ".join(unknown)}" is no strategy', hint=f"one of {', '.join(PACKERS)}")

    def cluster(self, workload: Workload, cap: int | None) -> Cluster:
        """Return the machine at the beginning of the log."""
        return Cluster(
            workload.machine_nodes,
            workload,
            requests=self.requests,
            policy=self.policy,
            contiguous=self.contiguous,
            max_running=self.max_running,
            max_submitted=cap,
        )


class Chunk(NamedTuple):
    """A part of the work: one workflow at some of the moments, the first and the one behind the last."""

    workflow: str
    cap: int | None
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Result:
    """How a strategy did with one workflow."""

    workflow: str
    strategy: str
    cap: int | None
    submissions: int
    mean_makespan: float
    improvement: float
    """How much shorter the makespan is than the baseline's, as a part of it: the mean over submissions."""
    expired: int
    idle_hours: float
    """Node-hours that batch jobs held and did not use, on average."""


@dataclass(frozen=True, slots=True)
class Score:
    """How often a strategy is better than another, counted in workflows."""

    strategy: str
    rival: str
    cap: int | None
    improvements: tuple[float, ...]
    """For each workflow, the mean over submissions of what it gains on its rival."""

    def wins(self, beyond: float = WORTH) -> int:
        """Return with how many workflows it gains more than that."""
        return sum(one > beyond for one in self.improvements)

    def losses(self, beyond: float = WORTH) -> int:
        """Return with how many workflows it loses more than that."""
        return sum(one < -beyond for one in self.improvements)


def submission_times(workload: Workload, *, every: int, days: float, warmup: int, spread: bool) -> tuple[int, ...]:
    """Return a moment for each `every` seconds of some days, the first after a warm-up.

    With `spread`, as many moments lie evenly over the whole log, without a warm-up at either end.
    """
    if not len(workload):
        raise InputError("no job of the log can be used")
    if every < 1 or not 0 <= days <= _MOST or warmup < 0:
        raise InputError("submissions are at least a second apart, and neither days nor the warm-up are negative")
    count = int(days * _DAY) // every + 1
    if count > _MOST:
        raise InputError(f"{count:,} submissions are too many: at most {_MOST:,}")
    first, end = int(workload.submit[0]) + warmup, int(workload.submit[-1])
    last = end - warmup if spread else first + (count - 1) * every
    if not first <= last <= end:
        span = format_seconds(end - int(workload.submit[0]))
        hint = "ask for fewer --days or a shorter --warmup"
        raise InputError(f"the log is too short for these submissions: {span}", hint=hint)
    return tuple(np.linspace(first, last, count).astype(np.int64).tolist())


def chunks(names: Iterable[str], experiment: Experiment) -> list[Chunk]:
    """Return the parts of the work."""
    size = len(experiment.times)
    cuts = np.linspace(0, size, -(-size // _CHUNK) + 1).astype(int).tolist()
    pairs = list(pairwise(cuts))
    return [Chunk(name, cap, *pair) for cap in experiment.caps for name in names for pair in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class Player:
    """Plays parts of the work: a value, so that it can be sent to other processes."""

    works: Mapping[str, Work]
    workload: Workload
    experiment: Experiment

    def __call__(self, chunk: Chunk) -> Crossings:
        """Return what becomes of a part."""
        experiment, work = self.experiment, self.works[chunk.workflow]
        cluster = experiment.cluster(self.workload, chunk.cap)
        found = np.empty((len(experiment.strategies), chunk.end - chunk.begin, 3), np.int64)
        for place, moment in enumerate(experiment.times[chunk.begin : chunk.end]):
            cluster.advance(moment)
            actual = actual_times(work, experiment.settings.variation, seed=chunk.begin + place)
            for number, strategy in enumerate(experiment.strategies):
                outcome = simulate(work, cluster.copy(), strategy, experiment.settings, actual=actual)
                found[number, place] = outcome.makespan, outcome.expired, outcome.idle
        return found


def _joined(experiment: Experiment, played: Mapping[Chunk, Crossings]) -> dict[tuple[str, int | None], Crossings]:
    """Return what became of each workflow under each cap at all moments."""
    parts: dict[tuple[str, int | None], list[Chunk]] = {}
    for chunk in played:
        parts.setdefault((chunk.workflow, chunk.cap), []).append(chunk)
    joined = {key: np.concatenate([played[one] for one in sorted(of, key=_begin)], axis=1) for key, of in parts.items()}
    if any(table.shape[1] != len(experiment.times) for table in joined.values()):
        raise ValueError("parts of the work are missing")
    return joined


def _begin(chunk: Chunk) -> int:
    return chunk.begin


def results(experiment: Experiment, played: Mapping[Chunk, Crossings], baseline: str) -> list[Result]:
    """Return how each strategy did with each workflow."""
    if baseline not in experiment.strategies:
        raise InputError(f'the baseline "{baseline}" is not played', hint=f"one of {', '.join(experiment.strategies)}")
    against = experiment.strategies.index(baseline)
    return [
        Result(
            workflow,
            strategy,
            cap,
            len(experiment.times),
            float(table[number, :, 0].mean()),
            _improvement(table, number, against),
            int(table[number, :, 1].sum()),
            float(table[number, :, 2].mean()) / _HOUR,
        )
        for (workflow, cap), table in _joined(experiment, played).items()
        for number, strategy in enumerate(experiment.strategies)
    ]


def scores(experiment: Experiment, played: Mapping[Chunk, Crossings]) -> list[Score]:
    """Return how often each strategy is better than each other one, under each cap."""
    joined = _joined(experiment, played)
    numbers = {name: number for number, name in enumerate(experiment.strategies)}
    return [
        Score(
            strategy,
            rival,
            cap,
            tuple(
                _improvement(table, numbers[strategy], numbers[rival])
                for (_, limit), table in joined.items()
                if limit == cap
            ),
        )
        for cap in experiment.caps
        for strategy, rival in permutations(experiment.strategies, 2)
    ]


def _improvement(table: Crossings, ours: int, theirs: int) -> float:
    """Return the mean of the ratios and not the ratio of the means, as the paper does."""
    return float((1 - table[ours, :, 0] / table[theirs, :, 0]).mean())


@dataclass(frozen=True, slots=True)
class Queue:
    """What a workflow meets: how many jobs run and wait."""

    moment: int
    running: int
    queued: int


def try_out(work: Work, workload: Workload, experiment: Experiment) -> tuple[Queue, list[Trial]]:
    """Submit a workflow at the first moment of an experiment under its first cap, with each of its strategies."""
    cluster = experiment.cluster(workload, experiment.caps[0])
    cluster.advance(experiment.times[0])
    trials = [try_on(work, cluster.copy(), name, experiment.settings) for name in experiment.strategies]
    return Queue(cluster.now, cluster.running, cluster.queued), trials
