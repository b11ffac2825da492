"""Time limits, learned while tasks run: a limit kills, so even most records must stay below it."""

from collections import deque
from collections.abc import Hashable
from math import isinf

import numpy as np

from tonnage.jobs import Decision, Resource
from tonnage.size.auto import guarantee
from tonnage.size.checks import RAN_OUT_NEEDS
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
        self._unfinished: dict[Hashable, float] = {}
        """Tasks that ran out of time and have not finished yet, and how long they ran."""
        self._decision = _unknown(category, longest)

    def observe_exhausted(self, task: Hashable, seconds: float) -> None:
        """Learn that a task needs more time than it had."""
        self._unfinished[task] = max(seconds, self._unfinished.get(task, 0.0))
        self._renew()

    def settle(self, task: Hashable) -> None:
        """Forget that a task ran out of time, because it has finished."""
        if self._unfinished and self._unfinished.pop(task, None) is not None:
            self._renew()

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
        if not self._seconds:
            return  # the longest time possible, or no limit at all, is not too little
        needed = [RAN_OUT_NEEDS * one for one in self._unfinished.values()]
        first = time_ladder(np.array([*self._seconds, *needed]), max(self._record, *needed, 0.0))[0]
        # A task that takes longer than all earlier ones gets more, and finally the longest time possible.
        last = () if isinf(self._longest) else (self._longest,)
        ladder = of_rungs(*(min(factor * first, self._longest) for factor in _FACTORS), *last)
        if self._decision is not None and self._decision.ladder == ladder:
            return
        self.edition += 1
        shown = Resource.WALL_TIME.format_amount
        reason = f"guarantee of {counted(self._samples, 'job')}: the longest took {shown(self._record)}"
        if self._unfinished:
            tasks, most = counted(len(self._unfinished), "task"), shown(max(self._unfinished.values()))
            reason += f"; {tasks} ran out of time, after up to {most}"
        self._decision = Decision(Resource.WALL_TIME, ladder, "guarantee", self._samples, reason)


def time_ladder(seconds: FloatArray, most: float) -> Ladder:
    """Return time limits: first one that even most records would stay below, then more, up to about `most`."""
    return few(of_rungs(*map(rounded_time, escalated(guarantee(seconds), most, _GROWTH))))


def _unknown(category: str, longest: float) -> Decision | None:
    if isinf(longest):
        return None
    reason = f"nothing is known about {category} yet: the longest time possible"
    return Decision(Resource.WALL_TIME, (longest,), "longest", 0, reason)
