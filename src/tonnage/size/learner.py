"""Decisions task by task during a run: the amounts to try for each, learned from every task that finished.

The rules are those of `recommend`, which decides once for a whole history. Three things are different here: at first
nothing is known about a category; the same decision is needed very often, so it stays the same object until it changes;
and of a task that ran out of a resource and was not yet retried, it is only known that it needs more.
"""

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import inf, nan
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from tonnage.jobs import GIVEN, NOTHING_KNOWN, SHARED, Amounts, Decision, History, Resource
from tonnage.size.checks import RAN_OUT_NEEDS, peak_of
from tonnage.size.factory import (
    Plan,
    explained,
    learns_rungs,
    least,
    possible,
    practical,
    settings_for,
    strategy_for,
)
from tonnage.size.fixed import declared
from tonnage.size.ladders import Ladder, escalated, of_rungs
from tonnage.size.reruns import after_running_out, climbed
from tonnage.size.rounding import few, rounded_input
from tonnage.size.sizers import Later, Same, Sizer
from tonnage.size.strategies import sizer
from tonnage.size.tally import Tally
from tonnage.units import format_bytes
from tonnage.wording import counted

if TYPE_CHECKING:
    from tonnage.size.histograms import Histogram
    from tonnage.size.time_limits import Times

__all__ = ["FirstGuess", "Learner", "exceeded"]

_GROWTH = 2.0
_MOST_KEPT = 1024  # decisions of one category, each for a different input or request
_TOO_FEW = 1 / 16
"""If the tasks that ran out are a smaller fraction of those that finished, they hardly change the best ladder."""
_MOST = 0.5
_MODEST = 0.75
"""Of a core's share: as many tasks as there are cores can start, beside the reserve for their growth."""
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class FirstGuess:
    """What jobs with the same name used in other workflows: nothing to rely on, but better than no idea."""

    memory: float
    jobs: int
    name: str
    """Their category or program."""


class Learner:
    """Decides which amounts to try for each task, and learns from every task that finishes."""

    def __init__(
        self,
        plan: Plan,
        histories: Mapping[str, History] = MappingProxyType({}),
        guesses: Mapping[str, FirstGuess] = MappingProxyType({}),
    ) -> None:
        """Prepare for tasks of any category; `histories` hold past tasks of some of them, oldest first.

        `guesses` are for categories of which nothing is known. They are for runs in which tasks can outgrow their
        allocations: a wrong guess must not end a task.
        """
        self._plan = plan
        self._guesses = guesses
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
        limit = None if known.times is None else known.times.decide()
        declared = request.wall_time
        if declared is not None and not (limit is not None and limit.samples and limit.amount > declared):
            limit = _time_limit(declared, self._longest or inf)
        return decisions if limit is None else (*decisions, limit)

    def retry(
        self,
        category: str,
        decisions: Sequence[Decision],
        exhausted: Resource,
        seen: float | None,
        request: Amounts = NOTHING_KNOWN,
        input_bytes: float = nan,
    ) -> tuple[Decision, ...] | None:
        """Return the decisions for the retry of a task that ran out of a resource; None if it cannot get more of it.

        It gets the next amount of its own decision, or of what its category's tasks get by now if that is more.
        """
        more = climbed(decisions, exhausted, seen=seen)
        if more is None or not learns_rungs(self._plan.strategy):
            return more
        place = [one.resource for one in decisions].index(exhausted)
        now = next((one for one in self.decide(category, request, input_bytes) if one.resource is exhausted), None)
        if now is None or not now.samples:
            return more
        least = max(decisions[place].amount, seen or 0.0)
        rung = bisect_right(now.ladder, least)
        if rung == len(now.ladder) or now.ladder[rung] <= more[place].amount:
            return more
        return (*more[:place], after_running_out(now, rung, least), *more[place + 1 :])

    def edition(self, category: str) -> int:
        """Return a counter that changes whenever the decisions of a category do."""
        known = self._categories.get(category) or self._category(category)
        times = 0 if known.times is None else known.times.edition
        return times + sum([one.edition() for one in known.resources])

    def mean_seconds(self, category: str) -> float | None:
        """Return the mean run time of a category's tasks; None if none has finished."""
        known = self._categories.get(category)
        return None if known is None else known.mean_seconds()

    def observe(self, category: str, used: Amounts, input_bytes: float = nan, task: Hashable = None) -> None:
        """Learn from a finished task: its peaks and its run time.

        `task` identifies a task of which attempts may have run out before: now its need is known.
        """
        self._category(category).observe(used, input_bytes, task)

    def observe_exhausted(
        self, category: str, task: Hashable, exhausted: Resource, seen: float, input_bytes: float = nan
    ) -> None:
        """Learn from an attempt that ran out of a resource: until its task finishes, it counts as needing more."""
        self._category(category).observe_exhausted(task, exhausted, seen, rounded_input(input_bytes))

    def _category(self, name: str) -> "_Category":
        known = self._categories.get(name)
        if known is None:
            known = self._categories[name] = self._new(name)
        return known

    def _new(self, name: str) -> "_Category":
        guess = self._guesses.get(name)
        known = [_Known(name, resource, self._machine, self._plan, guess) for resource in self._machine]
        return _Category(known, self._times(name))

    def _times(self, name: str) -> "Times | None":
        if self._longest is None:
            return None
        from tonnage.size.time_limits import Times

        return Times(name, self._longest)


class _Category:
    """What is known about the tasks of one category."""

    def __init__(self, resources: "Sequence[_Known]", times: "Times | None") -> None:
        self.resources = resources
        self.times = times
        """Run times, if they are limited."""
        self._seconds = 0.0
        self._timed = 0

    def remember(self, history: History) -> None:
        """Learn from past tasks."""
        from tonnage.size.records import Usage

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

    def observe_exhausted(self, task: Hashable, exhausted: Resource, seen: float, size: float) -> None:
        """Learn from an attempt that ran out of a resource."""
        if exhausted is Resource.WALL_TIME and self.times is not None:
            self.times.observe_exhausted(task, seen)
        for one in self.resources:
            if one.resource is exhausted:
                one.observe_exhausted(task, seen, size)

    def observe(self, used: Amounts, size: float, task: Hashable = None) -> None:
        """Learn from a finished task."""
        if self.times is not None:
            self.times.settle(task)
        seconds = self._counted(used.wall_time)
        for one in self.resources:
            one.settle(task)
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

    def __init__(
        self,
        category: str,
        resource: Resource,
        machine: Mapping[Resource, float],
        plan: Plan,
        guess: FirstGuess | None = None,
    ) -> None:
        self.resource = resource
        self._guessed = guess if resource is Resource.MEMORY else None
        self._respected = plan.respects(category)
        self._category = category
        self._plan = plan
        self._capacity = machine[resource]
        self._modest = plan.can_grow and resource is Resource.MEMORY
        share = self._capacity / machine.get(Resource.CORES, 1.0)
        self._share = _MODEST * share if self._modest else share
        self._strategy = strategy_for(resource, plan)
        self._settings = settings_for(resource, self._capacity, plan)
        self._sizer = self._new_sizer()
        self._tally = Tally(half_life=plan.half_life)
        self._histogram: Histogram | None = None
        self._general: Ladder = ()
        self._explain_again_at = 0
        self._edition = 0
        self._unfinished: dict[Hashable, tuple[float, float]] = {}
        """Tasks that ran out and have not finished yet: what they were seen to use, and the size of their input."""
        # Decisions by request and input size, by ladder, and by request while nothing else is known.
        self._decisions: dict[tuple[float | None, float], Decision] = {}
        self._by_ladder: dict[Ladder, Decision] = {}
        self._at_first: dict[float | None, Decision] = {}

    def _new_sizer(self) -> Sizer:
        if self._strategy == "declared":
            return Same((self._capacity,))
        build = partial(sizer, self._strategy, self._settings)
        # These need numpy, whose import would delay the first task; if it is the only one, nothing is ever computed.
        return Later(build) if learns_rungs(self._strategy) else build()

    def observe(self, peak: float, seconds: float, size: float) -> None:
        """Learn from a finished task."""
        peak = min(peak, self._capacity)
        self._sizer.observe(peak, seconds, size)
        self._tally.observe(peak, seconds)

    def observe_exhausted(self, task: Hashable, seen: float, size: float) -> None:
        """Learn that a task needs more than it was seen to use."""
        before, _ = self._unfinished.get(task, (0.0, size))
        self._unfinished[task] = max(seen, before), size
        self._forget_decisions()

    def settle(self, task: Hashable) -> None:
        """Forget that a task ran out, because it has finished."""
        if self._unfinished and self._unfinished.pop(task, None) is not None:
            self._forget_decisions()

    def _forget_decisions(self) -> None:
        """Decide anew if the tasks that ran out are many enough to make a difference, or just were."""
        if len(self._unfinished) + 1 > self._sizer.samples * _TOO_FEW:
            self._edition += 1
            self._decisions, self._at_first = {}, {}

    def decide(self, request: float | None, size: float) -> Decision:
        """Return the decision for a task with this request and this input size."""
        self.edition()
        if not self._has_learnt:
            decision = self._at_first.get(request)
            return decision or _kept(self._at_first, request, self._first(request))
        key = request if self._respected else None, size
        return self._decisions.get(key) or _kept(self._decisions, key, self._at_least(key[0], self._learnt(size)))

    @property
    def _has_learnt(self) -> bool:
        return self._sizer.samples > 0 and self._strategy != "declared"

    def edition(self) -> int:
        """Renew decisions if necessary, and return how often this has happened."""
        if self._has_learnt:
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
        decision = self._by_ladder.get(ladder) or _kept(self._by_ladder, ladder, self._explained(ladder, size))
        if len(self._unfinished) > self._sizer.samples * _TOO_FEW and learns_rungs(self._plan.strategy):
            expected, by_input = self._expected(size)
            alike = [seen for seen, other in self._unfinished.values() if not by_input or other <= size]
            return self._above(decision, alike, expected)
        return decision

    def _explained(self, ladder: Ladder, size: float) -> Decision:
        histogram, by_input = self._expected(size)
        about = f", for an input of {format_bytes(size)}" if by_input else ""
        return explained(self.resource, ladder, self._strategy, self._sizer.samples, histogram, about)

    def _expected(self, size: float) -> "tuple[Histogram, bool]":
        """Return the needs to be expected of a task, and whether they depend on the size of its input."""
        from tonnage.size.auto import Mixture

        made = self._sizer.sizer() if isinstance(self._sizer, Later) else self._sizer
        histogram = made.expected(size) if isinstance(made, Mixture) else None
        if histogram is not None:
            return histogram, True
        self._histogram = self._histogram or self._tally.histogram().timed()
        return self._histogram, False

    def _above(self, decision: Decision, ran_out: Sequence[float], expected: "Histogram") -> Decision:
        """Return a decision without the first rungs if tasks that ran out show that they are not worth a try.

        A rung is not worth it if it would cost more than it saves, or if most tasks would need more.
        """
        if not ran_out:
            return decision
        from tonnage.size.costs import cost

        needs = [min(RAN_OUT_NEEDS * seen, self._capacity) for seen in ran_out]
        ladder = practical(of_rungs(*decision.ladder, max(needs)), self._settings)
        costs = [cost(ladder[rung:], expected.with_more(needs)) for rung in range(len(ladder))]
        first = min(range(len(ladder)), key=lambda rung: costs[rung].paid)
        while costs[first].retried_fraction > _MOST:
            first += 1
        if not first:
            return decision
        most = self.resource.format_amount(max(ran_out))
        reason = f"{decision.reason}; {counted(len(ran_out), 'task')} ran out of {self.resource}, at up to {most}"
        return replace(decision, ladder=ladder[first:], reason=reason)

    def _at_least(self, request: float | None, decision: Decision) -> Decision:
        """Return a decision that gives no less than is requested."""
        if request is None or decision.amount >= request:
            return decision
        request = min(request, self._capacity)
        rungs = of_rungs(request, *(rung for rung in decision.ladder if rung > request))
        return replace(
            decision,
            ladder=practical(rungs, replace(self._settings, parts=None)),
            strategy="requested",
            reason=f"as requested; {decision.reason}",
            expected_waste=None,
            expected_retries=None,
        )

    def _first(self, request: float | None) -> Decision:
        """Return the decision when at most the request is known."""
        strategy, rungs, reason = self._guess(request)
        # Shares of a machine and requests have few sizes anyway, and rounding up would let fewer tasks run at once.
        ladder = practical(rungs, replace(self._settings, parts=None))
        decision = Decision(self.resource, ladder, strategy, 0, reason)
        if self._unfinished and strategy in ("share", "requested", "guess"):
            ran_out = [seen for seen, _ in self._unfinished.values()]
            decision = self._above(decision, ran_out, self._tally.histogram())
        return self._at_least(request, decision) if self._respected else decision

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
        if request is None and self._guessed is not None:
            jobs = f"{self._guessed.jobs:,} jobs called {self._guessed.name} in other workflows"
            first = min(max(self._guessed.memory, least(self.resource)), capacity)
            return "guess", few(escalated((first,), capacity, _GROWTH)), f"a first guess from {jobs}"
        if request is None:
            return (
                "share",
                few(escalated((self._share,), capacity, _GROWTH)),
                f"{unknown}: a core's share of the machine{', less some room to grow' if self._modest else ''}",
            )
        return "requested", few(escalated((request,), capacity, _GROWTH)), f"as requested: {unknown}"


def exceeded(request: Amounts, machine: Mapping[Resource, float]) -> Resource | None:
    """Return a resource of which more is requested than the machine has; None if everything fits."""
    for resource in GIVEN:
        amount: float | None = getattr(request, resource)
        if amount is not None and resource in machine and amount > possible(resource, machine[resource]):
            return resource
    return None


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
