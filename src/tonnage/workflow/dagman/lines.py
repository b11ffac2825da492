"""The lines of DAGMan files as Tonnage writes them, and the names, amounts and file lists in them.

Nodes are given as they stand in a file: by a name that needs no quotes (`node_names`), or quoted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from tonnage import __version__
from tonnage.errors import InputError
from tonnage.workflow.dagman.statements import RESERVED, escaped
from tonnage.workflow.model import Task
from tonnage.workflow.names import FreeNames

__all__ = [
    "arc_lines",
    "file_list",
    "folder_word",
    "heading",
    "node_names",
    "priority_line",
    "safe_name",
    "variables_line",
    "with_unit",
]

# What may stand in the name of a node or description without a second thought.
_UNSAFE = re.compile(r"^-|[^\w./:,-]", re.ASCII)

_CHILDREN_PER_LINE = 1000


def heading(title: str, tasks: int) -> str:
    """Return the comment that says what a file is."""
    return f"# {' '.join(title.split())}: {tasks:,} tasks, written by Tonnage {__version__}"


def variables_line(node: str, variables: Mapping[str, object], *, append: bool = False) -> str:
    """Return the line that gives a node its variables."""
    settings = " ".join([f'{name}="{escaped(str(value))}"' for name, value in variables.items()])
    return f"VARS {node} {'APPEND ' if append else ''}{settings}"


def priority_line(node: str, priority: int) -> str:
    """Return the line that gives a node its priority."""
    return f"PRIORITY {node} {priority}"


def arc_lines(parent: str, children: Sequence[str]) -> Iterator[str]:
    """Yield a line for the children of a node, and another where they are very many."""
    for begin in range(0, len(children), _CHILDREN_PER_LINE):
        yield f"PARENT {parent} CHILD {' '.join(children[begin : begin + _CHILDREN_PER_LINE])}"


def node_names(names: Sequence[str]) -> dict[str, str]:
    """Return a name for each task that DAGMan accepts, the task's own where it can be."""
    free = FreeNames(names)
    return {name: name if _is_safe(name) else free.give(safe_name(name)) for name in names}


def _is_safe(name: str) -> bool:
    return bool(name) and not _UNSAFE.search(name) and name.upper() not in RESERVED


def safe_name(name: str) -> str:
    """Return a name that may stand anywhere in a DAGMan file; two may get the same."""
    return name if _is_safe(name) else _UNSAFE.sub("_", f"{name}_")


def with_unit(amount: int) -> str:
    """Return bytes in the largest of HTCondor's units (base 1024) that fits, rounded up to whole KB."""
    return f"{amount // 2**20} MB" if amount % 2**20 == 0 else f"{-(-amount // 2**10)} KB"


def file_list(task: Task, names: tuple[str, ...]) -> str | None:
    """Return names of files as HTCondor lists them; None where there are none."""
    for name in names:
        if any(character in ',"\n\r$' for character in name) or name != name.strip() or not name:
            problem = f'the file name "{name}" of task "{task.name}"'
            raise InputError(f"{problem} cannot stand in an HTCondor file list")
    return ",".join(names) or None


def folder_word(directory: str) -> str:
    """Return the name of a folder as it stands behind DIR."""
    return f'"{escaped(directory)}"' if _UNSAFE.search(directory) else directory
