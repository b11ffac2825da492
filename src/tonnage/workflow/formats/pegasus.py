"""Pegasus 5 abstract workflows in YAML (or JSON, which is also YAML)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tonnage.files import Document
from tonnage.jobs import Amounts
from tonnage.units import Bytes
from tonnage.workflow.formats.dax import REDIRECTIONS, asked_in_profiles
from tonnage.workflow.model import Source, Task, Workflow, total_size
from tonnage.workflow.names import Links

if TYPE_CHECKING:
    from tonnage.workflow.formats.safe_yaml import Value

__all__ = ["read", "recognises"]

_Entry: TypeAlias = "Mapping[str, Value]"

_TOP_LEVEL = re.compile(r"""^["']?(?:x-pegasus|pegasus|jobDependencies)["']?\s*:""", re.MULTILINE)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_IN_JSON = re.compile(r'"(?:x-pegasus|pegasus|jobDependencies)"\s*:')


def recognises(text: str) -> bool:
    """Whether the text has a top-level key that only Pegasus uses."""
    head = text[:1_000_000]
    return bool(_IN_JSON.search(head) if head.lstrip().startswith("{") else _TOP_LEVEL.search(head))


def read(document: Document) -> Workflow:
    """Read a Pegasus 5 workflow; dependencies are its ``jobDependencies``."""
    from tonnage.workflow.formats.safe_yaml import load  # recognising other formats must not load PyYAML

    top = load(document)
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
