"""What to change: the few things that would save the most, each in a sentence."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tonnage.jobs import HOURS, History, Resource
from tonnage.report.accounts import Sums
from tonnage.report.attempt_table import Columns
from tonnage.report.critical_path import Chain
from tonnage.report.retries import Reason
from tonnage.report.source import ReportSource
from tonnage.report.text import counted, hours, ladder_text, name_of, percent
from tonnage.size import Histogram, Sized, cost
from tonnage.size.records import Usage
from tonnage.units import format_seconds

__all__ = ["Advice", "Saving", "advise", "savings"]

_MOST = 4
_FAILING = 2
"""As many categories with failures have a sentence of their own."""
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
    subject: ReportSource,
    columns: Columns,
    total: Sums,
    found: Mapping[tuple[str, Resource], Saving],
    why: Sequence[Reason],
    chain: Chain | None,
    makespan: float | None,
) -> list[Advice]:
    """Return what to change and what is not known, the most important first."""
    advice = [*_sizes(total, found), *(_failures(why) or _given_up(subject.failures)), *_ends(why)]
    if chain is not None and makespan:
        advice.append(_chain(chain, makespan))
    advice += _unknown(columns, some=not advice)
    return advice or [_all_is_well(subject, columns)]


def _all_is_well(subject: ReportSource, columns: Columns) -> Advice:
    if subject.state not in ("", "finished"):
        return Advice("", f"The run is {subject.state}: tasks used about as much memory as they had so far.")
    none = "none is known to have failed" if (columns.outcome == -1).any() else "none failed"
    return Advice("", f"Nothing stands out: tasks used about as much memory as they had, and {none}.", "good")


def _unknown(columns: Columns, *, some: bool) -> Iterator[Advice]:
    """Yield what is not known of all attempts, or of `some`: then the others fit."""
    ended, memory = ~columns.running, Resource.MEMORY
    sought = {"used": (columns.used, ended & columns.done), "asked for": (columns.given, ended)}
    dark = {verb: int((among & ~np.isfinite(known[memory])).sum()) for verb, (known, among) in sought.items()}
    many = {verb: int(among.sum()) for verb, (_, among) in sought.items()}
    wholly = [verb for verb in sought if dark[verb] and dark[verb] == many[verb]]
    if wholly:
        text = f"It is unknown how much memory tasks {' and '.join(wholly)}"
        yield Advice("", f"{text}, so nothing can be said about how well sizes fit.")
    elif some:
        for verb in (verb for verb in sought if dark[verb]):
            part = f"{dark[verb]:,} of {counted(many[verb], 'attempt')}"
            yield Advice("", f"It is unknown how much memory some tasks {verb} ({part}). The sizes of the others fit.")


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
    first, others = failed.most_common(_FAILING), failed.most_common()[_FAILING:]
    advice = [
        Advice(
            category,
            f"{counted(many, 'attempt')} failed: look at what {'it' if many == 1 else 'they'} printed "
            "before you change sizes.",
            "bad",
        )
        for category, many in first
    ]
    if others:
        attempts = counted(sum(many for _, many in others), "attempt")
        advice.append(Advice("", f"{attempts} of {counted(len(others), 'other category')} failed, too.", "bad"))
    return advice


def _given_up(failures: Mapping[str, str]) -> list[Advice]:
    """Say which tasks failed of which no attempt did: nothing was large enough for them, say."""
    if not failures:
        return []
    task, why = next(iter(failures.items()))
    return [Advice("", f"{counted(len(failures), 'task')} failed, such as {task}: {why}", "bad")]


def _ends(why: Sequence[Reason]) -> list[Advice]:
    """Say how other attempts ended that did not succeed."""
    ends: Counter[str] = Counter()
    for one in why:
        if one.why != "failed":
            ends[one.why] += one.attempts
    if not ends:
        return []
    how = ", ".join(_end(end, many) for end, many in ends.most_common())
    return [Advice("", f"{counted(ends.total(), 'attempt')} did not finish: {how}.")]


def _end(why: str, many: int) -> str:
    resource = why.removesuffix(" exhausted")
    if resource == why:
        return f"{many:,} {'was' if many == 1 else 'were'} {why}"
    return f"{many:,} reached the time limit" if resource == "wall time" else f"{many:,} ran out of {resource}"


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
