"""Decide which tasks of a workflow are up to date, from what is recorded about finished tasks and what is on disk.

Nothing is changed here, and nothing is read but through `Disk`: a test can play any history.
"""

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tonnage.run.files import is_file_name, place_of
from tonnage.workflow import Task, Workflow

__all__ = ["Disk", "FileState", "Record", "command_digest", "inputs_of", "outputs_of", "stale_tasks", "takeable"]


@dataclass(frozen=True, slots=True)
class FileState:
    """What identifies a version of a file: its size and modification time and, if it was read, its content."""

    size: int
    """In bytes; for a folder, its number of entries."""
    time: int
    """When it was modified, in nanoseconds; 0 for a folder, whose entries have times of their own."""
    content: str | None = None
    """A hash of the content; for a folder, of its entries."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is recorded about the last attempt that finished a task; files are named relative to the workflow's folder.

    The state of a file is None if it did not exist.
    """

    command: str
    inputs: Mapping[str, FileState | None]
    scripts: Mapping[str, FileState | None]
    """Files that the command names without being declared."""
    outputs: Mapping[str, FileState | None]
    changed: str | None
    """An input that changed while the attempt ran."""
    run: str
    """The run of the attempt; empty if the user took existing outputs as done."""
    ended: float


class Disk(Protocol):
    """The present state of files."""

    def look(self, place: str) -> FileState | None:
        """Return the state of a file, or None if it does not exist; the content is known for folders only."""

    def content(self, place: str, state: FileState) -> str | None:
        """Return the hash of a file's content; None if it is too large, or not in that state any more."""


def command_digest(task: Task) -> str:
    """Return a hash of what a task executes and where."""
    text = repr((task.command, task.directory))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def inputs_of(task: Task) -> list[str]:
    """Return the files that a task declares to read; addresses such as ``https://...`` are no files."""
    return [place_of(task, name) for name in dict.fromkeys(task.inputs) if is_file_name(name)]


def outputs_of(task: Task) -> list[str]:
    """Return the files that a task declares to write."""
    return [place_of(task, name) for name in dict.fromkeys(task.outputs)]


def stale_tasks(
    workflow: Workflow,
    records: Sequence[Record | None],
    disk: Disk,
    *,
    forced: Mapping[int, str] | None = None,
    wanted: Container[str] | None = None,
) -> dict[int, str]:
    """Return the tasks that must run, and why; all others are up to date.

    `forced` are tasks that run in any case. `wanted` are the outputs that must exist in the end, by default all that no
    task reads; other missing outputs are made again only if a task that runs needs them.
    """
    writer = {place: number for number, task in enumerate(workflow.tasks) for place in outputs_of(task)}
    if wanted is None:
        wanted = _results(workflow)
    judge = _Judge(records, disk, writer, wanted, _contents(records))
    reasons = dict(forced or {})
    for number, task in enumerate(workflow.tasks):
        reason = None if number in reasons else judge.reason(number, task)
        if reason is not None:
            reasons[number] = reason
    return _with_consequences(workflow, reasons, writer, disk)


def takeable(workflow: Workflow, stale: Container[int], disk: Disk, wanted: Container[str] | None = None) -> set[int]:
    """Return the stale tasks whose outputs exist, except for those that only tasks read which need not run.

    A task without declared outputs leaves nothing that could be taken as done.
    """
    if wanted is None:
        wanted = _results(workflow)
    taken: set[int] = set()
    needed: set[str] = set()
    for number in reversed(workflow.graph.order.tolist()):
        task, outputs = workflow.tasks[number], outputs_of(workflow.tasks[number])
        missing = [place for place in outputs if disk.look(place) is None]
        if number not in stale or (outputs and not any(place in wanted or place in needed for place in missing)):
            taken.add(number)
        else:
            needed.update(inputs_of(task))
    return {number for number in taken if number in stale}


def _results(workflow: Workflow) -> set[str]:
    """Return the outputs that no task reads: they are what the user wants."""
    read = {place for task in workflow.tasks for place in inputs_of(task)}
    return {place for task in workflow.tasks for place in outputs_of(task)} - read


def _contents(records: Sequence[Record | None]) -> dict[tuple[str, int, int], str]:
    """Return the content of outputs, by their size and time, as the tasks that read them have seen it."""
    return {
        (place, state.size, state.time): state.content
        for record in records
        if record is not None
        for place, state in record.inputs.items()
        if state is not None and state.content is not None
    }


def _with_consequences(
    workflow: Workflow, reasons: dict[int, str], writer: Mapping[str, int], disk: Disk
) -> dict[int, str]:
    """Add the tasks that depend on those that run, and the writers of files that these need and that are missing."""
    stack = list(reasons)
    while stack:
        number = stack.pop()
        task = workflow.tasks[number]
        for child in workflow.children_of(number):
            if child not in reasons:
                reasons[child] = f'depends on "{task.name}", which runs'
                stack.append(child)
        for place in inputs_of(task):
            origin = writer.get(place)
            if origin is not None and origin not in reasons and disk.look(place) is None:
                reasons[origin] = f'the output {place} is missing, and "{task.name}" needs it'
                stack.append(origin)
    return reasons


@dataclass(frozen=True, slots=True)
class _Judge:
    """Finds the reasons why tasks are stale by themselves."""

    records: Sequence[Record | None]
    disk: Disk
    writer: Mapping[str, int]
    wanted: Container[str]
    contents: Mapping[tuple[str, int, int], str]

    def reason(self, number: int, task: Task) -> str | None:
        """Return why a task must run, regardless of others; None if there is no reason."""
        record = self.records[number]
        if record is None:
            return "not done yet"
        if record.command != command_digest(task):
            return "the command has changed"
        if record.inputs.keys() != set(inputs_of(task)):
            return "reads other files than before"
        if record.outputs.keys() != set(outputs_of(task)):
            return "writes other files than before"
        if record.changed is not None:
            return f"the input {record.changed} changed while it ran"
        return self._changed_input(record) or self._changed_output(record)

    def _changed_input(self, record: Record) -> str | None:
        for place, before in (*record.inputs.items(), *record.scripts.items()):
            now = self.disk.look(place) or self._as_written(place)
            if now is None and (before is None or place in self.writer):
                continue  # the writer of a missing file runs only if something needs it
            if now is None:
                return f"the input {place} is missing"
            if before is None or not self._is_same(place, before, now):
                return f"the input {place} has changed"
        return None

    def _as_written(self, place: str) -> FileState | None:
        """Return the state in which a task left a file that is missing now."""
        writer = self.writer.get(place)
        record = None if writer is None else self.records[writer]
        return None if record is None else record.outputs.get(place)

    def _changed_output(self, record: Record) -> str | None:
        for place, before in record.outputs.items():
            now = self.disk.look(place)
            if before is None:
                continue  # it could not be looked at, as on a network file system that was behind
            if now is None and place in self.wanted:
                return f"the output {place} is missing"
            if now is not None and not self._is_same(place, before, now):
                return f"the output {place} was changed after it was written"
        return None

    def _is_same(self, place: str, before: FileState, now: FileState) -> bool:
        if now.content is not None or before.size != now.size:
            return now.content is not None and now.content == before.content
        if before.time == now.time:
            return True
        content = before.content or self.contents.get((place, before.size, before.time))
        return content is not None and content == (
            self.contents.get((place, now.size, now.time)) or self.disk.content(place, now)
        )
