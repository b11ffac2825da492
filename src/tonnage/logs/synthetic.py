"""Synthetic job logs: memory peaks of a known distribution, in the columns of the public data sets.

The five distributions are those of the bucketing paper's synthetic data sets (Phung et al.), with parameters estimated
from its published samples. As there, only the memory varies: every job has 4 cores, 4,000 MB of disk and 500 seconds,
unless the run times are given a spread. In addition to the paper, each job has an input whose size predicts its memory.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError

__all__ = ["HEADER", "PEAKS", "JobLog", "generate", "render"]

HEADER = "category,cores,memory,disk,cpu_time,wall_time,input_size"
"""The columns of the public data sets plus the size of the input; in MB (10^6 bytes) and seconds."""

_CORES = 4
_DISK = 4000
_SECONDS = 500.0
_LEAST, _MOST = 10.0, 64_000.0
"""Peaks are kept between 10 MB and the paper's machine of 64 GB, as in its exponential sample."""
_MEMORY_PER_INPUT = 2.0
_INPUT_SPREAD = 0.1
"""A job uses about twice the size of its input as memory; this is the sigma of the logarithm of that ratio."""
_MOST_JOBS = 10_000_000
_MOST_SPREAD = 2.0

_Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Amounts distributed uniformly between two bounds."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator, count: int) -> _Floats:
        """Draw `count` amounts."""
        return rng.uniform(self.low, self.high, count)


@dataclass(frozen=True, slots=True)
class Normal:
    """Amounts distributed normally around a mean."""

    mean: float
    deviation: float

    def draw(self, rng: np.random.Generator, count: int) -> _Floats:
        """Draw `count` amounts."""
        return rng.normal(self.mean, self.deviation, count)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Mostly small amounts, a few of them very large."""

    mean: float

    def draw(self, rng: np.random.Generator, count: int) -> _Floats:
        """Draw `count` amounts."""
        return rng.exponential(self.mean, count)


# The modes of each distribution, in MB.
PEAKS: dict[str, tuple[Uniform | Normal | Exponential, ...]] = {
    "uniform": (Uniform(10_000, 40_000),),
    "normal": (Normal(8_000, 2_000),),
    "exponential": (Exponential(10_000),),
    "bimodal": (Normal(32_000, 500), Normal(8_000, 200)),
    "trimodal": (Normal(32_000, 4_000), Normal(11_000, 1_000), Normal(16_000, 4_000)),
}


@dataclass(frozen=True, slots=True)
class JobLog:
    """Jobs in the order in which they ran: one number per job, in MB and seconds."""

    categories: tuple[str, ...]
    category: NDArray[np.int64]
    """The index of each job's category in `categories`."""
    memory: _Floats
    wall_time: _Floats
    input_size: _Floats

    def __len__(self) -> int:
        return len(self.memory)


def generate(peaks: str, jobs: int, *, categories: int | None = None, seed: int = 0, spread: float = 0.0) -> JobLog:
    """Draw a job log; the same arguments give the same log.

    By default every mode of the distribution is a category. Fewer categories share the modes in turn, so a single
    category mixes them all; additional categories repeat the modes at a half of the memory, a third, and so on. Each
    category has the same number of jobs for each of its modes. `spread` is the sigma of the logarithm of the run times,
    whose median is 500 seconds.
    """
    modes = PEAKS[peaks]
    categories = min(jobs, len(modes)) if categories is None else categories
    if not 1 <= jobs <= _MOST_JOBS:
        raise InputError(f"a log can have 1 to {_MOST_JOBS:,} jobs, not {jobs:,}")
    if not 1 <= categories <= jobs:
        raise InputError(f"{jobs:,} jobs can have 1 to {jobs:,} categories, not {categories:,}")
    if not 0 <= spread <= _MOST_SPREAD:
        raise InputError(f"the spread of the run times can be 0 to {_MOST_SPREAD:g}, not {spread:g}")
    kinds = max(categories, len(modes))
    rng = np.random.Generator(np.random.PCG64(seed))
    kind = rng.permutation(np.arange(jobs) % kinds)
    memory = np.zeros(jobs)
    for number in range(kinds):
        chosen = kind == number
        again, mode = divmod(number, len(modes))
        memory[chosen] = modes[mode].draw(rng, int(chosen.sum())) / (again + 1)
    memory = np.clip(memory, _LEAST, _MOST).round()
    return JobLog(
        categories=tuple(f"{peaks}_{number + 1}" for number in range(categories)),
        category=kind % categories,
        memory=memory,
        wall_time=np.round(_SECONDS * np.exp(spread * rng.standard_normal(jobs)), 3),
        input_size=np.round(memory / _MEMORY_PER_INPUT * np.exp(_INPUT_SPREAD * rng.standard_normal(jobs))),
    )


def render(log: JobLog) -> str:
    """Return the log as CSV text; all cores are busy all the time."""
    names = [log.categories[number] for number in log.category.tolist()]
    columns = (log.memory.tolist(), log.wall_time.tolist(), log.input_size.tolist())
    rows = [
        f"{name},{_CORES},{memory:.0f},{_DISK},{_CORES * seconds:.15g},{seconds:.15g},{size:.0f}\n"
        for name, memory, seconds, size in zip(names, *columns, strict=True)
    ]
    return f"{HEADER}\n{''.join(rows)}"
