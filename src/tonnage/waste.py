"""How waste is computed from what attempts were allocated and used: one rule for runs, reports and the archive.

An attempt holds what it was allocated, or if that is unknown what it requested, for as long as it runs: from its start
to its end, or for the measured run time if that is longer (HTCondor's log has whole seconds, so a short task takes no
time). Its account is in amounts times seconds:

- A successful attempt used its peak for all of that time, and wasted the rest. It cannot use more than it was given: an
  attempt that outgrew its allocation does not make up for the waste of others. An attempt whose outcome is unknown
  counts as successful.
- An unsuccessful attempt (it failed, ran out of a resource or of time, was preempted, lost or cancelled) produced
  nothing: everything it held is waste, whatever it used.
- If it is unknown what a successful attempt used, what it held is unmeasured: neither used nor wasted.
- If it is unknown what an attempt was given, or how long it ran, it is not counted.

The rule is implemented twice, for one attempt and for arrays of many; a test compares them.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tonnage.jobs import Attempt, Resource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "NOTHING_HELD",
    "Account",
    "account_for",
    "added_up",
    "allocation",
    "held_seconds",
    "held_seconds_each",
    "shares",
    "used_amounts",
]


@dataclass(frozen=True, slots=True)
class Account:
    """How much of a resource attempts were given and used, in amounts times seconds."""

    given: float = 0.0
    used: float = 0.0
    unmeasured: float = 0.0
    """What was given to successful attempts whose use is unknown."""
    whole_machine: float = 0.0
    """What would have been given with a whole machine for each task, if computed."""
    max_seen: float = 0.0
    """What would have been given with the largest peak of its category for each task, if computed."""

    @property
    def wasted(self) -> float:
        """What was given but not used, as far as known."""
        return max(0.0, self.given - self.unmeasured - self.used)  # rounding can make sums slightly negative

    @property
    def waste_fraction(self) -> float | None:
        """The fraction of what was given that was not used, as far as known."""
        known = self.given - self.unmeasured
        return self.wasted / known if self.measured and known > 0 else None

    @property
    def measured(self) -> bool:
        """Whether the use of any attempt is known."""
        return bool(self.used or not self.unmeasured)

    def __add__(self, other: "Account") -> "Account":
        return Account(
            self.given + other.given,
            self.used + other.used,
            self.unmeasured + other.unmeasured,
            self.whole_machine + other.whole_machine,
            self.max_seen + other.max_seen,
        )

    def compared(self, *, machine: float, peak: float, seconds: float) -> "Account":
        """Add what simpler ways of sizing would have given to the account of a category.

        `machine` is what a whole machine has, `peak` the largest of the category, and `seconds` the total run time of
        its successful attempts: with either size, no other attempt would have been needed.
        """
        return replace(self, whole_machine=machine * seconds, max_seen=peak * seconds)


NOTHING_HELD = Account()


def allocation(attempt: Attempt, resource: Resource) -> float | None:
    """Return what an attempt was allocated, or if that is unknown what it requested."""
    allocated: float | None = getattr(attempt.allocated, resource)
    requested: float | None = getattr(attempt.requested, resource)
    return requested if allocated is None else allocated


def held_seconds(started: float | None, ended: float | None, wall_time: float | None) -> float | None:
    """Return for how long an attempt held what it was given; None if unknown."""
    if started is None or ended is None:
        return None if wall_time is None else max(0.0, wall_time)
    return max(0.0, ended - started, wall_time or 0.0)


def account_for(given: float | None, peak: float | None, seconds: float | None, *, succeeded: bool) -> Account:
    """Return the account of one attempt."""
    if given is None or seconds is None:
        return NOTHING_HELD
    held = given * seconds
    if not succeeded:
        return Account(held)
    if peak is None:
        return Account(held, unmeasured=held)
    return Account(held, min(peak, given) * seconds)


def held_seconds_each(
    started: "NDArray[np.float64]", ended: "NDArray[np.float64]", wall_time: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Return for how long each attempt held what it was given; NaN if unknown."""
    import numpy as np

    return np.maximum(0.0, np.fmax(ended - started, wall_time))


def used_amounts(
    given: "NDArray[np.float64]", peaks: "NDArray[np.float64]", succeeded: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    """Return how much each attempt used of what it was given; NaN if either is unknown."""
    import numpy as np

    return np.where(np.isfinite(given), np.where(succeeded, np.minimum(peaks, given), 0.0), np.nan)


def shares(
    given: "NDArray[np.float64]",
    peaks: "NDArray[np.float64]",
    seconds: "NDArray[np.float64]",
    succeeded: "NDArray[np.bool_]",
) -> "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]":
    """Return what each attempt was given, what it used, and what is unmeasured, in amounts times seconds."""
    import numpy as np

    used = used_amounts(given, peaks, succeeded)
    counted, measured = np.isfinite(given) & np.isfinite(seconds), np.isfinite(used)
    held = np.where(counted, given * seconds, 0.0)
    return held, np.where(counted & measured, used * seconds, 0.0), np.where(measured, 0.0, held)


def added_up(
    given: "NDArray[np.float64]",
    peaks: "NDArray[np.float64]",
    seconds: "NDArray[np.float64]",
    succeeded: "NDArray[np.bool_]",
) -> Account:
    """Return the sum of the accounts of many attempts."""
    return Account(*(float(one.sum()) for one in shares(given, peaks, seconds, succeeded)))
