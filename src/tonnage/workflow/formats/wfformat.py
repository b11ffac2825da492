"""WfFormat: WfCommons' JSON workflow instances, versions 1.0 to 1.5.

From 1.5 on tasks are under ``workflow.specification`` and what they used under ``workflow.execution``; older versions
have both in one list. Commands are shell text: producers disagree about quoting, so arguments are joined with spaces.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tonnage import __version__
from tonnage.files import Document
from tonnage.jobs import Amounts
from tonnage.units import Bytes
from tonnage.workflow.formats.notes import note, restored
from tonnage.workflow.model import Source, SpecialTask, Task, Workflow, total_size
from tonnage.workflow.names import FreeNames, Links
from tonnage.workflow.shell import without_number

__all__ = ["HALF_CHARACTER", "read", "recognises", "render"]

Entry: TypeAlias = Mapping[str, Any]

_HINT = re.compile(r'"(?:schemaVersion|specification)"\s*:|"workflow"\s*:\s*\{')
_UNSAFE = re.compile(r"[^0-9a-zA-Z_.-]")
NOTE = "tonnage"
"""The extra property in which Tonnage stores what WfFormat cannot express."""

_NOWHERE = Document(Path(), b"")
# The schema requires a time of execution; a workflow that has not run has none, and output should not change with time.
_NEVER = "1970-01-01T00:00:00+00:00"


def recognises(text: str) -> bool:
    """Whether a text is a JSON object with one of WfFormat's own keys."""
    return text.lstrip().startswith("{") and bool(_HINT.search(text[:1_000_000]))


def read(document: Document, *, memory_unit: int | None = None) -> Workflow:
    """Read a workflow instance; run times and memory are what its recorded run used.

    `memory_unit` is the number of bytes in one unit of `memoryInBytes`, if known; otherwise the values decide.
    """
    top = _load(document)
    if "workflow" not in top:
        message = 'is JSON, but neither WfFormat (key "workflow"), Makeflow ("rules") nor Pegasus ("pegasus", "jobs")'
        raise document.error(message)
    workflow = _mapping(top, "workflow", document)
    entries, files = _entries(workflow, document)
    special = tuple(_special(top, document))
    if not entries and not special:
        raise document.error("contains no tasks")
    producer = str(_optional(top, "runtimeSystem" if "runtimeSystem" in top else "wms").get("name", "")).lower()
    makeflow = producer == "makeflow"
    unit = 1 if producer == "tonnage" and memory_unit is None else memory_unit
    factor, warnings = _memory_factor(entries) if unit is None else (unit, [])
    warnings += _oddities(workflow, entries)
    names = _names(entries, document)
    tasks = [_task(entry, name, files, factor, makeflow, document) for entry, name in zip(entries, names, strict=True)]
    name = top.get("name")
    return Workflow.build(
        name if isinstance(name, str) and name else document.stem,
        tasks,
        _links(entries, document).edges,
        special=special,
        source=Source(document.path, "wfformat", tuple(warnings)),
    )


def _load(document: Document) -> Entry:
    top = _json_values(document)
    if not isinstance(top, dict):
        raise document.error('is not WfFormat: expected an object with the key "workflow"')
    return top


def _mapping(holder: Entry, key: str, document: Document) -> Entry:
    found = holder.get(key)
    if not isinstance(found, dict):
        raise document.error(f'is not WfFormat: "{key}" is missing or not an object')
    return found


def _optional(holder: Entry, key: str) -> Entry:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _entries(workflow: Entry, document: Document) -> tuple[list[Entry], dict[str, int]]:
    """Return one entry per task with everything known about it, and the sizes of files by id."""
    if "specification" not in workflow:
        tasks = _objects(workflow, "tasks" if "tasks" in workflow else "jobs", document)
        return list(tasks), {}
    specification = _mapping(workflow, "specification", document)
    executed = {str(entry.get("id")): entry for entry in _objects(_optional(workflow, "execution"), "tasks", document)}
    entries: list[Entry] = [
        {**executed.get(str(entry.get("id")), {}), **entry} for entry in _objects(specification, "tasks", document)
    ]
    sizes = {
        str(file["id"]): int(size)
        for file in _objects(specification, "files", document)
        if "id" in file and (size := _number(file, "sizeInBytes")) is not None
    }
    return entries, sizes


def _objects(holder: Entry, key: str, document: Document) -> Iterator[Entry]:
    found = holder.get(key, [])
    if not isinstance(found, list):
        raise document.error(f'"{key}" must be a list')
    for number, entry in enumerate(found):
        if not isinstance(entry, dict):
            raise document.error(f"{key}[{number}] must be an object")
        yield entry


def _number(entry: Entry, *keys: str) -> float | None:
    """Return the first of these properties that is a non-negative number."""
    for key in keys:
        value = entry.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63:
            return float(value)
    return None


def _memory_factor(entries: Sequence[Entry]) -> tuple[int, list[str]]:
    """Return the factor for `memoryInBytes`, because several producers write KiB into it.

    No program's peak is below a megabyte in every task, so if the largest value is, it cannot be in bytes.
    """
    largest = max((value for entry in entries if (value := _number(entry, "memoryInBytes"))), default=0.0)
    if not 0 < largest < 2**20:
        return 1, []
    return 1024, [f"memoryInBytes is at most {largest:,.0f} in this file: interpreted as KiB"]


def _oddities(workflow: Entry, entries: Sequence[Entry]) -> Iterator[str]:
    """Yield warnings: about run times that are not valid, and records of tasks that do not exist."""
    for key in ("runtimeInSeconds", "runtime"):
        wrong = [entry for entry in entries if key in entry and _number(entry, key) is None]
        if wrong:
            first = f'{wrong[0][key]} of task "{wrong[0].get("id", wrong[0].get("name"))}"'
            yield f"{key} of {len(wrong):,} tasks is not a non-negative number and is ignored (first: {first})"
    executed = _optional(workflow, "execution").get("tasks")
    if "specification" in workflow and isinstance(executed, list):
        known = {str(entry.get("id")) for entry in entries}
        strangers = sum(str(entry.get("id")) not in known for entry in executed if isinstance(entry, dict))
        if strangers:
            yield f"{strangers:,} entries of execution.tasks name no task of the specification"


def _identity(entry: Entry, document: Document) -> str:
    identity = entry.get("id", entry.get("name"))
    if not isinstance(identity, str) or not identity:
        raise document.error("a task has neither id nor name")
    return identity


def _names(entries: Sequence[Entry], document: Document) -> list[str]:
    """Return the tasks' names if they are unique, else their ids (Nextflow uses the names of processes)."""
    names = [entry.get("name") for entry in entries]
    if len(set(map(str, names))) == len(names) and all(isinstance(name, str) and name for name in names):
        return [str(name) for name in names]
    return [_identity(entry, document) for entry in entries]


def _links(entries: Sequence[Entry], document: Document) -> Links:
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries):
        identity = _identity(entry, document)
        if numbers.setdefault(identity, number) != number:
            raise document.error(f'task "{identity}" is defined twice')
    by_name = {str(entry.get("name")): number for number, entry in enumerate(entries)}
    links = Links(document, {**by_name, **numbers})  # before 1.4, tasks refer to each other by name
    for entry in entries:
        identity = _identity(entry, document)
        for parent in _texts(entry, "parents", document):
            links.add(parent, (identity,))
        links.add(identity, _texts(entry, "children", document))
    return links


def _texts(entry: Entry, key: str, document: Document) -> list[str]:
    found = entry.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise document.error(f'"{key}" of task "{_identity(entry, document)}" must be a list of strings')
    return found


def _task(entry: Entry, name: str, sizes: Mapping[str, int], factor: int, makeflow: bool, document: Document) -> Task:
    inputs, outputs, input_bytes = _files(entry, sizes, document)
    seconds = _number(entry, "runtimeInSeconds", "runtime")
    priority = _number(entry, "priority")
    task = Task(
        name=name,
        command=_command(entry, makeflow),
        category=_category(entry, name),
        inputs=inputs,
        outputs=outputs,
        request=Amounts.of(cores=_number(entry, "coreCount", "cores")),
        expected=Amounts.of(memory=_memory(entry, factor), wall_time=seconds),
        input_bytes=input_bytes,
        priority=None if priority is None else int(priority),
    )
    return _with_note(task, entry, document)


def _with_note(task: Task, entry: Entry, document: Document) -> Task:
    extra = entry.get(NOTE)
    if extra is None:
        return task
    try:
        return restored(task, json.dumps(extra))
    except (TypeError, ValueError) as error:
        raise document.error(f'the property "{NOTE}" of task "{task.name}" is damaged: {error}') from None


def _memory(entry: Entry, factor: int) -> int | None:
    """Return the peak; 0 means that the task ended before it was measured. Before 1.4 the unit was KiB."""
    peak = _number(entry, "memoryInBytes")
    if peak is None:
        peak, factor = _number(entry, "memory"), 1024
    return round(peak * factor) if peak else None


def _command(entry: Entry, makeflow: bool) -> str | None:
    command = _optional(entry, "command")
    program, arguments = command.get("program"), command.get("arguments") or []
    words = [str(argument) for argument in arguments] if isinstance(arguments, list) else []
    if makeflow and words:
        return " ".join(words)  # Makeflow's instances repeat the program as the first argument
    return " ".join([program, *words]) if isinstance(program, str) and program else None


def _category(entry: Entry, name: str) -> str:
    category = entry.get("category")
    if isinstance(category, str) and category:
        return category
    program = _optional(entry, "command").get("program")
    # Nextflow's instances have a whole script here; a name is one word.
    if isinstance(program, str) and len(program.split()) == 1:
        return program.strip()
    own = entry.get("name")
    return without_number(own if isinstance(own, str) and own else name)


def _files(
    entry: Entry, sizes: Mapping[str, int], document: Document
) -> tuple[tuple[str, ...], tuple[str, ...], Bytes | None]:
    if "files" in entry:  # before 1.5, each task listed its files with their sizes
        files = list(_objects(entry, "files", document))
        named = [(str(file.get("name", file.get("id"))), file.get("link"), file) for file in files]
        inputs = tuple(dict.fromkeys(name for name, link, _ in named if link == "input"))
        outputs = tuple(dict.fromkeys(name for name, link, _ in named if link == "output"))
        found = {name: _number(file, "sizeInBytes", "size") for name, _, file in named}
        sizes = {name: int(size) for name, size in found.items() if size is not None}
    else:
        inputs = tuple(_texts(entry, "inputFiles", document))
        outputs = tuple(_texts(entry, "outputFiles", document))
    return inputs, outputs, total_size(sizes.get(name) for name in inputs)


def render(workflow: Workflow) -> str:
    """Return the workflow as a WfFormat 1.5 instance, with one line per task."""
    ids = _ids(workflow)
    specified, executed = [], []
    for number, task in enumerate(workflow.tasks):
        specification, execution = _rendered(task, ids[number])
        specification["parents"] = [ids[parent] for parent in workflow.graph.parents_of(number)]
        specification["children"] = [ids[child] for child in workflow.graph.children_of(number)]
        specified.append(specification)
        if execution:
            executed.append(execution)
    top: dict[str, object] = {
        "name": workflow.name,
        "description": f"{len(workflow):,} tasks, written by Tonnage {__version__}",
        "schemaVersion": "1.5",
        "runtimeSystem": {"name": "Tonnage", "version": __version__},
    }
    if workflow.special:
        top[NOTE] = {"special": [_special_entry(one) for one in workflow.special]}
    body = f'"specification": {{"files": [], "tasks": {_listed(specified)}}}'
    if executed:
        makespan = workflow.critical_path.seconds if workflow.critical_path else 0
        head = json.dumps({"makespanInSeconds": makespan, "executedAt": _NEVER}).removesuffix("}")
        body += f',\n"execution": {head}, "tasks": {_listed(executed)}}}'
    opening = json.dumps(top, indent=1).removesuffix("\n}")
    return f'{opening},\n "workflow": {{{body}}}\n}}\n'


def _listed(entries: Sequence[Entry]) -> str:
    """Return a JSON list with one entry per line; json's own indentation is ten times slower and hard to read."""
    return "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]"


def _special_entry(special: SpecialTask) -> dict[str, object]:
    plain = Task(name=special.task.name)
    return {"kind": special.kind, "name": special.task.name, NOTE: json.loads(note(special.task, plain) or "{}")}


def _special(top: Entry, document: Document) -> Iterator[SpecialTask]:
    for entry in _objects(_optional(top, NOTE), "special", document):
        kind = entry.get("kind")
        if kind not in ("final", "provisioner", "service"):
            raise document.error(f'"{kind}" is not a kind of special task')
        yield SpecialTask(kind, _with_note(Task(name=_identity(entry, document)), entry, document))


def _ids(workflow: Workflow) -> list[str]:
    """Return an id for each task in the characters that the schema allows: the task's own name if possible."""
    free = FreeNames(task.name for task in workflow.tasks)
    safe = ((task.name, _UNSAFE.sub("_", task.name)) for task in workflow.tasks)
    return [name if identity == name else free.give(identity) for name, identity in safe]


def _rendered(task: Task, identity: str) -> tuple[dict[str, object], dict[str, object] | None]:
    """Return a task's two entries; one without a run time was not executed, so its command is in the first."""
    command = None if task.command is None else {"command": _program(task.command)}
    specification: dict[str, object] = {"name": task.name, "id": identity, "category": task.category}
    specification |= {"inputFiles": list(task.inputs), "outputFiles": list(task.outputs)}
    measured: dict[str, object] = {"runtimeInSeconds": task.expected.wall_time}
    measured |= {} if task.expected.memory is None else {"memoryInBytes": task.expected.memory}
    measured |= {} if task.request.cores is None or task.request.cores < 1 else {"coreCount": task.request.cores}
    measured |= {} if task.priority is None or task.priority < 0 else {"priority": task.priority}
    executed = task.expected.wall_time is not None
    entry = {**specification, **(measured if executed else {}), **(command or {})}
    plain = _task(entry, task.name, {}, 1, False, _NOWHERE)
    extra = note(task, plain)
    specification |= {NOTE: json.loads(extra)} if extra else {}
    if not executed:
        return {**specification, **(command or {})}, None
    return specification, {"id": identity, **measured, **(command or {})}


def _program(command: str) -> dict[str, object]:
    """Split a command at single spaces if joining restores it, else keep all of it as the program."""
    words = command.split(" ")
    if all(words) and "\n" not in command:
        return {"program": words[0], "arguments": words[1:]}
    return {"program": command, "arguments": []}


# Two of these escapes in a row are one character; one alone is not, and cannot be written back.
HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""A JSON escape for one half of a surrogate pair."""


def _json_values(document: Document) -> Any:  # noqa: ANN401 (any JSON value)
    """Parse a JSON file; raise an error that names the line if it is not valid."""
    try:
        values = json.loads(document.text)
    except json.JSONDecodeError as error:
        raise document.error(f"is not JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise document.error("is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise document.error(f"is not JSON: {error}") from None
    if HALF_CHARACTER.search(document.text):
        _refuse_half_characters(values, document)
    return values


def _refuse_half_characters(values: object, document: Document) -> None:
    try:
        json.dumps(values, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        line = document.text.count("\n", 0, HALF_CHARACTER.search(document.text).start()) + 1  # type: ignore[union-attr]
        half = repr(error.object[error.start])[1:-1]
        raise document.error(f"contains half of a surrogate pair ({half})", line) from None
