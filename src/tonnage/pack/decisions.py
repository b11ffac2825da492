"""The input and output of packers: plain values, so that simulated and live queues use them in the same way."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.batch import Snapshot, Workload
from tonnage.errors import InputError
from tonnage.pack.remaining import Remaining

__all__ = ["Packed", "Settings", "Situation", "Submission", "more_time", "requested"]

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]

_MINUTE = 60
_MORE_TIME = 1.5
_MOST_TIME = 100
"""The most time to request, as a multiple of the estimate."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How careful packers are."""

    fudge: float = 1.1
    """The time that a batch job requests, as a multiple of the estimated run time of its tasks."""
    tolerance: int = 600
    """The precision of the search for a leeway, in seconds."""
    min_utilisation: float = 0.0
    """The fraction of a batch job's node time that tasks must use at least."""
    variation: float = 0.0
    """The standard deviation of run times as a fraction of the mean; batch jobs then request more time."""
    all_groupings: bool = True
    best_nodes: bool = True
    true_leeway: bool = True
    """The three improvements of zhang-improved; each can be switched off."""
    more: float = 1.0
    """The factor on requested times, raised after batch jobs have expired."""

    def __post_init__(self) -> None:
        if not 1 <= self.fudge <= 100:
            raise InputError(f"the requested time must be 1 to 100 times the estimate, not {self.fudge:g}")
        if not 0 <= self.min_utilisation <= 1:
            raise InputError(f"the utilisation must be between 0 and 1, not {self.min_utilisation:g}")
        if not 0 <= self.variation <= 10:
            raise InputError(f"the variation of run times must be 0 to 10 times their mean, not {self.variation:g}")
        if self.tolerance < 1:
            raise InputError(f"the tolerance of the leeway must be at least one second, not {self.tolerance}")


@dataclass(frozen=True, slots=True, eq=False)
class Situation:
    """The remaining tasks, and the current state of the queue."""

    left: Remaining
    queue: Snapshot
    delay: int = 0
    """Seconds until the running batch job must end; 0 if none runs."""
    pending: int = 0
    """How many of the workflow's batch jobs are waiting."""
    running: int = 0
    ready: IntArray | None = None
    """The remaining tasks whose parents are all done; None: those of the first level."""
    room: int | None = None
    """How many more batch jobs the queue accepts; None: any number."""
    max_running: int | None = None
    """The most batch jobs that can run at a time."""
    ends: IntArray | None = None
    """When each task of a running batch job is expected to end, NEVER for those in none; None: all are done."""
    futures: tuple[Workload, ...] = ()
    """Possible futures of the queue: each has its current jobs, with a likely end, and some that might arrive."""


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """A batch job: its tasks, and what it requests."""

    tasks: IntArray
    levels: tuple[int, int]
    """The first and the last of the workflow's levels that have tasks in it."""
    nodes: int
    seconds: int
    """The requested time: the run time with a margin, plus the leeway."""
    wait: int | None
    """When it is estimated to start, in seconds from now; None if there is no estimate."""
    run: int
    leeway: int = 0
    """Extra time, so that it can start before everything its tasks wait for is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """What to submit now, and why; nothing if it is better to wait."""

    jobs: tuple[Submission, ...] = ()
    reason: str = ""
    singly: bool = False
    """Whether from now on each task is a batch job of its own, as soon as everything it waits for is done."""
    estimate: int | None = None
    """The estimated seconds until all tasks are done, if the strategy estimates that."""


def requested(
    run: IntArray | FloatArray | int, settings: Settings, tasks: int = 1, nodes: IntArray | int = 1
) -> IntArray:
    """Return the time to request: the estimate with its margin, in whole minutes.

    If run times vary, the total time of the tasks on one node varies less the more of them there are, and the slowest
    of many nodes takes longer than the average one: 95 % of such batch jobs should have enough time.
    """
    factor: NDArray[np.float64] | float = settings.fudge
    if settings.variation:
        chain = np.maximum(tasks / np.asarray(nodes), 1.0)
        # How far out the largest of this many normal values lies, in 95 of 100 tries: a bound that is easy to compute.
        out = np.sqrt(2 * np.log(20 * np.asarray(nodes, np.float64)))
        factor = np.maximum(factor, 1 + out * settings.variation / np.sqrt(chain))
    # 3000 times 1.1 is 3300.0000000000005: that must not be rounded up to another minute.
    minutes = np.ceil(np.round(np.asarray(run) * factor * settings.more / _MINUTE, 9)).astype(np.int64)
    return np.maximum(minutes, 1) * _MINUTE


def more_time(more: float, fudge: float) -> float:
    """Return the next factor on requested times after the factor `more`, on top of the margin, was not enough."""
    if fudge * more * _MORE_TIME > _MOST_TIME:
        raise InputError(f"tasks take more than {_MOST_TIME} times as long as expected")
    return more * _MORE_TIME
