"""Decisions task by task during a run: the amounts to try for each, learned from every task that finished.

The rules are those of `sizing`, which decides once for a whole history. Two things are different here: at first nothing
is known about a category, and the same decision is needed very often, so it stays the same object until it changes.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, nan
from types import MappingProxyType
from typing import TypeVar

from tonnage.errors import DoesNotFitError
from tonnage.jobs import NOTHING_KNOWN, SHARED, Amounts, Decision, History, Resource
from tonnage.size.auto import Mixture
from tonnage.size.factory import Plan, explained, least, possible, practical, settings_for, strategy_for
from tonnage.size.histograms import Histogram, Tally
from tonnage.size.ladders import Ladder, escalated, grown, of_rungs
from tonnage.size.records import Usage, peak_of
from tonnage.size.rounding import coarse, few, rounded_input
from tonnage.size.rules import declared
from tonnage.size.sizers import Same
from tonnage.size.strategies import sizer
from tonnage.size.time_limits import Times
from tonnage.units import format_bytes

__all__ = ["Learner", "as_before", "climbed", "fits"]

_GROWTH = 2.0
_PARTS = 32
"""What a task used before is rounded up to one of this many sizes between powers of two."""
_MOST_KEPT = 1024  # decisions of one category, each for a different input or request
_A_LITTLE_MORE = 1.05
_Key = TypeVar("_Key")


class Learner:
    """Decides which amounts to try for each task, and learns from every task that finishes."""

    def __init__(self, plan: Plan, histories: Mapping[str, History] = MappingProxyType({})) -> None:
        """Prepare for tasks of any category; `histories` hold past tasks of some of them, oldest first."""
        self._plan = plan
        self._machine = {
            resource: possible(resource, plan.machine[resource]) for resource in SHARED if resource in plan.machine
        }
        self._longest = plan.machine.get(Resource.WALL_TIME)
        """The longest that a task may take; None if run times are not limited."""
        self._categories: dict[str, _Category] = {}
        self._new("")  # raises an error for an impossible plan now, before the first task
        for name, history in histories.items():
            self.remember(name, history)

    def remember(self, category: str, history: History) -> None:
        """Learn from past tasks of a category, oldest first."""
        self._category(category).remember(history)

    def decide(self, category: str, request: Amounts = NOTHING_KNOWN, input_bytes: float = nan) -> tuple[Decision, ...]:
        """Return the decisions for a task: cores, memory and disk, and its time if that is limited."""
        size = rounded_input(input_bytes)
        known = self._category(category)
        decisions = tuple([one.decide(getattr(request, one.resource), size) for one in known.resources])
        if request.wall_time is not None:
            return (*decisions, _time_limit(request.wall_time, self._longest or inf))
        limit = None if known.times is None else known.times.decide()
        return decisions if limit is None else (*decisions, limit)

    def edition(self, category: str) -> int:
        """Return a counter that changes whenever the decisions of a category do."""
        known = self._categories.get(category) or self._category(category)
        times = 0 if known.times is None else known.times.edition
        return times + sum([one.edition() for one in known.resources])

    def mean_seconds(self, category: str) -> float | None:
        """Return the mean run time of a category's tasks; None if none has finished."""
        known = self._categories.get(category)
        return None if known is None else known.mean_seconds()

    def observe(self, category: str, used: Amounts, input_bytes: float = nan) -> None:
        """Learn from a finished task: its peaks and its run time."""
        self._category(category).observe(used, input_bytes)

    def _category(self, name: str) -> "_Category":
        known = self._categories.get(name)
        if known is None:
            known = self._categories[name] = self._new(name)
        return known

    def _new(self, name: str) -> "_Category":
        known = [_Known(name, resource, self._machine, self._plan) for resource in self._machine]
        return _Category(known, None if self._longest is None else Times(name, self._longest))


class _Category:
    """What is known about the tasks of one category."""

    def __init__(self, resources: "Sequence[_Known]", times: Times | None) -> None:
        self.resources = resources
        self.times = times
        """Run times, if they are limited."""
        self._seconds = 0.0
        self._timed = 0

    def remember(self, history: History) -> None:
        """Learn from past tasks."""
        seconds = history.used[Resource.WALL_TIME]
        timed = seconds[history.finished & (seconds >= 0) & (seconds < inf)]
        self._seconds += float(timed.sum())
        self._timed += len(timed)
        if self.times is not None:
            self.times.observe(*timed.tolist())
        for one in self.resources:
            usage = Usage.of(history, one.resource)
            for peak, time, size in zip(
                usage.peaks.tolist(), usage.seconds.tolist(), usage.inputs.tolist(), strict=True
            ):
                one.observe(peak, time, size)

    def observe(self, used: Amounts, size: float) -> None:
        """Learn from a finished task."""
        seconds = self._counted(used.wall_time)
        for one in self.resources:
            peak = peak_of(used, one.resource)
            if peak is not None:
                one.observe(peak, seconds, size)

    def _counted(self, seconds: float | None) -> float:
        """Record a run time and return it; an unknown one is replaced by the mean."""
        if seconds is None or not 0 <= seconds < inf:
            return self.mean_seconds() or 1.0
        self._seconds += seconds
        self._timed += 1
        if self.times is not None:
            self.times.observe(seconds)
        return seconds

    def mean_seconds(self) -> float | None:
        """Return the mean run time of tasks; None if none has finished."""
        return self._seconds / self._timed if self._timed else None


class _Known:
    """What is known about a category's use of one resource, and the resulting decisions."""

    def __init__(self, category: str, resource: Resource, machine: Mapping[Resource, float], plan: Plan) -> None:
        self.resource = resource
        self._category = category
        self._plan = plan
        self._capacity = machine[resource]
        self._share = self._capacity / machine.get(Resource.CORES, 1.0)
        self._strategy = strategy_for(resource, plan)
        self._settings = settings_for(resource, self._capacity, plan)
        by_request = self._strategy == "declared"
        self._sizer = Same((self._capacity,)) if by_request else sizer(self._strategy, self._settings)
        self._tally = Tally(half_life=plan.half_life)
        self._histogram: Histogram | None = None
        self._general: Ladder = ()
        self._explain_again_at = 0
        self._edition = 0
        # Decisions by input size, by ladder, and by request while nothing else is known.
        self._decisions: dict[float, Decision] = {}
        self._by_ladder: dict[Ladder, Decision] = {}
        self._at_first: dict[float | None, Decision] = {}

    def observe(self, peak: float, seconds: float, size: float) -> None:
        """Learn from a finished task."""
        peak = min(peak, self._capacity)
        self._sizer.observe(peak, seconds, size)
        self._tally.observe(peak, seconds)

    def decide(self, request: float | None, size: float) -> Decision:
        """Return the decision for a task with this request and this input size."""
        if not self.edition():
            decision = self._at_first.get(request)
            return decision or _kept(self._at_first, request, self._first(request))
        return self._decisions.get(size) or _kept(self._decisions, size, self._learnt(size))

    def edition(self) -> int:
        """Renew decisions if necessary, and return how often this has happened; 0 if nothing has been learned."""
        if self._sizer.samples and self._strategy != "declared":
            general = self._sizer.ladder()
            if general is not self._general or self._sizer.samples >= self._explain_again_at:
                self._renew(general)
        return self._edition

    def _renew(self, general: Ladder) -> None:
        """Start new decisions; the explained ones are kept per ladder until the number of tasks has doubled."""
        self._edition += 1
        self._general, self._histogram, self._decisions = general, None, {}
        if self._sizer.samples >= self._explain_again_at:
            self._explain_again_at = 2 * self._sizer.samples
            self._by_ladder = {}

    def _learnt(self, size: float) -> Decision:
        ladder = practical(self._sizer.ladder(size), self._settings)
        return self._by_ladder.get(ladder) or _kept(self._by_ladder, ladder, self._explained(ladder, size))

    def _explained(self, ladder: Ladder, size: float) -> Decision:
        histogram = self._sizer.expected(size) if isinstance(self._sizer, Mixture) else None
        about = "" if histogram is None else f", for an input of {format_bytes(size)}"
        if histogram is None:
            histogram = self._histogram = self._histogram or self._tally.histogram().timed()
        return explained(self.resource, ladder, self._strategy, self._sizer.samples, histogram, about)

    def _first(self, request: float | None) -> Decision:
        """Return the decision when at most the request is known."""
        strategy, rungs, reason = self._guess(request)
        # Shares of a machine and requests have few sizes anyway, and rounding up would let fewer tasks run at once.
        ladder = practical(rungs, replace(self._settings, parts=None))
        return Decision(self.resource, ladder, strategy, 0, reason)

    def _guess(self, request: float | None) -> tuple[str, Ladder, str]:
        capacity, unknown = self._capacity, f"nothing is known about {self._category} yet"
        if request is not None:
            request = min(request if request > 0 else max(least(self.resource), 1.0), capacity)
        if self._strategy == "declared":
            if request is None:
                return "declared", (capacity,), "nothing is requested: the whole machine"
            return "declared", declared(request, capacity), "as requested, then the whole machine"
        if isinstance(self._sizer, Same):
            return self._strategy, self._sizer.ladder(), f"{self._strategy}: {unknown}"
        if request is None:
            return (
                "share",
                few(escalated((self._share,), capacity, _GROWTH)),
                f"{unknown}: a core's share of the machine",
            )
        return "requested", few(escalated((request,), capacity, _GROWTH)), f"as requested: {unknown}"


def fits(request: Amounts, machine: Mapping[Resource, float]) -> Resource | None:
    """Return a resource of which more is requested than the machine has; None if everything fits."""
    for resource in SHARED:
        amount: float | None = getattr(request, resource)
        if amount is not None and resource in machine and amount > possible(resource, machine[resource]):
            return resource
    return None


def climbed(
    decisions: Sequence[Decision], exhausted: Resource, *, seen: float | None = None, grow_all: bool = False
) -> tuple[Decision, ...] | None:
    """Return the decisions for the retry of a task that ran out of a resource; None if it cannot get more of it.

    Only the exhausted resource grows, or with `grow_all` everything. It grows beyond what the attempt was `seen` to
    use: with less it would run out again.
    """
    ran_out = [one.resource is exhausted for one in decisions]
    if not any(ran_out):
        return None
    try:
        rungs = grown([one.rung for one in decisions], [one.ladder for one in decisions], ran_out, grow_all=grow_all)
    except DoesNotFitError:
        return None
    place = ran_out.index(True)
    ladder = decisions[place].ladder
    rungs[place] = max(rungs[place], bisect_right(ladder, seen or 0.0))
    if rungs[place] == len(ladder):
        return None
    return tuple(
        one if one.rung == rung else replace(one, rung=rung) for one, rung in zip(decisions, rungs, strict=True)
    )


def as_before(decisions: Sequence[Decision], memory: float, *, parts: int | None = None) -> tuple[Decision, ...]:
    """Return decisions for a task that used this much memory before: that amount first, then those of its category.

    A little is added, because no two runs of a program use exactly the same, and small amounts are hard to measure.
    `parts` is as in a Plan.
    """
    first = max(coarse(memory * _A_LITTLE_MORE, parts or _PARTS), least(Resource.MEMORY))
    return tuple(_from(one, first) if one.resource is Resource.MEMORY else one for one in decisions)


@lru_cache(maxsize=_MOST_KEPT)
def _from(decision: Decision, first: float) -> Decision:
    last = decision.ladder[-1]
    if first >= last:
        return decision
    ladder = few(of_rungs(first, *(rung for rung in decision.ladder if rung > first)))
    reason = f"earlier runs of this task stayed within {decision.resource.shown(first)}"
    return Decision(decision.resource, ladder, "as-before", 1, reason)


@lru_cache(maxsize=_MOST_KEPT)
def _time_limit(seconds: float, longest: float) -> Decision:
    rungs = of_rungs(*(min(factor * seconds, longest) for factor in (1, 2, 4)))
    return Decision(Resource.WALL_TIME, rungs, "requested", 0, "time limit of the task, doubled on a retry")


def _kept(decisions: dict[_Key, Decision], key: _Key, decision: Decision) -> Decision:
    """Cache a decision and return it; if there are too many, the earlier ones are dropped."""
    if len(decisions) >= _MOST_KEPT:
        decisions.clear()
    decisions[key] = decision
    return decision
