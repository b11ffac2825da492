"""Decisions for a task that has run before: more on a retry, in a later run what it has used."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from tonnage.errors import DoesNotFitError
from tonnage.jobs import Decision, Resource
from tonnage.size.factory import least
from tonnage.size.ladders import grown, of_rungs
from tonnage.size.rounding import coarse, few

__all__ = ["AS_BEFORE", "after_running_out", "as_before", "climbed"]

AS_BEFORE = "as-before"
"""The strategy of a task that gets what its own earlier runs have used."""

_PARTS = 32
"""What a task used before is rounded up to one of this many sizes between powers of two."""
_MOST_KEPT = 1024  # decisions
_A_LITTLE_MORE = 1.05
_RAN_OUT = "; it ran out at "


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
    tried = decisions[place]
    rungs[place] = max(rungs[place], bisect_right(tried.ladder, seen or 0.0))
    if rungs[place] == len(tried.ladder):
        return None
    more = [one if one.rung == rung else replace(one, rung=rung) for one, rung in zip(decisions, rungs, strict=True)]
    more[place] = after_running_out(tried, rungs[place], max(tried.amount, seen or 0.0))
    return tuple(more)


def after_running_out(decision: Decision, rung: int, ran_out_at: float) -> Decision:
    """Return a decision for the next attempt of a task, whose reason says where the last one ended."""
    why = decision.reason.partition(_RAN_OUT)[0]
    return replace(decision, rung=rung, reason=f"{why}{_RAN_OUT}{decision.resource.format_amount(ran_out_at)}")


def as_before(
    decisions: Sequence[Decision], memory: float, *, parts: int | None = None, requested: float | None = None
) -> tuple[Decision, ...]:
    """Return decisions for a task that used this much memory before: that amount first, then those of its category.

    A little is added, because no two runs of a program use exactly the same, and small amounts are hard to measure.
    `parts` is as in a Plan; `requested` is what the task must get at least.
    """
    first = max(coarse(memory * _A_LITTLE_MORE, parts or _PARTS), least(Resource.MEMORY))
    at_least = requested or 0.0
    return tuple(_from(one, first, at_least) if one.resource is Resource.MEMORY else one for one in decisions)


@lru_cache(maxsize=_MOST_KEPT)
def _from(decision: Decision, used: float, requested: float) -> Decision:
    last, first = decision.ladder[-1], max(used, requested)
    if first >= last:
        return decision
    ladder = few(of_rungs(first, *(rung for rung in decision.ladder if rung > first)))
    before = f"earlier runs of this task stayed within {decision.resource.format_amount(used)}"
    if requested > used:
        return Decision(decision.resource, ladder, "requested", 1, f"as requested; {before}")
    return Decision(decision.resource, ladder, AS_BEFORE, 1, before)
