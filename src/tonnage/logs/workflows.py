"""Workflow files whose tasks carry run times: WfFormat instances, Pegasus DAX and Pegasus YAML.

The files are read by `tonnage.workflow`. A workflow can only be read as a whole, so these are not streamed.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from tonnage.files import MAX_FILE, Document
from tonnage.jobs import Attempt
from tonnage.logs.amounts import byte_unit
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped

if TYPE_CHECKING:
    from tonnage.workflow import Task, Workflow

__all__ = ["read", "recognises", "workflow_of"]

_FORMATS = ("dax", "wfformat", "pegasus")
# What each of these formats must contain: only then is `tonnage.workflow` loaded, and with it numpy.
_HINT = re.compile(r"""<(?:\w+:)?adag\b|"(?:schemaVersion|specification|workflow)"\s*:|\bpegasus\b|jobDependencies""")


def recognises(head: str) -> bool:
    """Whether the text is a workflow in a format with run times."""
    return _format(head) is not None


def _format(text: str) -> str | None:
    if not _HINT.search(text):
        return None
    from tonnage.workflow import READERS

    return next((name for name in _FORMATS if READERS[name].recognises(text)), None)


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each task whose run time or memory is known."""
    from tonnage.workflow.shell import executable

    workflow = workflow_of(log, hints)
    for warning in workflow.source.warnings if workflow.source else ():
        yield Assumed(warning)
    for task in (*workflow.tasks, *(special.task for special in workflow.special)):
        if task.expected.wall_time is None and task.expected.memory is None:
            yield Skipped(None, "its run time is unknown", task.name, healthy=True)
            continue
        yield Attempt(
            row=_row(task),
            run=hints.label or log.stem,
            workflow=workflow.name,
            workflow_checksum=workflow.checksum,
            task=task.name,
            category=task.category,
            command=task.command,
            executable=executable(task.command),
            requested=task.request,
            used=task.expected,
            input_bytes=task.input_bytes,
            inputs=task.inputs,
            outputs=task.outputs,
        )


def workflow_of(log: Log, hints: Hints) -> "Workflow":
    """Read the workflow; the user can set the unit of `memoryInBytes`, because programs disagree about it."""
    from tonnage.workflow import READERS
    from tonnage.workflow.formats import wfformat

    unit = byte_unit(hints.units["memory"]) if "memory" in hints.units else None
    document = _document(log)
    name = _format(document.text)
    if name is None:
        raise log.error("is not a workflow with run times: expected WfFormat, Pegasus DAX or Pegasus YAML")
    return wfformat.read(document, memory_unit=unit) if name == "wfformat" else READERS[name].read(document)


def _document(log: Log) -> Document:
    data = bytearray()
    for text in log.texts():
        data += text.encode("utf-8")
        if len(data) > MAX_FILE:
            raise log.error(f"is larger than {MAX_FILE // 2**30} GiB, the limit for workflows")
    return Document(log.path, bytes(data))


def _row(task: "Task") -> str:
    facts = {name: value for name, value in asdict(task).items() if value not in (None, ())}
    del facts["expected"]["memory"]  # programs disagree about its unit
    return json.dumps(facts, sort_keys=True)
