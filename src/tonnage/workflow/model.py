"""The model of a workflow: tasks and their dependencies."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Literal, TypeAlias

from tonnage.errors import CycleError, InputError
from tonnage.jobs import NOTHING_KNOWN, Amounts
from tonnage.units import Bytes
from tonnage.workflow.names import title_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tonnage.workflow.graph import FloatArray, Graph

__all__ = ["CriticalPath", "Edges", "Source", "SpecialTask", "Task", "Workflow", "file_edges", "total_size"]

Edges: TypeAlias = "tuple[Sequence[int] | NDArray[np.integer], Sequence[int] | NDArray[np.integer]]"
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
    line: int | None = field(default=None, compare=False)
    """Its line in a list of commands, which people know it by; its name survives if other lines are inserted."""

    @property
    def title(self) -> str:
        """What people call it: its name or, in a list of commands, its line and the head of its command."""
        return title_of(self.name, self.line, self.command)


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
    dependencies: "Graph | None" = None
    """None if no task waits for another: such a workflow is read and run without numpy, which takes long to import."""
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
        graph = _graph(tasks, edges, path) if any(map(len, edges)) else None
        return cls(name=name, tasks=tuple(tasks), dependencies=graph, special=tuple(special), source=source)

    def __post_init__(self) -> None:
        if self.dependencies is not None and not self.dependencies.edges:
            object.__setattr__(self, "dependencies", None)  # so that equal workflows are equal

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def graph(self) -> "Graph":
        """The dependencies, even if there are none."""
        from tonnage.workflow.graph import Graph

        return self.dependencies or Graph.from_edges(len(self), (), ())

    def children_of(self, task: int) -> list[int]:
        """Return the tasks that wait for a task."""
        return [] if self.dependencies is None else self.dependencies.children_of(task).tolist()

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
    def seconds(self) -> "FloatArray":
        """The expected run time of each task; NaN if it is unknown."""
        import numpy as np

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
        import numpy as np

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
        if self.dependencies is not None:
            digest.update(self.dependencies.renumbered(by_name))
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

    def needed_for(self, tasks: Iterable[int]) -> "Workflow":
        """Return the workflow of these tasks and all that they depend on."""
        stack = list(tasks)
        kept = set(stack)
        while stack:
            for parent in self.graph.parents_of(stack.pop()).tolist():
                if parent not in kept:
                    kept.add(parent)
                    stack.append(parent)
        place = {number: place for place, number in enumerate(sorted(kept))}
        edges = [(place[parent], place[child]) for child in place for parent in self.graph.parents_of(child).tolist()]
        found = tuple(self.tasks[number] for number in place)
        graph = _graph(found, ([parent for parent, _ in edges], [child for _, child in edges]), None)
        return replace(self, tasks=found, dependencies=graph if edges else None)


def _graph(tasks: Sequence[Task], edges: Edges, path: Path | None) -> "Graph":
    from tonnage.workflow.graph import Cycle, Graph

    try:
        return Graph.from_edges(len(tasks), *edges)
    except Cycle as cycle:
        raise CycleError([tasks[index].name for index in cycle.tasks], path=path) from None


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
