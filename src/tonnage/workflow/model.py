"""The model of a workflow: tasks and their dependencies."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from posixpath import normpath
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tonnage.errors import CycleError, InputError
from tonnage.jobs import NOTHING_KNOWN, Amounts
from tonnage.units import Bytes
from tonnage.workflow.graph import Cycle, FloatArray, Graph

__all__ = ["CriticalPath", "Edges", "Source", "SpecialTask", "Task", "Workflow", "file_edges", "total_size"]

Edges: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Dependencies as two lists of task numbers of the same length: the parents, and the children that wait for them."""


@dataclass(frozen=True, slots=True)
class Task:
    """One node of a workflow: a command, what it reads, writes and requests, and what it is expected to use."""

    name: str
    command: str | None = None
    """The shell command; None if the workflow file has none."""
    category: str = "task"
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    request: Amounts = NOTHING_KNOWN
    """What the user requests."""
    expected: Amounts = NOTHING_KNOWN
    """What the task will use, as far as known: its run time is `expected.wall_time`."""
    input_bytes: Bytes | None = None
    priority: int | None = None
    directory: str | None = None
    """The working directory, relative to the workflow file."""
    gpus: int = 0
    """The number of GPUs requested; the batch system allocates them, Tonnage does not size them."""


@dataclass(frozen=True, slots=True)
class SpecialTask:
    """A task outside the DAG: DAGMan's FINAL, PROVISIONER and SERVICE nodes."""

    kind: Literal["final", "provisioner", "service"]
    task: Task


@dataclass(frozen=True, slots=True)
class Source:
    """Where a workflow was read from, and warnings about the file."""

    path: Path
    format: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The chain of tasks that takes longest; more machines cannot make the workflow faster than this."""

    seconds: float
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Workflow:
    """Tasks and their dependencies: immutable, without cycles, with unique names."""

    name: str
    tasks: tuple[Task, ...]
    graph: Graph
    special: tuple[SpecialTask, ...] = ()
    source: Source | None = field(default=None, compare=False)

    @classmethod
    def build(
        cls,
        name: str,
        tasks: Sequence[Task],
        edges: Edges = ((), ()),
        *,
        special: Sequence[SpecialTask] = (),
        source: Source | None = None,
    ) -> "Workflow":
        """Build a workflow after checking that names are unique and that there are no cycles."""
        path = source.path if source else None
        _reject_duplicates([task.name for task in (*tasks, *(one.task for one in special))], path)
        try:
            graph = Graph.from_edges(len(tasks), *edges)
        except Cycle as cycle:
            raise CycleError([tasks[index].name for index in cycle.tasks], path=path) from None
        return cls(name=name, tasks=tuple(tasks), graph=graph, special=tuple(special), source=source)

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The number of each task by its name."""
        return {task.name: number for number, task in enumerate(self.tasks)}

    @cached_property
    def categories(self) -> dict[str, int]:
        """The number of tasks in each category, the largest first."""
        counts = Counter(task.category for task in self.tasks)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def seconds(self) -> FloatArray:
        """The expected run time of each task; NaN if it is unknown."""
        times = (task.expected.wall_time for task in self.tasks)
        return np.fromiter((np.nan if time is None else time for time in times), dtype=np.float64, count=len(self))

    @cached_property
    def total_seconds(self) -> float | None:
        """The sum of all run times, or None if one is unknown."""
        return float(self.seconds.sum()) if self._all_times_known else None

    @cached_property
    def critical_path(self) -> CriticalPath | None:
        """The chain of tasks that takes longest, or None if a run time is unknown."""
        if not self._all_times_known:
            return None
        seconds, tasks = self.graph.longest_path(self.seconds)
        return CriticalPath(seconds, tuple(tasks))

    @cached_property
    def _all_times_known(self) -> bool:
        return len(self) > 0 and not bool(np.isnan(self.seconds).any())

    @cached_property
    def checksum(self) -> str:
        """A hash of names, commands, categories and dependencies that does not depend on the order of tasks.

        Priorities, requests and run times are not included, so that ranking or sizing a workflow keeps its history.
        """
        digest = hashlib.sha256()
        by_name = sorted(range(len(self)), key=lambda number: self.tasks[number].name)
        for number in by_name:
            task = self.tasks[number]
            for text in (task.name, task.command, task.category):
                if text is None:
                    digest.update(b"\xff" * 8)  # no text is that long
                    continue
                encoded = text.encode("utf-8", "surrogatepass")
                digest.update(len(encoded).to_bytes(8, "little") + encoded)
        rank = np.empty(len(self), dtype=np.int64)
        rank[by_name] = np.arange(len(self))
        keys = rank[self.graph.edge_parents()] * max(len(self), 1) + rank[self.graph.child]
        digest.update(np.sort(keys).astype("<i8").tobytes())
        return digest.hexdigest()

    def with_priorities(self, priorities: Mapping[str, int]) -> "Workflow":
        """Return the same workflow with these priorities; other tasks keep theirs."""
        tasks = tuple(
            replace(task, priority=priorities[task.name]) if task.name in priorities else task for task in self.tasks
        )
        return replace(self, tasks=tasks)

    def with_requests(self, requests: Mapping[str, Amounts]) -> "Workflow":
        """Return the same workflow with these requests; all others stay unchanged."""
        tasks = tuple(
            replace(task, request=task.request.updated(requests[task.name])) if task.name in requests else task
            for task in self.tasks
        )
        return replace(self, tasks=tasks)


def total_size(sizes: Iterable[int | None]) -> Bytes | None:
    """Return the sum of all sizes, or None if there are none or one is unknown."""
    listed = list(sizes)
    known = [size for size in listed if size is not None]
    return Bytes(sum(known)) if known and len(known) == len(listed) else None


def file_edges(tasks: Sequence[Task], *, path: object = None) -> tuple[list[int], list[int]]:
    """Return the dependencies that files imply: a task that reads a file waits for the task that writes it.

    Raises InputError if two tasks write the same file, because it would be unclear which one a reader waits for.
    """
    writer: dict[str, int] = {}
    for number, task in enumerate(tasks):
        for name in task.outputs:
            other = writer.setdefault(normpath(name), number)
            if other != number:
                both = f'"{tasks[other].name}" and "{task.name}"'
                raise InputError(f'file "{name}" is written by two tasks: {both}', path=path)
    parents: list[int] = []
    children: list[int] = []
    for number, task in enumerate(tasks):
        for name in task.inputs:
            origin = writer.get(normpath(name))
            if origin is not None:
                parents.append(origin)
                children.append(number)
    return parents, children


def _reject_duplicates(names: Iterable[str], path: object) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f'two tasks are named "{name}"', path=path)
        seen.add(name)
