"""What packers are asked and what they answer: values, so that a simulated queue and a live one ask alike."""

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
"""The most to ask for, as a multiple of the estimate."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How careful packers are."""

    fudge: float = 1.1
    """The time that a batch job asks for, as a multiple of what its tasks are estimated to take."""
    tolerance: int = 600
    """How exactly the leeway is looked for, in seconds."""
    min_utilisation: float = 0.0
    """Of the time that a batch job holds its nodes for, at least this part is to be used by tasks."""
    variation: float = 0.0
    """How much run times vary: their standard deviation as a part of the mean. Batch jobs then ask for more time."""
    all_groupings: bool = True
    best_nodes: bool = True
    true_leeway: bool = True
    """The three parts of zhang-improved: each can be left out."""
    more: float = 1.0
    """How many times more batch jobs ask for since others have expired."""

    def __post_init__(self) -> None:
        if not 1 <= self.fudge <= 100:
            raise InputError(f"the requested time is 1 to 100 times the estimate, not {self.fudge:g}")
        if not 0 <= self.min_utilisation <= 1:
            raise InputError(f"the utilisation is from 0 to 1, not {self.min_utilisation:g}")
        if not 0 <= self.variation <= 10:
            raise InputError(f"run times vary by 0 to 10 times their mean, not {self.variation:g}")
        if self.tolerance < 1:
            raise InputError(f"the tolerance of the leeway is at least a second, not {self.tolerance}")


@dataclass(frozen=True, slots=True, eq=False)
class Situation:
    """What is to be packed, and what the queue looks like now."""

    left: Remaining
    queue: Snapshot
    delay: int = 0
    """Seconds until the batch job that runs must end; 0 where none does."""
    pending: int = 0
    """How many of the workflow's batch jobs wait."""
    running: int = 0
    ready: IntArray | None = None
    """The tasks left whose parents are all done; None: those of the first level."""
    room: int | None = None
    """How many more batch jobs the queue takes; None: any number."""
    max_running: int | None = None
    """How many batch jobs may run at a time."""
    ends: IntArray | None = None
    """When each task of a batch job that runs is expected to end, and NEVER for those in none; None: all are done."""
    futures: tuple[Workload, ...] = ()
    """What may become of the queue: each has the jobs in it, with an end that is likely, and some that may arrive."""


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """A batch job: which tasks travel in it, and what it asks for."""

    tasks: IntArray
    levels: tuple[int, int]
    """The first and the last of the workflow's levels that it holds tasks of."""
    nodes: int
    seconds: int
    """What it asks for: the run time with a margin, and the leeway."""
    wait: int | None
    """When it is estimated to start, in seconds from now; None where the queue was not asked."""
    run: int
    leeway: int = 0
    """Extra time, so that it may start before what its tasks wait for is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """What to submit now, and why; nothing where it is better to wait."""

    jobs: tuple[Submission, ...] = ()
    reason: str = ""
    singly: bool = False
    """Whether from now on each task is a batch job of its own, as soon as what it waits for is done."""
    estimate: int | None = None
    """In how many seconds all is done, where the strategy has an idea of that."""


def requested(
    run: IntArray | FloatArray | int, settings: Settings, tasks: int = 1, nodes: IntArray | int = 1
) -> IntArray:
    """Return the time to ask for: the estimate with its margin, in whole minutes.

    Where run times vary, what tasks on one node take in all varies the less the more they are, and the last of many
    nodes takes longer than each of them: 95 % of such batch jobs are to have enough time.
    """
    factor: NDArray[np.float64] | float = settings.fudge
    if settings.variation:
        chain = np.maximum(tasks / np.asarray(nodes), 1.0)
        # How far out the largest of so many normal values lies, for 95 of 100 tries: a bound that is easy to compute.
        out = np.sqrt(2 * np.log(20 * np.asarray(nodes, np.float64)))
        factor = np.maximum(factor, 1 + out * settings.variation / np.sqrt(chain))
    # 3000 times 1.1 is 3300.0000000000005: that must not become a minute more.
    minutes = np.ceil(np.round(np.asarray(run) * factor * settings.more / _MINUTE, 9)).astype(np.int64)
    return np.maximum(minutes, 1) * _MINUTE


def more_time(more: float, fudge: float) -> float:
    """Return how many times more to ask for after so many times more, on top of a margin, were not enough."""
    if fudge * more * _MORE_TIME > _MOST_TIME:
        raise InputError(f"tasks take more than {_MOST_TIME} times as long as expected")
    return more * _MORE_TIME
