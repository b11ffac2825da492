"""Rules of a Makeflow, classic or JSON: how they become tasks, and how any workflow becomes rules.

Files decide the dependencies, as in Makeflow itself: a rule that reads a file waits for the rule that writes it. A
dependency without a file gets a marker file, which the parent touches and the child reads; markers are removed again on
reading. Everything else that Makeflow cannot express is in a note next to the rule.
"""

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import normpath

from tonnage.errors import InputError
from tonnage.files import Document
from tonnage.jobs import NOTHING_KNOWN, Amounts
from tonnage.units import Bytes
from tonnage.workflow.formats.notes import note, restored
from tonnage.workflow.formats.text import named_after
from tonnage.workflow.model import Source, Task, Workflow, file_edges
from tonnage.workflow.shell import executable

__all__ = ["LARGEST", "Rule", "amounts", "enclosed", "gpus", "note_for", "resources", "rules_of", "workflow_of"]

# What cctools means by MB.
_MEGABYTE = 2**20
LARGEST = 10**12
"""Amounts from this number on are errors: as megabytes, they are more bytes than 64 bits can count."""
# The most characters that exported variables can add to all commands together.
_MOST_EXPORTED = 2**28

_MARKER = re.compile(r"\.tonnage-done-(\d{1,9})")
# No name that was read from a file contains this character.
_UNNAMED = "\0"
# The command of a rule for a task without a command.
_NOTHING = "true"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a Makeflow file."""

    command: str | None
    """None if the rule runs another workflow."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    category: str | None = None
    """None if the file does not name one."""
    request: Amounts = NOTHING_KNOWN
    gpus: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to export, with values quoted for the shell."""
    input_bytes: int | None = None
    note: str | None = None
    line: int | None = None


def amounts(values: Mapping[str, float]) -> Amounts:
    """Return a request from cores, megabytes and seconds; 0 means no request."""
    memory, disk = values.get("memory"), values.get("disk")
    return Amounts.of(
        cores=values.get("cores") or None,
        memory=int(memory * _MEGABYTE) if memory else None,
        disk=int(disk * _MEGABYTE) if disk else None,
        wall_time=values.get("wall_time") or None,
    )


def gpus(values: Mapping[str, float]) -> int:
    """Return the number of GPUs requested, rounded up."""
    return math.ceil(values.get("gpus", 0))


def resources(rule: Rule) -> dict[str, int]:
    """Return what a rule requests, with Makeflow's names and units."""
    return _megabytes(rule.request) | ({"gpus": rule.gpus} if rule.gpus else {})


def _megabytes(request: Amounts) -> dict[str, int]:
    """Return a request in whole cores, megabytes and seconds, rounded up: the inverse of `amounts`."""
    units = {"cores": 1, "memory": _MEGABYTE, "disk": _MEGABYTE, "wall_time": 1}
    rounded = {name: _rounded_up(getattr(request, name), unit) for name, unit in units.items()}
    return {name: amount for name, amount in rounded.items() if 0 < amount < LARGEST}


def _rounded_up(amount: float | None, unit: int) -> int:
    return 0 if amount is None or not math.isfinite(amount) else int(-(-amount // unit))


def workflow_of(document: Document, name_of_format: str, rules: Sequence[Rule], warnings: Sequence[str]) -> Workflow:
    """Build the workflow from the rules of a file."""
    _check_files(document, rules)
    if sum(len(value) for rule in rules for value in rule.environment.values()) > _MOST_EXPORTED:
        raise document.error(f"exports more than {_MOST_EXPORTED // 2**20} MiB of variables to its commands")
    tasks = _named([_task(document, rule) for rule in rules])
    stated = [
        Task(task.name, inputs=rule.inputs, outputs=rule.outputs) for task, rule in zip(tasks, rules, strict=True)
    ]
    source = Source(document.path, name_of_format, tuple(warnings))
    return Workflow.build(document.stem, tasks, file_edges(stated, path=document.path), source=source)


def _check_files(document: Document, rules: Sequence[Rule]) -> None:
    """Reject rules that no order could satisfy, naming the line."""
    writer: dict[str, Rule] = {}
    for rule in rules:
        for name in rule.outputs:
            other = writer.setdefault(normpath(name), rule)
            if other is not rule:
                where = "another rule" if other.line is None else f"the rule in line {other.line}"
                raise document.error(f'file "{name}" is already written by {where}', rule.line)
        for name in rule.inputs:
            if writer.get(normpath(name)) is rule:
                raise document.error(f'the rule waits for itself: it reads and writes "{name}"', rule.line)


def _task(document: Document, rule: Rule) -> Task:
    if rule.note is None:
        return _plain(rule)
    try:
        directory = json.loads(rule.note).get("directory")
        return restored(_plain(rule, directory), rule.note)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise document.error(f"Tonnage's note is damaged: {error}", rule.line) from None


def _plain(rule: Rule, directory: str | None = None) -> Task:
    """Return the task that a rule describes, without its markers; a note has the rest."""
    outputs = tuple(name for name in rule.outputs if not _MARKER.fullmatch(name))
    command = _unwrapped(rule, directory)
    task = Task(
        name=outputs[0] if outputs else _UNNAMED,
        command=command,
        category=rule.category or executable(command) or "task",
        inputs=tuple(name for name in rule.inputs if not _MARKER.fullmatch(name)),
        outputs=outputs,
        request=rule.request,
        gpus=rule.gpus,
        input_bytes=None if rule.input_bytes is None else Bytes(rule.input_bytes),
    )
    return replace(task, command=_exporting(rule.environment, command)) if rule.environment and command else task


def _exporting(variables: Mapping[str, str], command: str) -> str:
    return f"export {' '.join(f'{name}={value}' for name, value in variables.items())}; {command}"


def _named(tasks: Sequence[Task]) -> list[Task]:
    """Name the tasks that have no output after their commands."""
    taken = {task.name for task in tasks}
    same: Counter[str] = Counter()

    def name(task: Task) -> str:
        while (found := named_after(executable(task.command) or "task", task.command or "", same)) in taken:
            continue
        return found

    return [replace(task, name=name(task)) if task.name == _UNNAMED else task for task in tasks]


def rules_of(workflow: Workflow) -> Iterator[tuple[Rule, Task]]:
    """Yield for each task the rule that Makeflow can understand; `note_for` returns what it cannot express."""
    if workflow.special:
        names = ", ".join(f'"{one.task.name}" ({one.kind})' for one in workflow.special)
        raise InputError(f"cannot be written as Makeflow, which has no special nodes: {names}")
    files = _Files(workflow)
    for number, task in enumerate(workflow.tasks):
        inferred = executable(task.command) or "task"
        yield (
            Rule(
                command=_wrapped(task, files.marker(number) if number in files.marked else None),
                inputs=files.inputs[number],
                outputs=files.outputs[number],
                category=task.category if task.category != inferred else None,
                request=amounts(_megabytes(task.request)),
                gpus=task.gpus,
            ),
            task,
        )


def note_for(rule: Rule, task: Task) -> str | None:
    """Return the note that a rule needs so that reading restores the task."""
    return note(task, _plain(rule, task.directory))


class _Files:
    """The files that rules must name so that Makeflow sees each dependency of a workflow and no other.

    The real tool compares names character by character, rejects a file with two writers, and never runs a task that
    reads what it writes; so each file is written once, and read under the name that its writer uses.
    """

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        self._first_marker = 1 + max(map(_marker_number, _all_files(workflow)), default=-1)
        self.marked: set[int] = set()
        self._writer: dict[str, tuple[int, str]] = {}
        written = [tuple(self._written(number, task)) for number, task in enumerate(workflow.tasks)]
        self.inputs = [tuple(self._read(number, task)) for number, task in enumerate(workflow.tasks)]
        self.outputs = [
            (*names, self.marker(number)) if number in self.marked else names for number, names in enumerate(written)
        ]

    def marker(self, number: int) -> str:
        return f".tonnage-done-{self._first_marker + number}"

    def _written(self, number: int, task: Task) -> Iterator[str]:
        for name in task.outputs:
            if name and normpath(name) not in self._writer:
                self._writer[normpath(name)] = number, name
                yield name

    def _read(self, number: int, task: Task) -> dict[str, None]:
        waiting = set(map(int, self._workflow.graph.parents_of(number)))
        parents = frozenset(waiting)
        names: dict[str, None] = {}
        for name in task.inputs:
            origin, spelled = self._writer.get(normpath(name), (None, name))
            if name and (origin is None or origin in parents):
                names[spelled] = None
                waiting.discard(-1 if origin is None else origin)
        self.marked |= waiting
        return names | dict.fromkeys(map(self.marker, sorted(waiting)))


def _all_files(workflow: Workflow) -> Iterator[str]:
    for task in workflow.tasks:
        yield from task.inputs
        yield from task.outputs


def _marker_number(name: str) -> int:
    found = _MARKER.fullmatch(normpath(name))
    return int(found.group(1)) if found else -1


def enclosed(command: str) -> str:
    """Return a command in a subshell, so that an exit or a comment at its end affects nothing else."""
    return f"( {command}\n)" if "\n" in command or "#" in command else f"( {command} )"


def _opened(command: str) -> str | None:
    """Return the original of a command that `enclosed` wrapped, or None if it is not enclosed."""
    if not command.startswith("( ") or not command.endswith(("\n)", " )")):
        return None
    return command[2:-2]


def _wrapped(task: Task, marker: str | None) -> str:
    command = task.command if task.command and not task.command.isspace() else _NOTHING
    if task.directory:
        command = f"cd {shlex.quote(task.directory)} && {enclosed(command)}"
    return f"{enclosed(command)} && touch {marker}" if marker else command


def _unwrapped(rule: Rule, directory: str | None) -> str | None:
    """Return the original of a command that `_wrapped` wrapped; one that was changed since is left unchanged."""
    command = rule.command
    if command is None:
        return None
    markers = [name for name in rule.outputs if _MARKER.fullmatch(name)]
    touch = f" && touch {markers[-1]}" if markers else ""
    if touch and command.endswith(touch):
        command = _opened(command.removesuffix(touch)) or command
    change = f"cd {shlex.quote(directory)} && " if directory else ""
    if change and command.startswith(change):
        command = _opened(command.removeprefix(change)) or command
    return command
