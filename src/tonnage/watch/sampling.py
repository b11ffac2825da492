"""When to take the next sample: often while something happens, rarely otherwise, and never at a high cost."""

from time import monotonic

__all__ = ["Credit", "Pace", "time_to_reach", "usual_cost"]

_SOONEST = 0.010
_AFTER_BIRTH = 0.050  # in a storm of short processes; the first one after a calm period is sampled at once
_BACK_OFF = 1.25
_PRICE = 60  # a sample may cost 1/60 of the time until the next
_OUTLIER = 3  # times the usual cost: the most that one sample counts for
_GUARDED = 0.025  # longest pause where there is a limit
_CLOSEST = 0.001
_SUDDEN = 200e6  # bytes per second that a calm program may start to allocate at any moment


class Pace:
    """Chooses the pauses between samples."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._pause = min(_SOONEST, longest)

    def stirred(self) -> None:
        """Sample often for a while, because something changed."""
        self._pause = min(_SOONEST, self._longest)

    def calm(self) -> None:
        """Sample less often, because nothing changed since the last sample."""
        self._pause = min(self._longest, self._pause * _BACK_OFF)

    def after_birth(self, cost: float) -> float:
        """Return the seconds from the last sample to the next when a new process has started."""
        return max(min(self._pause, _AFTER_BIRTH), _PRICE * cost)

    def pause(self, cost: float, guarded: bool = False) -> float:
        """Return the seconds until the next sample, after one that took `cost` seconds."""
        pause = min(self._pause, _GUARDED) if guarded else self._pause
        return max(pause, _PRICE * cost)


def usual_cost(before: float, cost: float) -> float:
    """Return the smoothed cost of a sample, given the previous estimate and the latest cost.

    A single sample can be expensive because the machine was busy elsewhere (a virtual machine that was paused is
    charged for the pause). That alone must not delay the next sample by a second.
    """
    return 0.5 * (before + min(cost, _OUTLIER * before)) if before else cost


def time_to_reach(room: float, rate: float, cost: float) -> float:
    """Return the pause after which a value with this much room below its limit is not sampled too late.

    Half of the predicted time, so that samples close in on the limit; the cost of a sample sets the shortest pause.
    """
    return max(_CLOSEST, 2 * cost, 0.5 * room / max(rate, _SUDDEN))


class Credit:
    """A budget of CPU time for expensive looks, which refills slowly."""

    def __init__(self, stock: float, rate: float) -> None:
        self._stock = self._most = stock
        self._rate = rate
        self._filled = monotonic()

    def available(self) -> bool:
        """Whether an expensive look may begin."""
        now = monotonic()
        self._stock = min(self._most, self._stock + (now - self._filled) * self._rate)
        self._filled = now
        return self._stock > 0

    def spend(self, seconds: float) -> None:
        """Deduct the cost of a look."""
        self._stock -= seconds
