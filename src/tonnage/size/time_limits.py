"""Time limits, learned while tasks run: a limit kills, so even most records must stay below it."""

from collections import deque
from math import isinf

import numpy as np

from tonnage.jobs import Decision, Resource
from tonnage.size.auto import guarantee
from tonnage.size.histograms import FloatArray
from tonnage.size.ladders import Ladder, escalated, of_rungs
from tonnage.size.rounding import few, rounded_time
from tonnage.wording import counted

__all__ = ["Times", "time_ladder"]

_GROWTH = 2.0
_FACTORS = 1, 2, 4
_KEPT = 5_000  # run times of a category: the newest
_MORE = 1.05  # the factor by which their number must grow before the limit is computed again


class Times:
    """Run times of the tasks of one category, and the resulting limit."""

    def __init__(self, category: str, longest: float) -> None:
        self.edition = 0
        """How often the limit was renewed."""
        self._category = category
        self._longest = longest
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        self._samples = 0
        self._look_again_at = 1.0
        self._record = 0.0
        self._decision = _unknown(category, longest)

    def observe(self, *seconds: float) -> None:
        """Learn from the run times of finished tasks."""
        self._seconds.extend(seconds)
        self._samples += len(seconds)
        longest = max(seconds, default=0.0)
        if self._samples and (self._samples >= self._look_again_at or longest > self._record):
            self._look_again_at = self._samples * _MORE
            self._record = max(longest, self._record)
            self._renew()

    def decide(self) -> Decision | None:
        """Return the time limit of the next task; None if nothing is known and no limit is required."""
        return self._decision

    def _renew(self) -> None:
        seconds = np.array(self._seconds)
        first = time_ladder(seconds, self._record)[0]
        # A task that takes longer than all earlier ones gets more, and finally the longest time possible.
        last = () if isinf(self._longest) else (self._longest,)
        ladder = of_rungs(*(min(factor * first, self._longest) for factor in _FACTORS), *last)
        if self._decision is not None and self._decision.ladder == ladder:
            return
        self.edition += 1
        shown = Resource.WALL_TIME.shown
        reason = f"guarantee of {counted(self._samples, 'job')}: the longest took {shown(self._record)}"
        self._decision = Decision(Resource.WALL_TIME, ladder, "guarantee", self._samples, reason)


def time_ladder(seconds: FloatArray, most: float) -> Ladder:
    """Return time limits: first one that even most records would stay below, then more, up to about `most`."""
    return few(of_rungs(*map(rounded_time, escalated(guarantee(seconds), most, _GROWTH))))


def _unknown(category: str, longest: float) -> Decision | None:
    if isinf(longest):
        return None
    reason = f"nothing is known about {category} yet: the longest time possible"
    return Decision(Resource.WALL_TIME, (longest,), "longest", 0, reason)
