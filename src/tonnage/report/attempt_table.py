"""Attempts as columns of numbers, and the few of them that a report shows one by one.

`Columns` has only what totals and pictures over time need, so that the page of a run with a million attempts can be
refreshed while the run goes on. `AttemptTable` adds what a report needs: a million attempts take a few hundred
megabytes and a few seconds, and the number of attempts on the page is bounded.
"""

import heapq
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tonnage.jobs import GIVEN, SHARED, Attempt, Decision, Outcome, Resource
from tonnage.report.figures.basics import FloatArray
from tonnage.run.journal import Reader
from tonnage.size.records import Records, collect, group_of
from tonnage.waste import account_for, allocation, held_seconds, held_seconds_each
from tonnage.workflow import Workflow

__all__ = [
    "OUTCOMES",
    "AttemptTable",
    "Columns",
    "Gathering",
    "Made",
    "Times",
    "columns_of",
    "outcomes_of",
    "seconds_of",
    "wasted_of",
]

OUTCOMES = {outcome: number for number, outcome in enumerate(Outcome)}
"""The number of each outcome."""
_RUNNING = len(OUTCOMES)
"""The outcome of attempts that have none yet."""
_TASKS_IN_TABLE = 2_000
_SAMPLE = 3_000
_LANES = 2_000
_SLOWEST = 10
_MOST_FAILED_OR_RETRIED = 20_000
_RESOURCES = {resource: number for number, resource in enumerate(Resource)}
_NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Attempts in the order in which they were read: arrays with one number per attempt, NaN if unknown."""

    categories: tuple[str, ...]
    category: NDArray[np.int64]
    number: NDArray[np.int64]
    submitted: FloatArray
    started: FloatArray
    ended: FloatArray
    seconds: FloatArray
    outcome: NDArray[np.int8]
    """One of OUTCOMES; _RUNNING if it has not ended, -1 if unknown."""
    given: Mapping[Resource, FloatArray]
    """What it was allocated, or if that is unknown, what it requested."""
    used: Mapping[Resource, FloatArray]

    def __len__(self) -> int:
        return len(self.category)

    @property
    def running(self) -> NDArray[np.bool_]:
        """Which attempts have not ended."""
        found: NDArray[np.bool_] = self.outcome == _RUNNING
        return found

    @property
    def done(self) -> NDArray[np.bool_]:
        """Which attempts succeeded, as far as is known."""
        found: NDArray[np.bool_] = (self.outcome == OUTCOMES[Outcome.DONE]) | (self.outcome == -1)
        return found

    def needed(self, resource: Resource) -> FloatArray:
        """Return what successful attempts used; NaN for those that did not succeed."""
        return np.where(self.done | self.running, self.used[resource], np.nan)


def columns_of(reader: Reader, now: float | None) -> Columns:
    """Read a journal; attempts without an end are running at `now`, or lost if `now` is None."""
    categories: dict[str, int] = {}
    none = _RUNNING if now is not None else OUTCOMES[Outcome.LOST]
    outcomes: dict[str | None, int] = {None: none} | {str(one): number for one, number in OUTCOMES.items()}
    pieces = [
        np.array([(_number(categories, name), outcomes[outcome], *rest) for name, outcome, *rest in rows], np.float64)
        for rows in reader.measures()
    ]
    table = np.concatenate(pieces) if pieces else np.empty((0, 7 + 2 * len(SHARED)))
    category, outcome, number, submitted, started, ended, *amounts, wall_time = table.T
    if now is not None:
        ended = np.where(outcome == _RUNNING, now, ended)
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
    """Return how many attempts had each outcome."""
    names = {-1: "unknown", _RUNNING: "running", **{number: str(one) for one, number in OUTCOMES.items()}}
    values, counts = np.unique(columns.outcome, return_counts=True)
    return Counter({names[int(value)]: int(number) for value, number in zip(values, counts, strict=True)})


@dataclass(frozen=True, slots=True)
class Made:
    """The decisions made for a category and a resource while its tasks ran."""

    decision: Decision
    """The decision based on the most past jobs; among equals the last."""
    amounts: int
    """How many different amounts first attempts were allocated, as far as they were counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """When each task of a workflow ran, by its index; NaN if it did not."""

    first: FloatArray
    last: FloatArray
    busy: FloatArray
    """The seconds of all its attempts together."""


@dataclass(frozen=True, slots=True, eq=False)
class AttemptTable(Columns):
    """Attempts as columns, with everything else that a report needs."""

    records: Records
    """Attempts that have ended, in the form used for sizing."""
    labels: tuple[str, ...]
    label: NDArray[np.int64]
    """The index of an attempt's label; -1 if none."""
    exhausted: NDArray[np.int8]
    """The index of the exhausted resource in `Resource`, or -1."""
    input_bytes: FloatArray
    made: Mapping[tuple[str, Resource], Made]
    tasks: int
    """How many different tasks there are, as far as is known."""
    ranked: list[Attempt]
    """Attempts that wasted the most memory, the worst first; if that is unknown, `ranked_by` says what counts.

    Attempts for which even that is unknown come last.
    """
    ranked_by: Literal["waste", "use", "time"]
    slowest: list[Attempt]
    sample: list[Attempt]
    """A random sample of attempts with known memory and time."""
    everything: list[Attempt] | None
    """All attempts, in order, if they are few enough to be drawn one by one."""
    failed_or_retried: list[Attempt]
    """Attempts that did not succeed, or came after one that did not."""
    times: Times | None


def seconds_of(attempt: Attempt) -> float | None:
    """Return how long an attempt ran."""
    return held_seconds(attempt.started, attempt.ended, attempt.used.wall_time)


def wasted_of(attempt: Attempt) -> float | None:
    """Return how much memory an attempt had and did not use, times seconds; None if unknown."""
    given, used, seconds = allocation(attempt, Resource.MEMORY), attempt.used.memory, seconds_of(attempt)
    if given is None or seconds is None or (attempt.finished and used is None):
        return None
    return account_for(given, used, seconds, succeeded=attempt.finished).wasted


class Gathering:
    """Collects attempts into a table, one by one."""

    def __init__(self, by: str = "category", workflow: Workflow | None = None) -> None:
        """Start empty; attempts are grouped as in `tonnage size --by`, and tasks of the workflow get their times."""
        self._by = by
        self._workflow = workflow
        self._categories: dict[str, int] = {}
        self._labels: dict[str, int] = {}
        self._numbers: dict[str, array[int]] = {
            name: array(kind)
            for name, kind in (("category", "q"), ("label", "q"), ("number", "q"), ("outcome", "b"), ("exhausted", "b"))
        }
        self._floats: dict[str, array[float]] = {
            name: array("d") for name in ("submitted", "started", "ended", "seconds", "input_bytes")
        }
        self._given: dict[Resource, array[float]] = {resource: array("d") for resource in GIVEN}
        self._used: dict[Resource, array[float]] = {resource: array("d") for resource in Resource}
        self._made: dict[tuple[str, Resource], Decision] = {}
        self._amounts: dict[tuple[str, Resource], set[float]] = {}
        self._wasteful = _Largest(_TASKS_IN_TABLE)
        self._hungry = _Largest(_TASKS_IN_TABLE)
        self._slowest = _Largest(_TASKS_IN_TABLE)
        self._sample = _Sample(_SAMPLE)
        self._everything: list[Attempt] | None = []
        self._failed_or_retried: list[Attempt] = []
        self._tasks: set[int] = set()
        self._nameless = 0
        size = len(workflow) if workflow else 0
        self._times = [np.full(size, np.nan), np.full(size, np.nan), np.zeros(size)]

    def gather(
        self, attempts: Iterable[Attempt], running: Iterable[Attempt] = (), now: float | None = None
    ) -> AttemptTable:
        """Return the table of attempts that have ended, and those running at `now`."""
        records = collect(self._passed(attempts), self._by)
        for attempt in running:
            self._take(attempt, now)
        return self._material(records)

    def _passed(self, attempts: Iterable[Attempt]) -> Iterator[Attempt]:
        for attempt in attempts:
            self._take(attempt, None)
            yield attempt

    def _take(self, attempt: Attempt, now: float | None) -> None:
        name = group_of(attempt, self._by)
        seconds, started, ended = _span(attempt, now)
        numbers, floats = self._numbers, self._floats
        numbers["category"].append(self._categories.setdefault(name, len(self._categories)))
        label = attempt.label
        numbers["label"].append(-1 if label is None else self._labels.setdefault(label, len(self._labels)))
        numbers["number"].append(attempt.number)
        outcome = _RUNNING if now is not None else -1 if attempt.outcome is None else OUTCOMES[attempt.outcome]
        numbers["outcome"].append(outcome)
        numbers["exhausted"].append(-1 if attempt.exhausted is None else _RESOURCES[attempt.exhausted])
        floats["submitted"].append(_NAN if attempt.submitted is None else attempt.submitted)
        floats["started"].append(started)
        floats["ended"].append(ended)
        floats["seconds"].append(seconds)
        floats["input_bytes"].append(_NAN if attempt.input_bytes is None else attempt.input_bytes)
        for resource, values in self._given.items():
            amount = allocation(attempt, resource)
            values.append(_NAN if amount is None else amount)
        for resource, values in self._used.items():
            used: float | None = getattr(attempt.used, resource)
            values.append(_NAN if used is None else used)
        if attempt.raw.get("decisions"):
            self._note_decisions(name, attempt)
        self._note_task(attempt, started, ended, seconds)
        self._keep(attempt, seconds, ended=now is None)

    def _note_decisions(self, name: str, attempt: Attempt) -> None:
        for decision in _decisions(attempt.raw["decisions"]):
            key = name, decision.resource
            before = self._made.get(key)
            if before is None or decision.samples >= before.samples:
                self._made[key] = decision
            amounts = self._amounts.setdefault(key, set())
            if attempt.number == 1 and len(amounts) < _TASKS_IN_TABLE:
                amounts.add(decision.amount)

    def _note_task(self, attempt: Attempt, started: float, ended: float, seconds: float) -> None:
        if attempt.task is None:
            self._nameless += 1
            return
        self._tasks.add(hash((attempt.run, attempt.task)))
        place = self._workflow.index.get(attempt.task) if self._workflow else None
        if place is not None and seconds == seconds:  # noqa: PLR0124 (a number)
            first, last, busy = self._times
            first[place] = np.fmin(first[place], started)
            last[place] = np.fmax(last[place], ended)
            busy[place] += seconds

    def _keep(self, attempt: Attempt, seconds: float, *, ended: bool) -> None:
        if self._everything is not None:
            if len(self._everything) < _LANES:
                self._everything.append(attempt)
            else:
                self._everything = None
        if (not attempt.finished or attempt.number > 1) and len(self._failed_or_retried) < _MOST_FAILED_OR_RETRIED:
            self._failed_or_retried.append(attempt)
        if not ended:
            return
        if seconds != seconds:  # noqa: PLR0124 (not a number)
            self._slowest.offer(-1.0, attempt)  # sorts last
            return
        self._slowest.offer(seconds, attempt)
        wasted, used = wasted_of(attempt), attempt.used.memory
        if wasted is not None:
            self._wasteful.offer(wasted, attempt)
        if used is not None:
            self._hungry.offer(used * seconds, attempt)
            self._sample.offer(attempt)

    def _material(self, records: Records) -> AttemptTable:
        by: Literal["waste", "use", "time"] = "waste" if len(self._wasteful) else "use" if len(self._hungry) else "time"
        first = {"waste": self._wasteful, "use": self._hungry, "time": self._slowest}[by].found()
        slowest, there = self._slowest.found(), {id(one) for one in first}
        numbers = {name: np.array(values) for name, values in self._numbers.items()}
        floats = {name: np.array(values) for name, values in self._floats.items()}
        return AttemptTable(
            records=records,
            categories=tuple(self._categories),
            category=numbers["category"],
            labels=tuple(self._labels),
            label=numbers["label"],
            number=numbers["number"],
            submitted=floats["submitted"],
            started=floats["started"],
            ended=floats["ended"],
            seconds=floats["seconds"],
            outcome=numbers["outcome"],
            exhausted=numbers["exhausted"],
            given={resource: np.array(values) for resource, values in self._given.items()},
            used={resource: np.array(values) for resource, values in self._used.items()},
            input_bytes=floats["input_bytes"],
            made={key: Made(one, len(self._amounts[key])) for key, one in self._made.items()},
            tasks=len(self._tasks) + self._nameless,
            ranked=[*first, *(one for one in slowest if id(one) not in there)][:_TASKS_IN_TABLE],
            ranked_by=by,
            slowest=[one for one in slowest if seconds_of(one) is not None][:_SLOWEST],
            sample=self._sample.found,
            everything=self._everything,
            failed_or_retried=self._failed_or_retried,
            times=Times(*self._times) if self._workflow is not None else None,
        )


def _span(attempt: Attempt, now: float | None) -> tuple[float, float, float]:
    """Return an attempt's duration, start and end, as far as they are known or can be derived."""
    started, ended, took = attempt.started, now if now is not None else attempt.ended, attempt.used.wall_time
    if started is None and ended is not None and took is not None:
        started = ended - took
    if ended is None and started is not None and took is not None:
        ended = started + took
    if started is not None and ended is not None:
        return held_seconds(started, ended, None if now is not None else took) or 0.0, started, max(started, ended)
    return (
        _NAN if took is None else took,
        _NAN if started is None else started,
        _NAN if ended is None else ended,
    )


def _decisions(stored: Any) -> Iterator[Decision]:  # noqa: ANN401 (what an archive holds)
    """Yield the decisions stored with an attempt; anything else is skipped."""
    for one in stored if isinstance(stored, list) else ():
        if isinstance(one, Decision):
            yield one
            continue
        try:
            yield Decision(**{**one, "resource": Resource(one["resource"]), "ladder": tuple(map(float, one["ladder"]))})
        except (TypeError, KeyError, ValueError):
            continue  # another program's field of the same name


class _Largest:
    """Keeps the attempts with the largest values of a measure."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._heap: list[tuple[float, int, Attempt]] = []
        self._turn = count()

    def __len__(self) -> int:
        return len(self._heap)

    def offer(self, measure: float, attempt: Attempt) -> None:
        """Keep an attempt if it is large enough."""
        if len(self._heap) < self._room:
            heapq.heappush(self._heap, (measure, -next(self._turn), attempt))
        elif measure > self._heap[0][0]:
            heapq.heapreplace(self._heap, (measure, -next(self._turn), attempt))

    def found(self) -> list[Attempt]:
        """Return them, the largest first."""
        return [attempt for _, _, attempt in sorted(self._heap, key=lambda one: (-one[0], -one[1]))]


class _Sample:
    """Keeps a uniform random sample of attempts; reproducible for the same attempts."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._seen = 0
        self._chance = random.Random(15)  # noqa: S311 (no secret)
        self.found: list[Attempt] = []

    def offer(self, attempt: Attempt) -> None:
        """Keep an attempt with the right probability."""
        self._seen += 1
        if len(self.found) < self._room:
            self.found.append(attempt)
            return
        place = int(self._chance.random() * self._seen)
        if place < self._room:
            self.found[place] = attempt
