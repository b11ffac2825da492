"""Jobs that ran, as arrays: what strategies are told, and what they are judged on."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jobs import Attempt, History, Resource
from tonnage.size.histograms import FloatArray

__all__ = ["Records", "collect", "group_of"]

_TEXTS = ("category", "label", "user", "host", "workflow", "executable", "command", "task", "run")
_NONE = ("", "none")


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Jobs, oldest first, each of a group; arrays with one number a job, NaN is unknown."""

    names: tuple[str, ...]
    """The groups, in the order of their first job."""
    group: NDArray[np.int64]
    """Which of them each job belongs to."""
    history: History
    memory_methods: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How memory was measured in each group, and of how many jobs, where that is known."""

    def __len__(self) -> int:
        return len(self.group)

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Records":
        """Return some of the jobs: those that are marked, or numbered."""
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
        order = np.argsort(self.group, kind="stable")
        parts = np.split(order, np.searchsorted(self.group[order], np.arange(1, len(self.names))))
        return {
            name: replace(self.only(part).history, memory_methods=self.memory_methods.get(name, {}))
            for name, part in zip(self.names, parts, strict=True)
        }


def group_of(attempt: Attempt, by: str) -> str:
    """Return the group of an attempt: by its category or another text, or by a field that the user gave it."""
    if by in _NONE:
        return "all"
    if by in _TEXTS:
        return getattr(attempt, by) or ""
    value = attempt.fields.get(by, attempt.raw.get(by))
    return "" if value is None else str(value)


def collect(attempts: Iterable[Attempt], by: str = "category") -> Records:
    """Return attempts as arrays, grouped by a text or a field of theirs; by "none", all are one group."""
    resources = tuple(Resource)
    used, requested = ({resource: array("d") for resource in resources} for _ in range(2))
    inputs, when, group, finished, ran_out = array("d"), array("d"), array("q"), bytearray(), array("b")
    numbers: dict[str, int] = {}
    methods: dict[str, Counter[str]] = defaultdict(Counter)
    done, again = set(), []  # tasks that finished, and attempts of tasks that may do so later
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
            f'no job has a field "{by}"', hint=f"one of {', '.join(_TEXTS)}, none, or a field that jobs were given"
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
    """Return when an attempt ended, as far as is known; those of which nothing is known come first."""
    for moment in (attempt.ended, attempt.started, attempt.submitted):
        if moment is not None:
            return moment
    return float("-inf")


def _numbers(values: "array[float]") -> FloatArray:
    return np.frombuffer(values, np.float64) if len(values) else np.empty(0)
