"""Sizers turn the past jobs of one category into ladders for the next ones, resource by resource.

Every strategy has the same two methods, however it works inside: `observe` a finished job, and return the `ladder` of
the next one. Most strategies are plain functions of a histogram, wrapped here.
"""

from collections.abc import Callable
from math import inf, nan
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tonnage.size.ladders import Ladder, escalated, stretched
from tonnage.size.tally import Tally

if TYPE_CHECKING:
    from tonnage.size.histograms import Histogram

__all__ = ["FromHistogram", "Later", "Same", "Sizer", "Strategy", "WholeMachineFirst"]

Strategy: TypeAlias = Callable[["Histogram"], Ladder]
"""Returns the ladder for a histogram that is not empty; the last rung is at least the largest peak."""


class Sizer(Protocol):
    """Decides how much of one resource to try for jobs of one category."""

    samples: int
    """How many jobs it has seen."""

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:
        """Learn from a finished job; an input of unknown size is NaN."""

    def ladder(self, input_bytes: float = nan) -> Ladder:
        """Return the amounts to try for the next job; the last rung is the whole capacity."""


class Same:
    """Gives every job the same ladder."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:  # noqa: ARG002
        """Learn from a finished job."""
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:  # noqa: ARG002
        """Return the amounts to try for every job."""
        return self._ladder


class Later:
    """Keeps jobs until a ladder is needed, and only then builds the sizer, which may take long to import."""

    def __init__(self, build: Callable[[], Sizer]) -> None:
        self._build = build
        self._built: Sizer | None = None
        self._kept: list[tuple[float, float, float]] = []
        self.samples = 0

    def observe(self, peak: float, seconds: float, input_bytes: float = nan) -> None:
        """Learn from a finished job."""
        self._kept.append((peak, seconds, input_bytes))
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:
        """Return the amounts to try for the next job."""
        return self.sizer().ladder(input_bytes)

    def sizer(self) -> Sizer:
        """Return the sizer that has seen all jobs."""
        if self._built is None:
            self._built = self._build()
        for job in self._kept:
            self._built.observe(*job)
        self._kept.clear()
        return self._built


class FromHistogram:
    """Applies a strategy to the histogram of all jobs so far; beyond the largest peak, rungs grow up to the machine."""

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
        """Start without history: the first job is given everything.

        The strategy is applied again when the number of jobs has grown by the fraction `refit`, or after a new largest
        peak already by the fraction `patience`. `largest` is what a job gets after exceeding everything observed, if
        that is not simply the largest peak.
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
        """Learn from a finished job."""
        if peak > self._tally.largest:
            self._ask_at = min(self._ask_at, self._asked + int(self._asked * self._patience))
        self._tally.observe(peak, seconds)
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:  # noqa: ARG002
        """Return the amounts to try for the next job."""
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
    """The online loop of Tovar et al., section 4.3, around any sizer: give everything until enough is known.

    With `again`, a job that exceeds the largest peak so far means that too little was known: give everything again.
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
        """Learn from a finished job."""
        self._sizer.observe(peak, seconds, input_bytes)
        if peak > self._largest:
            self._largest = peak
            if self._again and self.samples >= self._known_from:
                self._known_from = self.samples + 1 + self._jobs
        self.samples += 1

    def ladder(self, input_bytes: float = nan) -> Ladder:
        """Return the amounts to try for the next job."""
        if self.samples < self._known_from:
            return (self._capacity,)
        return self._sizer.ladder(input_bytes)
