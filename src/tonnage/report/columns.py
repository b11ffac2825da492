"""Attempts as columns of numbers: what sums and pictures over time need, and no more.

So that the page of a run with a million attempts can be made again and again while it goes on.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonnage.accounting import held_seconds_each
from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.report.figures.basics import FloatArray
from tonnage.run.journal import Reader

__all__ = ["OUTCOMES", "RUNNING", "Columns", "columns_of", "outcomes_of"]

OUTCOMES = {outcome: number for number, outcome in enumerate(Outcome)}
"""The numbers that outcomes have here."""
RUNNING = len(OUTCOMES)
"""The outcome of what has none yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Attempts in the order in which they came; arrays with one number an attempt, NaN is unknown."""

    categories: tuple[str, ...]
    category: NDArray[np.int64]
    number: NDArray[np.int64]
    submitted: FloatArray
    started: FloatArray
    ended: FloatArray
    seconds: FloatArray
    outcome: NDArray[np.int8]
    """One of OUTCOMES; RUNNING for what has not ended, -1 where it is unknown."""
    given: Mapping[Resource, FloatArray]
    """What it was allocated, or where that is not known what it requested."""
    used: Mapping[Resource, FloatArray]

    def __len__(self) -> int:
        return len(self.category)

    @property
    def running(self) -> NDArray[np.bool_]:
        """Which of them have not ended."""
        found: NDArray[np.bool_] = self.outcome == RUNNING
        return found

    @property
    def done(self) -> NDArray[np.bool_]:
        """Which of them succeeded, as far as is known."""
        found: NDArray[np.bool_] = (self.outcome == OUTCOMES[Outcome.DONE]) | (self.outcome == -1)
        return found

    def needed(self, resource: Resource) -> FloatArray:
        """What attempts used for something: those that did not succeed used nothing."""
        return np.where(self.done | self.running, self.used[resource], np.nan)


def columns_of(reader: Reader, now: float | None) -> Columns:
    """Read a journal; attempts without an end run `now`, and where nobody executes them, they are lost."""
    categories: dict[str, int] = {}
    none = RUNNING if now is not None else OUTCOMES[Outcome.LOST]
    outcomes: dict[str | None, int] = {None: none} | {str(one): number for one, number in OUTCOMES.items()}
    pieces = [
        np.array([(_number(categories, name), outcomes[outcome], *rest) for name, outcome, *rest in rows], np.float64)
        for rows in reader.measures()
    ]
    table = np.concatenate(pieces) if pieces else np.empty((0, 7 + 2 * len(SHARED)))
    category, outcome, number, submitted, started, ended, *amounts, wall_time = table.T
    if now is not None:
        ended = np.where(outcome == RUNNING, now, ended)
    return Columns(
        categories=tuple(categories),
        category=category.astype(np.int64),
        number=number.astype(np.int64),
        submitted=submitted,
        started=started,
        ended=np.maximum(ended, started),
        seconds=held_seconds_each(started, ended, wall_time),
        outcome=outcome.astype(np.int8),
        given=dict(zip(SHARED, amounts[: len(SHARED)], strict=True)),
        used=dict(zip(SHARED, amounts[len(SHARED) :], strict=True)),
    )


def _number(known: dict[str, int], name: str) -> int:
    return known.setdefault(name, len(known))


def outcomes_of(columns: Columns) -> Counter[str]:
    """Return how many attempts ended how."""
    names = {-1: "unknown", RUNNING: "running", **{number: str(one) for one, number in OUTCOMES.items()}}
    values, counts = np.unique(columns.outcome, return_counts=True)
    return Counter({names[int(value)]: int(number) for value, number in zip(values, counts, strict=True)})
