"""Tasks, workflows, and the file formats that describe them."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.workflow.formats import READERS, WRITERS, read, write
    from tonnage.workflow.graph import Graph
    from tonnage.workflow.model import CriticalPath, Source, SpecialTask, Task, Workflow
else:
    __getattr__ = exports(__name__)

__all__ = [
    "READERS",
    "WRITERS",
    "CriticalPath",
    "Graph",
    "Source",
    "SpecialTask",
    "Task",
    "Workflow",
    "read",
    "write",
]
