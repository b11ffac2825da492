"""Write DAGMan files: a whole workflow, with one submit description per category and the rest in VARS.

Also single lines of DAGMan files, with names, amounts and file lists, for other modules. These take a node's name as it
is written in the file: one that needs no quotes (`node_names`), or quoted.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from tonnage import __version__
from tonnage.errors import InputError
from tonnage.jobs import Amounts
from tonnage.workflow.dagman.reader import NOTE
from tonnage.workflow.dagman.statements import RESERVED, escaped
from tonnage.workflow.dagman.submit import REQUESTS, quoted_argument
from tonnage.workflow.formats.notes import note
from tonnage.workflow.model import Task, Workflow
from tonnage.workflow.names import FreeNames
from tonnage.workflow.shell import one_line

__all__ = [
    "arc_lines",
    "file_list",
    "heading",
    "node_names",
    "priority_line",
    "render",
    "safe_name",
    "variables_line",
    "with_unit",
]

# A description has each of these as `setting = $(variable)`; the line is omitted if a task does not have it.
_SETTINGS = {
    "command": "executable = /bin/sh\n    arguments = \"-c '$(command)'\"",
    **{name: f"{command} = $({name})" for name, command in REQUESTS.items()},
    "inputs": "transfer_input_files = $(inputs)\n    preserve_relative_paths = true",
    "outputs": "transfer_output_files = $(outputs)",
}


def render(workflow: Workflow) -> str:
    """Return the workflow as one self-contained DAGMan file."""
    return "\n".join(_lines(workflow)) + "\n"


def _lines(workflow: Workflow) -> Iterator[str]:
    names = node_names([task.name for _, task in _all_tasks(workflow)])
    descriptions: dict[tuple[str, tuple[str, ...]], str] = {}
    nodes: list[str] = []
    free = FreeNames()
    for kind, task in _all_tasks(workflow):
        nodes += _node(kind, task, names[task.name], descriptions, free)
    yield heading(workflow.name, len(workflow))
    for (_, variables), name in descriptions.items():
        yield f"SUBMIT-DESCRIPTION {name} {{"
        yield from (f"    {_SETTINGS[variable]}" for variable in variables)
        yield "}"
    yield from nodes
    yield from _arcs(workflow, names)


def _all_tasks(workflow: Workflow) -> Iterator[tuple[str, Task]]:
    yield from (("JOB", task) for task in workflow.tasks)
    yield from ((special.kind.upper(), special.task) for special in workflow.special)


def _node(
    kind: str, task: Task, name: str, descriptions: dict[tuple[str, tuple[str, ...]], str], free: FreeNames
) -> Iterator[str]:
    variables = _variables(task)
    key = (task.category, tuple(variables))
    if key not in descriptions:
        descriptions[key] = free.give(safe_name(task.category))
    description = descriptions[key]
    plain = _as_read(task, name, description, priority=_priority(kind, task))
    extra = note(task, plain)
    if extra is not None:
        variables[NOTE] = extra
    yield f"{kind} {name} {description}{_folder(task)}"
    if variables:
        yield variables_line(name, variables)
    if plain.priority is not None:
        yield priority_line(name, plain.priority)


def _variables(task: Task) -> dict[str, str]:
    """Return the variables that the description needs from a task, in HTCondor's units."""
    request = task.request
    found = {
        "command": None if task.command is None else quoted_argument(one_line(task.command)),
        "cores": None if request.cores is None else str(math.ceil(request.cores)),
        "memory": None if request.memory is None else with_unit(request.memory),
        "disk": None if request.disk is None else with_unit(request.disk),
        "gpus": str(task.gpus) if task.gpus else None,
        "wall_time": None if request.wall_time is None else str(math.ceil(request.wall_time)),
        "inputs": file_list(task, task.inputs),
        "outputs": file_list(task, task.outputs),
    }
    return {name: value for name, value in found.items() if value is not None}


def _priority(kind: str, task: Task) -> int | None:
    """Return the priority if DAGMan accepts it: only for jobs, and in 32 bits."""
    return task.priority if kind == "JOB" and task.priority is not None and abs(task.priority) < 2**31 else None


def _folder(task: Task) -> str:
    if not task.directory:
        return ""
    if "\n" in task.directory or "\r" in task.directory:
        raise InputError(f'the folder of task "{task.name}" cannot be written to a DAGMan file: it has a line break')
    return f" DIR {_folder_word(task.directory)}"


def _as_read(task: Task, name: str, description: str, *, priority: int | None) -> Task:
    """Return the task that the reader sees without a note."""
    request = task.request
    memory, disk = (None if value is None else -(-value // 2**10) * 2**10 for value in (request.memory, request.disk))
    return Task(
        name=name,
        command=task.command,
        category=description,
        inputs=task.inputs,
        outputs=task.outputs,
        request=Amounts.of(
            cores=None if request.cores is None else math.ceil(request.cores),
            memory=memory,
            disk=disk,
            wall_time=None if request.wall_time is None else math.ceil(request.wall_time),
        ),
        priority=priority,
        gpus=task.gpus,
        directory=str(PurePosixPath(task.directory)) if task.directory else None,
    )


def _arcs(workflow: Workflow, names: dict[str, str]) -> Iterator[str]:
    for number, task in enumerate(workflow.tasks):
        children = [names[workflow.tasks[child].name] for child in workflow.graph.children_of(number)]
        yield from arc_lines(names[task.name], children)


# Characters that are not safe in the name of a node or description.
_UNSAFE = re.compile(r"^-|[^\w./:,-]", re.ASCII)

_CHILDREN_PER_LINE = 1000


def heading(title: str, tasks: int) -> str:
    """Return the comment at the top of a file."""
    return f"# {' '.join(title.split())}: {tasks:,} tasks, written by Tonnage {__version__}"


def variables_line(node: str, variables: Mapping[str, object], *, append: bool = False) -> str:
    """Return the line that gives a node its variables."""
    settings = " ".join([f'{name}="{escaped(str(value))}"' for name, value in variables.items()])
    return f"VARS {node} {'APPEND ' if append else ''}{settings}"


def priority_line(node: str, priority: int) -> str:
    """Return the line that gives a node its priority."""
    return f"PRIORITY {node} {priority}"


def arc_lines(parent: str, children: Sequence[str]) -> Iterator[str]:
    """Yield a line for the children of a node, and further ones if there are very many."""
    for begin in range(0, len(children), _CHILDREN_PER_LINE):
        yield f"PARENT {parent} CHILD {' '.join(children[begin : begin + _CHILDREN_PER_LINE])}"


def node_names(names: Sequence[str]) -> dict[str, str]:
    """Return a name for each task that DAGMan accepts: the task's own if possible."""
    free = FreeNames(names)
    return {name: name if _is_safe(name) else free.give(safe_name(name)) for name in names}


def _is_safe(name: str) -> bool:
    return bool(name) and not _UNSAFE.search(name) and name.upper() not in RESERVED


def safe_name(name: str) -> str:
    """Return a name that is valid anywhere in a DAGMan file; two names can become the same."""
    return name if _is_safe(name) else _UNSAFE.sub("_", f"{name}_")


def with_unit(amount: int) -> str:
    """Return bytes in the largest of HTCondor's units (base 1024) that fits, rounded up to whole KB."""
    return f"{amount // 2**20} MB" if amount % 2**20 == 0 else f"{-(-amount // 2**10)} KB"


def file_list(task: Task, names: tuple[str, ...]) -> str | None:
    """Return file names as an HTCondor list; None if there are none."""
    for name in names:
        if any(character in ',"\n\r$' for character in name) or name != name.strip() or not name:
            problem = f'the file name "{name}" of task "{task.name}"'
            raise InputError(f"{problem} cannot be written in an HTCondor file list")
    return ",".join(names) or None


def _folder_word(directory: str) -> str:
    """Return the name of a folder, quoted for DIR if necessary."""
    return f'"{escaped(directory)}"' if _UNSAFE.search(directory) else directory
