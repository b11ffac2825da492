"""What to give the jobs of a category, with its pictures: the same decisions as those of `tonnage size`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tonnage.archive import Archive, Search, count_up_to, histories
from tonnage.archive.history import MOST
from tonnage.errors import InputError
from tonnage.jobs import GIVEN, History, Resource
from tonnage.option_values import amounts
from tonnage.report.figures import Figure, histogram
from tonnage.report.text import name_of
from tonnage.serve.cache import Cache
from tonnage.size import WITH_OBJECTIVE, Objective, Plan, Sized, size
from tonnage.size.strategies import FROM_PEAKS

__all__ = ["MOST", "OFFERED", "CategorySizes", "Question", "category_sizes", "sizes"]

OFFERED = FROM_PEAKS
"""Strategies that need no more than the jobs of a category."""
_DRAWN = (Resource.MEMORY, Resource.DISK, Resource.CORES, Resource.WALL_TIME)
_COUNTED = 10_000_000
_MOST_TOGETHER = 20_000
"""So many of the newest jobs are looked at for the sizes of several categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be known: for which jobs, and how they are sized."""

    category: str | None = None
    """None: of all categories."""
    workflow: str | None = None
    strategy: str = "auto"
    objective: Objective | None = None
    machine: str = ""
    """What the largest machine has: ``cores=16,memory=64GiB``."""

    def plan(self) -> Plan:
        """Return how they are sized; raises InputError."""
        if self.strategy not in OFFERED:
            raise InputError(f'"{self.strategy}" is not a strategy', hint=f"one of {', '.join(OFFERED)}")
        if self.objective is not None and self.strategy not in WITH_OBJECTIVE:
            hint = f"it is for {' and '.join(WITH_OBJECTIVE)}"
            raise InputError(f"an objective has no meaning with the strategy {self.strategy}", hint=hint)
        machine = amounts([self.machine], "machine") if self.machine.strip() else {}
        return Plan(strategy=self.strategy, objective=self.objective or "waste", resources=GIVEN, machine=machine)


@dataclass(frozen=True, slots=True)
class CategorySizes:
    """What is known about a category's jobs, and what to give them."""

    jobs: int
    """How many there are."""
    looked_at: int
    """How many of them, the newest, the sizes come from."""
    finished: int
    """How many of these finished."""
    sized: Sequence[Sized]
    figures: Mapping[Resource, Figure]
    problem: InputError | None
    """Why they cannot be sized like that."""

    @property
    def by_resource(self) -> dict[Resource, Sized]:
        """What to give of each resource, in the order of the pictures."""
        found = {one.decision.resource: one for one in self.sized}
        return {resource: found[resource] for resource in _DRAWN if resource in found}

    def facts(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "jobs": self.jobs,
            "looked_at": self.looked_at,
            "finished": self.finished,
            "allocations": [one.facts() for one in self.sized],
            "figures": {str(resource): figure for resource, figure in self.figures.items()},
        }


def category_sizes(archive: Archive, kept: Cache, question: Question) -> CategorySizes | None:
    """Return what to give the jobs of a category; None where there are none."""
    state = archive.state()
    return kept.get(f"category {question}", state, lambda: _category_sizes(archive, kept, state, question))


def _category_sizes(
    archive: Archive, kept: Cache, state: tuple[object, ...], question: Question
) -> CategorySizes | None:
    found, jobs = _histories(archive, kept, state, question)
    if not found:
        return None
    ((_, history),) = found.items()
    sized: list[Sized] = []
    problem = None
    try:
        sized = size(found, question.plan())
    except InputError as error:
        problem = error
    return CategorySizes(jobs, len(history), int(history.finished.sum()), sized, _figures(history, sized), problem)


def sizes(archive: Archive, kept: Cache, question: Question) -> Sequence[Sized]:
    """Return what to give the jobs of one category, or of each; raises InputError where nobody knows."""
    plan, state = question.plan(), archive.state()
    found = kept.get(f"sizes {question}", state, lambda: size(_histories(archive, kept, state, question)[0], plan))
    if not found:
        raise InputError("no stored job is like that, finished and with a known use")
    return found


def _histories(
    archive: Archive, kept: Cache, state: tuple[object, ...], question: Question
) -> tuple[Mapping[str, History], int]:
    """Return what the newest of the jobs used, and how many there are in all; another strategy asks nothing anew."""
    search = Search(category=question.category, workflow=question.workflow)
    newest = MOST if question.category is not None else _MOST_TOGETHER

    def ask() -> tuple[Mapping[str, History], int]:
        found = histories(archive, search, newest=newest)
        looked_at = sum(len(history) for history in found.values())
        return found, looked_at if looked_at < newest else count_up_to(archive, search, _COUNTED)

    return kept.get(f"histories {search}", state, ask)


def _figures(history: History, sized: Sequence[Sized]) -> dict[Resource, Figure]:
    """Return a histogram of each resource of which the use is known, with what jobs are tried with drawn in."""
    decided = {one.decision.resource: one for one in sized}
    found = {}
    for resource in _DRAWN:
        peaks = history.used[resource][history.finished]
        if np.isfinite(peaks).any():
            one = decided.get(resource)
            found[resource] = histogram(
                peaks,
                resource,
                decision=None if one is None else one.decision,
                requested=None if one is None else one.requested,
                title=f"How many jobs had which peak of {name_of(resource)}",
            )
    return found
