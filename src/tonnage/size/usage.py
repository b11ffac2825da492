"""What is known of a category's use of one resource: which past jobs count, and as what."""

from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from tonnage.jobs import Amounts, History, Resource
from tonnage.size.histograms import FloatArray

__all__ = ["Usage", "peak_of"]

_MORE = 2.0
"""A job that ran out of a resource is taken to need so many times what it had: nobody knows how much more."""
_NO_CORE = 1e-9  # more than some cores by so little is a rounding error


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """The jobs of a category of which it is known how much of a resource they needed; one number a job."""

    peaks: FloatArray
    seconds: FloatArray
    inputs: FloatArray
    requested: FloatArray
    """NaN is unknown."""
    ran_out: int
    """How many of them ran out of the resource, so that their need is a guess."""
    left_out: int
    """How many jobs say nothing: they did not finish, or nobody measured them."""
    averaged: bool
    """Whether cores are an average, CPU time by run time, because nobody measured the peak."""

    def __len__(self) -> int:
        return len(self.peaks)

    @classmethod
    def of(cls, history: History, resource: Resource) -> "Usage":
        """Return what a history knows about a resource."""
        peaks, averaged = _peaks(history, resource)
        known = history.finished & (peaks >= 0) & (peaks < inf)
        requested = history.requested.get(resource, np.full(len(history), np.nan))
        had = np.fmax(peaks, requested)
        ran_out = _ran_out(history, resource) & (had > 0) & (had < inf)
        peaks = np.where(ran_out, had * _MORE, peaks)
        chosen = known | ran_out
        return cls(
            peaks=peaks[chosen],
            seconds=_seconds(history.used[Resource.WALL_TIME][chosen]),
            inputs=history.input_bytes[chosen],
            requested=requested[chosen],
            ran_out=int(ran_out.sum()),
            left_out=int(len(history) - chosen.sum()),
            averaged=averaged,
        )


def _peaks(history: History, resource: Resource) -> tuple[FloatArray, bool]:
    """Return what jobs used at most; of cores only whole ones can be given."""
    peaks = history.used[resource]
    if resource is not Resource.CORES:
        return peaks, False
    averaged = not (peaks >= 0).any()
    if averaged:
        seconds, busy = history.used[Resource.WALL_TIME], history.used[Resource.CPU_TIME]
        peaks = np.divide(busy, seconds, out=np.full(len(history), np.nan), where=seconds > 0)
    return np.maximum(np.ceil(peaks - _NO_CORE), 1.0), averaged


def peak_of(used: Amounts, resource: Resource) -> float | None:
    """Return what one job used at most, by the same rules; None is unknown."""
    peak: float | None = getattr(used, resource)
    if resource is Resource.CORES:
        if peak is None and used.cpu_time is not None and used.wall_time:
            peak = used.cpu_time / used.wall_time
        peak = None if peak is None or not 0 <= peak < inf else max(float(ceil(peak - _NO_CORE)), 1.0)
    return peak if peak is not None and 0 <= peak < inf else None


def _ran_out(history: History, resource: Resource) -> NDArray[np.bool_]:
    ran_out: NDArray[np.bool_] = history.ran_out == list(Resource).index(resource)
    return ran_out


def _seconds(seconds: FloatArray) -> FloatArray:
    """Return run times of which none is unknown: such jobs count like the others, and where all took none, alike."""
    timed = (seconds >= 0) & (seconds < inf)
    filled = np.where(timed, seconds, seconds[timed].mean() if timed.any() else 1.0)
    return filled if filled.any() else np.ones(len(seconds))
