"""What to change: the few things that would save the most, each in a sentence."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tonnage.jobs import HOURS, History, Resource
from tonnage.report.accounts import Sums
from tonnage.report.paths import Chain
from tonnage.report.retries import Reason
from tonnage.report.told import counted, hours, ladder_text, name_of, percent
from tonnage.size import Histogram, Sized, cost
from tonnage.size.usage import Usage
from tonnage.units import format_seconds

__all__ = ["Advice", "Saving", "advise", "savings"]

_MOST = 4
_WORTH = 0.1
"""What saves a smaller part of what was given is not worth a sentence."""
_LITTLE = 0.02
"""What saves a smaller part of all that was given neither."""
_NOTICED = 0.01
_ALL_OF_IT = 0.7
_ORDER = (Resource.MEMORY, Resource.DISK, Resource.CORES)


@dataclass(frozen=True, slots=True)
class Saving:
    """What a category would have taken of a resource on the ladder that is recommended."""

    sized: Sized
    before: float
    """What it took, or where nobody knows what it was given, what the largest peak for all would have."""
    after: float
    known: bool
    """Whether it is known what it was given."""

    @property
    def amount(self) -> float:
        """How much less that is, times seconds."""
        return self.before - self.after

    @property
    def is_worth_it(self) -> bool:
        """Whether it saves more than what nobody would notice."""
        return self.amount > _NOTICED * self.before


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change, or to know."""

    about: str
    """The category; nothing where it is about all of them."""
    text: str
    kind: Literal["good", "bad", ""] = ""


def savings(
    sized: Sequence[Sized], histories: Mapping[str, History], sums: Mapping[str, Sums]
) -> dict[tuple[str, Resource], Saving]:
    """Return what each recommendation would have saved, against what jobs were given or else the largest peak."""
    found = {}
    for one in sized:
        resource = one.decision.resource
        if resource.unit not in HOURS or one.category not in sums:
            continue
        usage = Usage.of(histories[one.category], resource)
        peaks = np.minimum(usage.peaks, one.decision.ladder[-1])
        after = cost(one.decision.ladder, Histogram.of(peaks, usage.seconds)).paid
        before = sums[one.category].sized.get(resource, 0.0)
        known = before > 0
        found[one.category, resource] = Saving(one, before if known else after + one.saved, after, known)
    return found


def advise(
    total: Sums,
    found: Mapping[tuple[str, Resource], Saving],
    why: Sequence[Reason],
    chain: Chain | None,
    makespan: float | None,
) -> list[Advice]:
    """Return what to change, the most important first."""
    advice = list(_sizes(total, found))
    advice += _failures(why)
    if chain is not None and makespan:
        advice.append(_chain(chain, makespan))
    return advice or [Advice("", "Nothing stands out: sizes fit what tasks use, and none failed.", "good")]


def _sizes(total: Sums, found: Mapping[tuple[str, Resource], Saving]) -> list[Advice]:
    chosen: list[Advice] = []
    for resource in _ORDER:
        own = sorted((one for (_, of), one in found.items() if of is resource), key=lambda one: -one.amount)
        everything = max(total.accounts[resource].given if resource in total.accounts else 0.0, _sum(own))
        for one in own[: _MOST if resource is Resource.MEMORY else 1]:
            if one.amount > _WORTH * one.before and one.amount > _LITTLE * everything:
                chosen.append(_size(one, resource))
    return chosen[:_MOST]


def _sum(own: Sequence[Saving]) -> float:
    return sum(one.before for one in own)


def _size(one: Saving, resource: Resource) -> Advice:
    ladder = ladder_text(resource, one.sized.decision.ladder)
    took = f"took {hours(resource, one.before)} of {name_of(resource)}"
    if not one.known:
        against = "what was requested" if one.sized.compared_with == "requested" else "the largest peak for all"
        took = f"with {against}, would take {hours(resource, one.before)} of {name_of(resource)}"
    return Advice(
        one.sized.category,
        f"{took}. Tried with {ladder}, it would take {hours(resource, one.after)}: "
        f"{percent(one.amount / one.before)} less.",
    )


def _failures(why: Sequence[Reason]) -> list[Advice]:
    failed: Counter[str] = Counter()
    for one in why:
        if one.why == "failed":
            failed[one.category] += one.attempts
    return [
        Advice(category, f"{counted(many, 'attempt')} failed: see what they printed before sizes are changed.", "bad")
        for category, many in failed.most_common(2)
    ]


def _chain(chain: Chain, makespan: float) -> Advice:
    part = chain.seconds / makespan
    category, seconds = chain.by_category[0]
    longest = f"The longest chain of tasks takes {format_seconds(chain.seconds)} of {format_seconds(makespan)}"
    if part >= _ALL_OF_IT:
        return Advice(
            "",
            f"{longest}: more machines hardly help. Of the chain, {category} is {percent(seconds / chain.seconds)}; "
            "what makes it faster makes everything faster.",
        )
    return Advice("", f"{longest}: with more room at the same time it could be up to {1 / part:.1f} times as fast.")
