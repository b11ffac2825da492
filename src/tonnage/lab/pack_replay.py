"""Compare packing strategies on a recorded queue: the experiment of GLUME's paper (its section 7).

A workflow is submitted at many times of a log, each time to the queue as it was then, once with each strategy. The
work is cut into chunks, each with one workflow and some of the times. Every chunk is simulated from the beginning of
the log with an empty machine, so the results depend neither on the cuts nor on which process simulates a chunk.
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
"""The outcome of a workflow for each strategy and time: makespan, expired batch jobs, idle node-seconds."""

WORTH = 0.05
"""A difference of mean makespans that counts as a win or a loss in the paper."""
_CHUNK = 48  # times at most: few enough to keep all cores busy, enough for schedules to be reused
_MOST = 1_000_000  # submissions, and days
_HOUR = 3600
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Experiment:
    """When workflows are submitted, to what kind of queue, and with which strategies."""

    times: tuple[int, ...]
    """Times of submission on the log's clock, ascending."""
    strategies: tuple[str, ...]
    caps: tuple[int | None, ...] = (16,)
    """Limits on a workflow's batch jobs in the system; each is an experiment of its own."""
    max_running: int | None = None
    requests: str = "accurate"
    policy: str = "conservative"
    contiguous: bool = False
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        unknown = [name for name in self.strategies if name not in PACKERS]
        if unknown or not self.strategies:
            raise InputError(f'"{", ".join(unknown)}" is not a strategy', hint=f"one of {', '.join(PACKERS)}")

    def cluster(self, workload: Workload, cap: int | None) -> Cluster:
        """Return the simulated cluster at the beginning of the log."""
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
    """A part of the work: one workflow at the times from index `begin` up to, but not including, `end`."""

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
    """How much shorter the makespan is than the baseline's, as a fraction of it: the mean over submissions."""
    expired: int
    idle_hours: float
    """Node-hours that batch jobs held and did not use, on average."""


@dataclass(frozen=True, slots=True)
class Score:
    """For how many workflows a strategy is better or worse than another."""

    strategy: str
    rival: str
    cap: int | None
    improvements: tuple[float, ...]
    """For each workflow, the mean over submissions of its improvement over the rival."""

    def wins(self, beyond: float = WORTH) -> int:
        """Return the number of workflows whose makespan improves by more than `beyond`."""
        return sum(one > beyond for one in self.improvements)

    def losses(self, beyond: float = WORTH) -> int:
        """Return the number of workflows whose makespan worsens by more than `beyond`."""
        return sum(one < -beyond for one in self.improvements)


def submission_times(workload: Workload, *, every: int, days: float, warmup: int, spread: bool) -> tuple[int, ...]:
    """Return the times of submission: one every `every` seconds for some days, the first after a warm-up.

    With `spread`, the same number is spread evenly over the whole log except for a warm-up at either end.
    """
    if not len(workload):
        raise InputError("the log has no usable job")
    if every < 1 or not 0 <= days <= _MOST or warmup < 0:
        raise InputError("submissions must be at least a second apart, and days and the warm-up not negative")
    count = int(days * _DAY) // every + 1
    if count > _MOST:
        raise InputError(f"{count:,} submissions are too many: at most {_MOST:,}")
    first, end = int(workload.submit[0]) + warmup, int(workload.submit[-1])
    last = end - warmup if spread else first + (count - 1) * every
    if not first <= last <= end:
        span = format_seconds(end - int(workload.submit[0]))
        hint = "use fewer --days or a shorter --warmup"
        raise InputError(f"the log is too short for these submissions: it covers {span}", hint=hint)
    return tuple(np.linspace(first, last, count).astype(np.int64).tolist())


def chunks(names: Iterable[str], experiment: Experiment) -> list[Chunk]:
    """Cut the work into chunks, under each cap and for each workflow."""
    size = len(experiment.times)
    cuts = np.linspace(0, size, -(-size // _CHUNK) + 1).astype(int).tolist()
    pairs = list(pairwise(cuts))
    return [Chunk(name, cap, *pair) for cap in experiment.caps for name in names for pair in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class Player:
    """Simulates chunks; a value, so that it can be sent to other processes."""

    works: Mapping[str, Work]
    workload: Workload
    experiment: Experiment

    def __call__(self, chunk: Chunk) -> Crossings:
        """Return the outcomes of one chunk."""
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
    """Return the outcomes of each workflow under each cap, at all times."""
    parts: dict[tuple[str, int | None], list[Chunk]] = {}
    for chunk in played:
        parts.setdefault((chunk.workflow, chunk.cap), []).append(chunk)
    joined = {key: np.concatenate([played[one] for one in sorted(of, key=_begin)], axis=1) for key, of in parts.items()}
    if any(table.shape[1] != len(experiment.times) for table in joined.values()):
        raise ValueError("chunks are missing")
    return joined


def _begin(chunk: Chunk) -> int:
    return chunk.begin


def results(experiment: Experiment, played: Mapping[Chunk, Crossings], baseline: str) -> list[Result]:
    """Return the mean result of each strategy for each workflow, compared with the baseline."""
    if baseline not in experiment.strategies:
        hint = f"one of {', '.join(experiment.strategies)}"
        raise InputError(f'the baseline "{baseline}" is not among the strategies', hint=hint)
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
    """Return how often each strategy is better than each of the others, under each cap."""
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
    """Return the mean of the ratios, not the ratio of the means, as in the paper."""
    return float((1 - table[ours, :, 0] / table[theirs, :, 0]).mean())


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue when a workflow is submitted: how many jobs run and wait."""

    moment: int
    running: int
    queued: int


def try_out(work: Work, workload: Workload, experiment: Experiment) -> tuple[Queue, list[Trial]]:
    """Submit a workflow at the first time of an experiment under its first cap, with each of its strategies."""
    cluster = experiment.cluster(workload, experiment.caps[0])
    cluster.advance(experiment.times[0])
    trials = [try_on(work, cluster.copy(), name, experiment.settings) for name in experiment.strategies]
    return Queue(cluster.now, cluster.running, cluster.queued), trials
