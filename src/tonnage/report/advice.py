"""Advice: the few changes that would save the most, each in a sentence."""

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
from tonnage.report.text import hours, ladder_text, name_of, percent
from tonnage.run.failed_tasks import FailedTask
from tonnage.size import Histogram, Sized, cost
from tonnage.size.records import Usage
from tonnage.units import format_seconds
from tonnage.wording import counted

__all__ = ["Advice", "Saving", "advise", "savings"]

_MOST = 4
_FAILING = 2
"""How many categories with failures get a sentence of their own."""
_WORTH = 0.1
"""A saving must be a larger fraction of the category's allocation to be worth a sentence."""
_LITTLE = 0.02
"""A saving must also be a larger fraction of the allocation of all categories."""
_NOTICED = 0.01
_ALL_OF_IT = 0.7
_ORDER = (Resource.MEMORY, Resource.DISK, Resource.CORES)


@dataclass(frozen=True, slots=True)
class Saving:
    """How much of a resource a category would have been allocated on the recommended ladder."""

    sized: Sized
    before: float
    """What it was allocated; if that is unknown, what the largest peak for all jobs would have taken."""
    after: float
    known: bool
    """Whether its allocation is known."""

    @property
    def amount(self) -> float:
        """How much less the ladder takes, in amounts times seconds."""
        return self.before - self.after

    @property
    def is_worth_it(self) -> bool:
        """Whether it saves a noticeable amount."""
        return self.amount > _NOTICED * self.before


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change, or to know."""

    about: str
    """The category; empty if it is about all of them."""
    text: str
    kind: Literal["good", "bad", ""] = ""


def savings(
    sized: Sequence[Sized], histories: Mapping[str, History], sums: Mapping[str, Sums]
) -> dict[tuple[str, Resource], Saving]:
    """Return what each recommendation would have saved, compared with the allocations or else the largest peak."""
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
        found[one.category, resource] = Saving(one, before if known else after + one.saved - one.added, after, known)
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
    """Return what to change and what is unknown, the most important first."""
    advice = [*_sizes(total, found), *(_failures(why) or _failed_tasks(subject.failures)), *_ends(why)]
    advice += [Advice("", f"{one}: look at that node, which was avoided.", "bad") for one in subject.bad_nodes]
    if chain is not None and makespan:
        advice.append(_chain(chain, makespan))
    advice += _unknown(columns, some=not advice)
    return advice or [_all_is_well(subject, columns)]


def _all_is_well(subject: ReportSource, columns: Columns) -> Advice:
    if subject.state not in ("", "finished"):
        return Advice("", f"The run is {subject.state}: so far tasks used about as much memory as they had.")
    none = "none is known to have failed" if (columns.outcome == -1).any() else "none failed"
    return Advice("", f"Nothing stands out: tasks used about as much memory as they had, and {none}.", "good")


def _unknown(columns: Columns, *, some: bool) -> Iterator[Advice]:
    """Yield what is unknown for all attempts, or with `some` for a part of them: the sizes of the others fit."""
    ended, memory = ~columns.running, Resource.MEMORY
    questions = {"used": (columns.used, ended & columns.done), "requested": (columns.given, ended)}
    unknown = {verb: int((among & ~np.isfinite(known[memory])).sum()) for verb, (known, among) in questions.items()}
    total = {verb: int(among.sum()) for verb, (_, among) in questions.items()}
    all_unknown = [verb for verb in questions if unknown[verb] and unknown[verb] == total[verb]]
    if all_unknown:
        text = f"It is unknown how much memory tasks {' and '.join(all_unknown)}"
        yield Advice("", f"{text}, so nothing can be said about how well sizes fit.")
    elif some:
        for verb in (verb for verb in questions if unknown[verb]):
            part = f"{unknown[verb]:,} of {counted(total[verb], 'attempt')}"
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
        against = "the current requests" if one.sized.compared_with == "requested" else "the largest peak for all"
        took = f"would take {hours(resource, one.before)} of {name_of(resource)} with {against}"
    return Advice(
        one.sized.category,
        f"{took}. With {ladder}, it would take {hours(resource, one.after)}: {percent(one.amount / one.before)} less.",
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
            f"{counted(many, 'attempt')} failed: look at {'its' if many == 1 else 'their'} output "
            "before you change sizes.",
            "bad",
        )
        for category, many in first
    ]
    if others:
        attempts = counted(sum(many for _, many in others), "attempt")
        advice.append(Advice("", f"{attempts} in {counted(len(others), 'other category')} failed, too.", "bad"))
    return advice


def _failed_tasks(failures: Sequence[FailedTask]) -> list[Advice]:
    """Return advice on tasks that failed without a failed attempt, for example because no machine was large enough."""
    if not failures:
        return []
    first = failures[0]
    return [Advice("", f"{counted(len(failures), 'task')} failed, for example {first.title}: {first.reason}", "bad")]


def _ends(why: Sequence[Reason]) -> list[Advice]:
    """Return advice on attempts that did not succeed for another reason than a failure."""
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
            f"{longest}: more machines hardly help. {category} is {percent(seconds / chain.seconds)} of the chain; "
            "making it faster makes everything faster.",
        )
    return Advice("", f"{longest}: running more tasks at once could make it up to {1 / part:.1f} times as fast.")
