"""Past jobs as arrays: what strategies learn from, what they are judged on, and how much each job needed."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jobs import Attempt, History, Resource
from tonnage.size.checks import NO_CORE, RAN_OUT_NEEDS
from tonnage.size.histograms import FloatArray

__all__ = ["Records", "Usage", "collect", "group_of"]

_TEXTS = ("category", "label", "user", "host", "workflow", "executable", "command", "task", "run")
_NONE = ("", "none")


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Jobs, oldest first, each in a group; arrays with one number per job, NaN if unknown."""

    names: tuple[str, ...]
    """The groups, in the order of their first job."""
    group: NDArray[np.int64]
    """The index of each job's group."""
    history: History
    memory_methods: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How many jobs of each group had their memory measured by which method, as far as known."""

    def __len__(self) -> int:
        return len(self.group)

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Records":
        """Return the jobs that a mask or a list of indices selects."""
        history = self.history
        return Records(
            self.names,
            self.group[chosen],
            History(
                used={resource: values[chosen] for resource, values in history.used.items()},
                requested={resource: values[chosen] for resource, values in history.requested.items()},
                input_bytes=history.input_bytes[chosen],
                finished=history.finished[chosen],
                ran_out=history.ran_out[chosen],
            ),
            self.memory_methods,
        )

    def histories(self) -> Mapping[str, History]:
        """Return the history of each group."""
        if not self.names:
            return {}
        order = np.argsort(self.group, kind="stable")
        parts = np.split(order, np.searchsorted(self.group[order], np.arange(1, len(self.names))))
        return {
            name: replace(self.only(part).history, memory_methods=self.memory_methods.get(name, {}))
            for name, part in zip(self.names, parts, strict=True)
        }


def group_of(attempt: Attempt, by: str) -> str:
    """Return the group of an attempt: its category or another text attribute, or a field that the user gave it."""
    if by in _NONE:
        return "all"
    if by in _TEXTS:
        return getattr(attempt, by) or ""
    value = attempt.fields.get(by, attempt.raw.get(by))
    return "" if value is None else str(value)


def collect(attempts: Iterable[Attempt], by: str = "category") -> Records:
    """Collect attempts into arrays, grouped by a text attribute or a field; "none" puts all into one group."""
    resources = tuple(Resource)
    used, requested = ({resource: array("d") for resource in resources} for _ in range(2))
    inputs, when, group, finished, ran_out = array("d"), array("d"), array("q"), bytearray(), array("b")
    numbers: dict[str, int] = {}
    methods: dict[str, Counter[str]] = defaultdict(Counter)
    done, again = set(), []  # tasks that finished, and failed attempts of tasks that may finish later
    nan = float("nan")
    for number, attempt in enumerate(attempts):
        name = group_of(attempt, by)
        group.append(numbers.setdefault(name, len(numbers)))
        for resource in resources:
            value = getattr(attempt.used, resource)
            used[resource].append(nan if value is None else value)
            value = getattr(attempt.requested, resource)
            requested[resource].append(nan if value is None else value)
        if attempt.used.wall_time is None and attempt.started is not None and attempt.ended is not None:
            used[Resource.WALL_TIME][-1] = max(0.0, attempt.ended - attempt.started)
        inputs.append(nan if attempt.input_bytes is None else attempt.input_bytes)
        when.append(_moment(attempt))
        finished.append(attempt.finished)
        ran_out.append(-1 if attempt.exhausted is None else resources.index(attempt.exhausted))
        if attempt.task is not None and attempt.finished:
            done.add(hash((attempt.run, attempt.task)))
        elif attempt.task is not None and attempt.exhausted is not None:
            again.append((number, hash((attempt.run, attempt.task))))
        if attempt.finished and attempt.used.memory is not None and attempt.memory_method:
            methods[name][attempt.memory_method] += 1
    if by not in (*_NONE, *_TEXTS) and set(numbers) <= {""}:
        raise InputError(
            f'no job has a field "{by}"', hint=f"use {', '.join(_TEXTS)}, none, or a field that you gave to jobs"
        )
    for number, task in again:
        if task in done:
            ran_out[number] = -1
    order = np.argsort(_numbers(when), kind="stable")
    history = History(
        used={resource: _numbers(values)[order] for resource, values in used.items()},
        requested={resource: _numbers(values)[order] for resource, values in requested.items()},
        input_bytes=_numbers(inputs)[order],
        finished=np.frombuffer(finished, np.bool_)[order],
        ran_out=np.array(ran_out, np.int8)[order],
    )
    return Records(tuple(numbers), np.array(group, np.int64)[order], history, methods)


def _moment(attempt: Attempt) -> float:
    """Return when an attempt ended, or else started or was submitted; attempts without any time come first."""
    for moment in (attempt.ended, attempt.started, attempt.submitted):
        if moment is not None:
            return moment
    return float("-inf")


def _numbers(values: "array[float]") -> FloatArray:
    return np.frombuffer(values, np.float64) if len(values) else np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """The jobs of a category whose need of one resource is known; one number per job."""

    peaks: FloatArray
    seconds: FloatArray
    inputs: FloatArray
    requested: FloatArray
    """What each job requested; NaN if unknown."""
    seen: float | None
    """The largest peak that was measured."""
    ran_out: int
    """How many of them ran out of the resource, so that their need is a guess."""
    left_out: int
    """How many jobs cannot be used: they did not finish, or were not measured."""
    averaged: bool
    """Whether cores are an average, CPU time divided by run time, because the peak was not measured."""

    def __len__(self) -> int:
        return len(self.peaks)

    @classmethod
    def of(cls, history: History, resource: Resource) -> "Usage":
        """Extract the use of one resource from a history."""
        peaks, averaged = _peaks(history, resource)
        known = history.finished & (peaks >= 0) & (peaks < inf)
        requested = history.requested.get(resource, np.full(len(history), np.nan))
        had = np.fmax(peaks, requested)
        ran_out = _ran_out(history, resource) & (had > 0) & (had < inf)
        chosen = known | ran_out
        measured = peaks[chosen & (peaks >= 0) & (peaks < inf)]
        peaks = np.where(ran_out, had * RAN_OUT_NEEDS, peaks)
        return cls(
            peaks=peaks[chosen],
            seconds=_seconds(history.used[Resource.WALL_TIME][chosen]),
            inputs=history.input_bytes[chosen],
            requested=requested[chosen],
            seen=float(measured.max()) if len(measured) else None,
            ran_out=int(ran_out.sum()),
            left_out=int(len(history) - chosen.sum()),
            averaged=averaged,
        )


def _peaks(history: History, resource: Resource) -> tuple[FloatArray, bool]:
    """Return the peaks of jobs, cores as whole numbers, and whether they are averages."""
    peaks = history.used[resource]
    if resource is not Resource.CORES:
        return peaks, False
    averaged = not (peaks >= 0).any()
    if averaged:
        seconds, busy = history.used[Resource.WALL_TIME], history.used[Resource.CPU_TIME]
        peaks = np.divide(busy, seconds, out=np.full(len(history), np.nan), where=seconds > 0)
    return np.maximum(np.ceil(peaks - NO_CORE), 1.0), averaged


def _ran_out(history: History, resource: Resource) -> NDArray[np.bool_]:
    ran_out: NDArray[np.bool_] = history.ran_out == list(Resource).index(resource)
    return ran_out


def _seconds(seconds: FloatArray) -> FloatArray:
    """Return run times with the mean in place of unknown ones; if all are 0, every job counts the same."""
    timed = (seconds >= 0) & (seconds < inf)
    filled = np.where(timed, seconds, seconds[timed].mean() if timed.any() else 1.0)
    return filled if filled.any() else np.ones(len(seconds))
