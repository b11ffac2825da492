"""What amounts, run times and half-lives can be; no numpy, because a run that has learnt nothing starts without it."""

from math import ceil, inf

from tonnage.errors import InputError
from tonnage.jobs import Amounts, Resource

__all__ = ["ABSURD", "NO_CORE", "RAN_OUT_NEEDS", "check_half_life", "checked", "not_an_amount", "peak_of"]

ABSURD = 1e30
"""No real amount, time or size is this large; values smaller than its inverse count as 0."""
NO_CORE = 1e-9
"""A smaller excess over whole cores is only a rounding error."""
RAN_OUT_NEEDS = 2.0
"""A job that ran out of a resource is taken to need this many times what it had: its true need is unknown."""


def checked(peak: float, seconds: float) -> tuple[float, float]:
    """Return a job's peak and run time with tiny values set to 0; raise InputError if either is impossible."""
    if not (0 <= peak < ABSURD and 0 <= seconds < ABSURD):
        raise not_an_amount(seconds if 0 <= peak < ABSURD else peak)
    return (peak if peak > 1 / ABSURD else 0.0), (seconds if seconds > 1 / ABSURD else 0.0)


def check_half_life(jobs: float | None) -> None:
    """Raise InputError unless a half-life is None or a finite number of at least 1 job."""
    if jobs is not None and not 1 <= jobs < ABSURD:
        raise InputError(f"a half-life must be at least 1 job, not {jobs:g}")


def not_an_amount(value: float) -> InputError:
    """Return the error for an impossible peak or run time."""
    return InputError(f"a peak or run time cannot be {value:g}")


def peak_of(used: Amounts, resource: Resource) -> float | None:
    """Return the peak of one job, cores as a whole number; None if unknown."""
    peak: float | None = getattr(used, resource)
    if resource is Resource.CORES:
        if peak is None and used.cpu_time is not None and used.wall_time:
            peak = used.cpu_time / used.wall_time
        peak = None if peak is None or not 0 <= peak < inf else max(float(ceil(peak - NO_CORE)), 1.0)
    return peak if peak is not None and 0 <= peak < inf else None
