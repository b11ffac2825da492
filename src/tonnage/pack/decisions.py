"""What packers are asked and what they answer: values, so that a simulated queue and a live one ask alike."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.batch import Snapshot
from tonnage.errors import InputError
from tonnage.pack.work import Left

__all__ = ["Packed", "Settings", "Situation", "Submission", "requested"]

IntArray: TypeAlias = NDArray[np.int64]

_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Settings:
    """How careful packers are."""

    fudge: float = 1.1
    """A batch job asks for so many times as long as its tasks are estimated to take."""
    tolerance: int = 600
    """How exactly the leeway is looked for, in seconds."""
    all_groupings: bool = True
    best_nodes: bool = True
    true_leeway: bool = True
    """The three parts of zhang-improved: each can be left out."""

    def __post_init__(self) -> None:
        if not 1 <= self.fudge <= 100:
            raise InputError(f"the requested time is 1 to 100 times the estimate, not {self.fudge:g}")
        if self.tolerance < 1:
            raise InputError(f"the tolerance of the leeway is at least a second, not {self.tolerance}")


@dataclass(frozen=True, slots=True, eq=False)
class Situation:
    """What is to be packed, and what the queue looks like now."""

    left: Left
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
    """When it is estimated to start, in seconds from now; None where nobody asked the queue."""
    run: int
    leeway: int = 0
    """Extra time, so that it may start before what its tasks wait for is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """What to submit now, and why; nothing where it is better to wait."""

    jobs: tuple[Submission, ...] = ()
    reason: str = ""
    then: str | None = None
    """The strategy that goes on from here, where it is another one."""
    estimate: int | None = None
    """In how many seconds all is done, where the strategy has an idea of that."""


def requested(run: IntArray | int, fudge: float) -> IntArray:
    """Return the time to ask for: the estimate with its margin, in whole minutes."""
    minutes = np.ceil(np.asarray(run) * fudge / _MINUTE).astype(np.int64)
    return np.maximum(minutes, 1) * _MINUTE
