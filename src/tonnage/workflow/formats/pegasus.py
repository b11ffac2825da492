"""Pegasus 5 abstract workflows in YAML (or JSON, which is also YAML).

YAML is read safely: no tags, no guessed types, no unlimited depth or expansion. Scalars remain the text in the file
("1001" and "no" are strings); an absent one is None. The values are built from the parser's events with an explicit
stack, because the usual loaders recurse, and a small file of aliases can expand to more nodes than fit into memory.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import yaml

from tonnage.files import Document
from tonnage.jobs import Amounts
from tonnage.units import Bytes
from tonnage.workflow.formats.dax import REDIRECTIONS, asked_in_profiles
from tonnage.workflow.model import Source, Task, Workflow, total_size
from tonnage.workflow.names import Links

__all__ = ["read", "recognises"]

_Value: TypeAlias = "str | list[_Value] | dict[str, _Value] | None"
_Entry: TypeAlias = Mapping[str, _Value]

_TOP_LEVEL = re.compile(r"""^["']?(?:x-pegasus|pegasus|jobDependencies)["']?\s*:""", re.MULTILINE)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_IN_JSON = re.compile(r'"(?:x-pegasus|pegasus|jobDependencies)"\s*:')


def recognises(text: str) -> bool:
    """Whether the text has a top-level key that only Pegasus uses."""
    head = text[:1_000_000]
    return bool(_IN_JSON.search(head) if head.lstrip().startswith("{") else _TOP_LEVEL.search(head))


def read(document: Document) -> Workflow:
    """Read a Pegasus 5 workflow; dependencies are its ``jobDependencies``."""
    top = _load(document)
    if not isinstance(top, Mapping):
        raise document.error("is not a Pegasus workflow: expected keys such as jobs and jobDependencies")
    if "jobs" not in top:
        raise document.error('is not a Pegasus workflow: it has no "jobs"')
    tasks = [_task(job, number, document) for number, job in enumerate(_entries(top, "jobs", document))]
    if not tasks:
        raise document.error("contains no jobs")
    numbers: dict[str, int] = {}
    for number, task in enumerate(tasks):
        if numbers.setdefault(task.name, number) != number:
            raise document.error(f'job "{task.name}" is defined twice')
    links = Links(document, numbers)
    for entry in _entries(top, "jobDependencies", document):
        children = entry.get("children") or []
        if not isinstance(children, Sequence) or isinstance(children, str):
            raise document.error("jobDependencies: children must be a list")
        links.add(str(entry.get("id")), (str(child) for child in children))
    name = top.get("name")
    source = Source(document.path, "pegasus")
    return Workflow.build(name if isinstance(name, str) else document.stem, tasks, links.edges, source=source)


def _entries(holder: _Entry, key: str, document: Document) -> Iterator[_Entry]:
    """Yield the mappings of a list that can be absent."""
    found = holder.get(key) or []
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise document.error(f"{key} must be a list")
    for number, entry in enumerate(found):
        if not isinstance(entry, Mapping):
            raise document.error(f"{key}[{number}] must be a mapping")
        yield entry


def _task(job: _Entry, number: int, document: Document) -> Task:
    identity = job.get("id")
    if not isinstance(identity, str) or not identity:
        raise document.error(f"jobs[{number}] has no id")
    category = job.get("name") or job.get("file") or identity
    arguments = job.get("arguments") or []
    words = ["null" if word is None else str(word) for word in arguments] if isinstance(arguments, Sequence) else []
    words += [f"{sign} {job[name]}" for name, sign in REDIRECTIONS.items() if isinstance(job.get(name), str)]
    inputs, outputs, size = _files(job, document)
    asked = asked_in_profiles(dict(_profiles(job)))
    return Task(
        name=identity,
        # A sub-workflow is one task whose command only a Pegasus planner knows.
        command=" ".join([str(category), *words]) if job.get("type", "job") == "job" else None,
        category=str(category),
        inputs=inputs,
        outputs=outputs,
        request=asked.request,
        gpus=asked.gpus,
        expected=Amounts.of(wall_time=_runtime(job, asked.seconds)),
        input_bytes=size,
    )


def _runtime(job: _Entry, profiled: float | None) -> float | None:
    """Return the run time, which workflow generators write as an attribute or as metadata of the job."""
    metadata = job.get("metadata")
    for value in (job.get("runtime"), metadata.get("runtime") if isinstance(metadata, Mapping) else None):
        try:
            seconds = float(str(value))
        except ValueError:
            continue
        if 0 <= seconds < 2.0**63:
            return seconds
    return profiled


def _files(job: _Entry, document: Document) -> tuple[tuple[str, ...], tuple[str, ...], Bytes | None]:
    inputs: dict[str, int | None] = {}
    outputs: dict[str, None] = {}
    for use in _entries(job, "uses", document):
        name = use.get("lfn")
        if not isinstance(name, str):
            raise document.error(f'a file of job "{job.get("id")}" has no lfn')
        kind = use.get("type")
        if kind in ("input", "inout", "checkpoint"):
            inputs[name] = _size(use)
        if kind in ("output", "inout"):
            outputs[name] = None
    return tuple(inputs), tuple(outputs), total_size(inputs.values())


def _size(use: _Entry) -> int | None:
    metadata = use.get("metadata")
    for value in (use.get("size"), metadata.get("size") if isinstance(metadata, Mapping) else None):
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)
    return None


def _profiles(job: _Entry) -> Iterator[tuple[tuple[str, str], str]]:
    profiles = job.get("profiles")
    for namespace, values in profiles.items() if isinstance(profiles, Mapping) else ():
        for key, value in values.items() if isinstance(values, Mapping) else ():
            yield (namespace, key), str(value)


_DEEPEST = 100
_MOST_NODES = 50_000_000
_NOTHING = frozenset(("", "~", "null", "Null", "NULL"))
# The C parser is ten times faster; the wheels include it, an unusual build might not.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _load(document: Document) -> _Value:
    """Parse a YAML file; raise an error that names the line if it is not valid."""
    try:
        return _Builder(document).build(yaml.parse(document.text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise document.error(f"is not YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError as error:
        raise document.error(f"is not YAML: {error}") from None
    except RecursionError:
        raise document.error("is nested too deeply") from None


def _line(event: Any) -> int:  # noqa: ANN401 (PyYAML's events have no types)
    return int(event.start_mark.line) + 1


class _Builder:
    """Builds values from the events that the parser reports."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._stack: list[tuple[_Value, str | None]] = []
        self._keys: list[str | None] = []
        self._anchors: dict[str, tuple[_Value, int]] = {}
        self._nodes = 0
        self._starts: list[int] = []
        self._top: _Value = None

    def build(self, events: Iterator[Any]) -> _Value:
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                plain = event.style is None or event.style == ""
                value = None if plain and event.value in _NOTHING else event.value
                self._add(value, event.anchor, self._count(1, event), event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open([], event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self._close(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
        return self._top

    def _count(self, nodes: int, event: yaml.Event) -> int:
        """Count nodes as if every alias were written out, so that a bomb is detected before it is expanded."""
        self._nodes += nodes
        if self._nodes > _MOST_NODES:
            raise self._document.error(f"expands to more than {_MOST_NODES:,} values", _line(event))
        return nodes

    def _open(self, value: _Value, event: Any) -> None:  # noqa: ANN401
        if len(self._stack) == _DEEPEST:
            raise self._document.error(f"is nested deeper than {_DEEPEST}", _line(event))
        self._starts.append(self._nodes)
        self._count(1, event)
        self._stack.append((value, event.anchor))
        self._keys.append(None)

    def _close(self, event: yaml.Event) -> None:
        value, anchor = self._stack.pop()
        self._keys.pop()
        self._add(value, anchor, self._nodes - self._starts.pop(), event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise self._document.error(f'alias "{event.anchor}" has no anchor', _line(event))
        value, nodes = self._anchors[event.anchor]
        self._add(value, None, self._count(nodes, event), event)

    def _add(self, value: _Value, anchor: str | None, nodes: int, event: yaml.Event) -> None:
        if anchor:
            self._anchors[anchor] = (value, nodes)
        if not self._stack:
            self._top = value
            return
        holder = self._stack[-1][0]
        if isinstance(holder, list):
            holder.append(value)
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = self._as_key(value, event)
        elif isinstance(holder, dict):
            holder[key] = value
            self._keys[-1] = None

    def _as_key(self, value: _Value, event: yaml.Event) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        raise self._document.error("a key must be a string", _line(event))
