"""When to look next: often while something happens, seldom while nothing does, and never at a high price."""

from time import monotonic

__all__ = ["Credit", "Pace", "time_to_reach", "usual_cost"]

_SOONEST = 0.010
_AFTER_BIRTH = 0.050  # in a storm of short processes; a first one after some calm is looked at at once
_BACK_OFF = 1.25
_PRICE = 60  # a look may cost a sixtieth of the time until the next
_OUTLIER = 3  # times the usual cost: one look counts no more than that
_GUARDED = 0.025  # with a limit, the longest pause
_CLOSEST = 0.001
_SUDDEN = 200e6  # bytes a second: what a calm program may begin to take at any moment


class Pace:
    """Chooses the pauses between looks."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._pause = min(_SOONEST, longest)

    def stirred(self) -> None:
        """Something happened: look often for a while."""
        self._pause = min(_SOONEST, self._longest)

    def calm(self) -> None:
        """Nothing happened since the last look: look less often."""
        self._pause = min(self._longest, self._pause * _BACK_OFF)

    def after_birth(self, cost: float) -> float:
        """Return the seconds from the last look to one that a new process makes worth while."""
        return max(min(self._pause, _AFTER_BIRTH), _PRICE * cost)

    def pause(self, cost: float, guarded: bool = False) -> float:
        """Return the seconds until the next look, after one that took `cost` seconds."""
        pause = min(self._pause, _GUARDED) if guarded else self._pause
        return max(pause, _PRICE * cost)


def usual_cost(before: float, cost: float) -> float:
    """Return what a look costs, given what it cost until now and this time.

    A single look can be expensive because the machine was busy elsewhere (a virtual one that was paused is charged for
    the pause). That alone must not keep us from looking again for a second.
    """
    return 0.5 * (before + min(cost, _OUTLIER * before)) if before else cost


def time_to_reach(room: float, rate: float, cost: float) -> float:
    """Return when to look again so that a value with this much room below its limit is not seen late.

    Half of the predicted time, so that the looks close in on the limit; a look's own cost sets the shortest pause.
    """
    return max(_CLOSEST, 2 * cost, 0.5 * room / max(rate, _SUDDEN))


class Credit:
    """Working time that may be spent on costly looks: a stock that refills slowly."""

    def __init__(self, stock: float, rate: float) -> None:
        self._stock = self._most = stock
        self._rate = rate
        self._filled = monotonic()

    def available(self) -> bool:
        """Whether a costly look may begin."""
        now = monotonic()
        self._stock = min(self._most, self._stock + (now - self._filled) * self._rate)
        self._filled = now
        return self._stock > 0

    def spend(self, seconds: float) -> None:
        """Take the cost of a look from the stock."""
        self._stock -= seconds
