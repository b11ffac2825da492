"""Sizers: what turns the past jobs of one category into ladders for the next, resource by resource.

Every strategy answers the same two calls, however it works inside: `observe` a job that finished, and give the
`ladder` of the next one. Most strategies are plain functions of a histogram, wrapped here.
"""

from collections.abc import Callable
from math import inf, nan
from typing import Protocol, TypeAlias

from tonnage.size.histograms import Histogram, Tally
from tonnage.size.ladders import Ladder, escalated, stretched

__all__ = ["FromHistogram", "Same", "Sizer", "Strategy", "WholeMachineFirst"]

Strategy: TypeAlias = Callable[[Histogram], Ladder]
"""What to try, given a past that is not empty; the last rung is at least the largest peak."""


class Sizer(Protocol):
    """Says how much of one resource a job of one category is to be tried with."""

    samples: int
    """How many jobs it has seen."""

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:
        """Take in a job that finished; an input of unknown size is NaN."""

    def ladder(self, input_bytes: float = nan) -> Ladder:
        """Return what the next job is to be tried with; the last rung is all there is."""


class Same:
    """Gives every job the same ladder."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:  # noqa: ARG002
        """Take in a job that finished."""
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:  # noqa: ARG002
        """Return what every job is tried with."""
        return self._ladder


class FromHistogram:
    """Asks a strategy about the histogram of all jobs so far; beyond the largest peak, steps grow to the machine."""

    def __init__(
        self,
        strategy: Strategy,
        capacity: float,
        *,
        width: float = 0.0,
        half_life: float | None = None,
        growth: float = 2.0,
        steps: float = inf,
        refit: float = 0.05,
        patience: float = 0.0,
        largest: float | None = None,
    ) -> None:
        """Prepare for the first job, which is given everything.

        The strategy is asked again when the jobs are more by the part `refit`; when a peak is the largest, already when
        they are more by the part `patience`. `largest` is what a job gets that exceeds all that was seen, where that is
        not simply the largest peak.
        """
        self._strategy = strategy
        self._capacity = capacity
        self._growth = growth
        self._steps = steps
        self._refit = refit
        self._patience = patience
        self._largest = largest
        self._tally = Tally(width=width, half_life=half_life)
        self._ask_at = 1
        self._asked = 0
        self._answer: Ladder = (capacity,)
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:  # noqa: ARG002
        """Take in a job that finished."""
        if peak > self._tally.largest:
            self._ask_at = min(self._ask_at, self._asked + int(self._asked * self._patience))
        self._tally.observe(peak, seconds)
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:  # noqa: ARG002
        """Return what the next job is to be tried with."""
        if self.samples and self.samples >= self._ask_at:
            self._asked = self.samples
            self._ask_at = self.samples + max(1, int(self.samples * self._refit))
            histogram = self._tally.histogram()
            if self._largest is not None:
                histogram = histogram.with_largest(max(self._largest, histogram.largest))
            growth = stretched(self._growth, self._tally.largest, self._capacity, self._steps)
            self._answer = escalated(self._strategy(histogram), self._capacity, growth)
        return self._answer


class WholeMachineFirst:
    """The online loop of Tovar et al., section 4.3, around any sizer: everything, until enough is known.

    With `again`, a job that exceeds the largest peak so far means that too little was known: everything once more.
    """

    def __init__(self, sizer: Sizer, capacity: float, *, jobs: int, again: bool = True) -> None:
        self._sizer = sizer
        self._capacity = capacity
        self._jobs = jobs
        self._again = again
        self._known_from = jobs
        self._largest = 0.0
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:
        """Take in a job that finished."""
        self._sizer.observe(peak, seconds, input_bytes)
        if peak > self._largest:
            self._largest = peak
            if self._again and self.samples >= self._known_from:
                self._known_from = self.samples + 1 + self._jobs
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:
        """Return what the next job is to be tried with."""
        if self.samples < self._known_from:
            return (self._capacity,)
        return self._sizer.ladder(input_bytes)
