"""Pegasus DAX: abstract workflows in XML, versions 2 to 4; and what it has in common with Pegasus 5 (pegasus.py).

The parser is expat, one element at a time: no tree is built, a document type (which could contain entity bombs or name
other files) is rejected, and so is nesting deeper than in any DAX.

Both formats use the same words for what a job requests (profiles) and where its streams go (redirections).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from xml.parsers import expat

from tonnage.errors import InputError
from tonnage.files import Document
from tonnage.jobs import Amounts
from tonnage.workflow.dagman import submit
from tonnage.workflow.model import Source, Task, Workflow, total_size
from tonnage.workflow.names import Links

__all__ = ["REDIRECTIONS", "asked_in_profiles", "read", "recognises"]

_DEEPEST = 32
_NODES = frozenset(("job", "dag", "dax"))


def recognises(text: str) -> bool:
    """Whether a text is XML, of which DAX is the only workflow format."""
    return re.match(r"\s*<[?!a-zA-Z]", text) is not None


def read(document: Document) -> Workflow:
    """Read a DAX file; dependencies are its ``child`` elements, run times its ``runtime`` attributes."""
    builder = _Builder(document)
    try:
        builder.parser.Parse(document.data, True)
    except expat.ExpatError as error:
        problem = expat.errors.messages[error.code]
        raise document.error(f"is not well-formed XML: {problem}", error.lineno) from None
    except (LookupError, ValueError) as error:
        raise document.error(f"has an unsupported encoding: {error}", 1) from None
    return builder.workflow()


@dataclass
class _Job:
    """A job element while its inner elements are being read."""

    task: Task
    arguments: list[str] = field(default_factory=list)
    redirections: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    sizes: list[int | None] = field(default_factory=list)
    profiles: dict[tuple[str, str], str] = field(default_factory=dict)


class _Builder:
    """Builds the workflow from the elements that the parser reports."""

    def __init__(self, document: Document) -> None:
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.buffer_text = True
        self._document = document
        self._name = document.stem
        self._open: list[str] = []
        self._job: _Job | None = None
        self._text: list[str] | None = None
        self._profile: tuple[str, str] | None = None
        self._child: str | None = None
        self._tasks: list[Task] = []
        self._numbers: dict[str, int] = {}
        self._links: list[tuple[str, str, int]] = []

    def workflow(self) -> Workflow:
        if not self._tasks:
            raise self._document.error("contains no jobs")
        links = Links(self._document, self._numbers)
        for parent, child, line in self._links:
            links.add(parent, (child,), line)
        source = Source(self._document.path, "dax")
        return Workflow.build(self._name, self._tasks, links.edges, source=source)

    def _error(self, message: str) -> InputError:
        return self._document.error(message, self.parser.CurrentLineNumber)

    def _doctype(self, *_: object) -> None:
        raise self._error("a document type (DOCTYPE) is not allowed in a DAX")

    def _start(self, qualified: str, attributes: dict[str, str]) -> None:
        name = qualified.rpartition(":")[2]
        if not self._open and name != "adag":
            raise self._error(f"the root element is <{name}>; expected <adag>")
        self._open.append(name)
        if len(self._open) > _DEEPEST:
            raise self._error(f"elements are nested deeper than {_DEEPEST}")
        if name == "adag":
            self._name = attributes.get("name") or self._name
        elif self._job is not None:
            self._inside_job(self._job, name, attributes)
        elif name in _NODES and len(self._open) == 2:
            self._job = _Job(self._new_task(attributes))
        elif name == "child":
            self._child = self._required(attributes, "ref", name)
        elif name == "parent" and self._child is not None:
            line = self.parser.CurrentLineNumber
            self._links.append((self._required(attributes, "ref", name), self._child, line))

    def _required(self, attributes: Mapping[str, str], key: str, element: str) -> str:
        if key not in attributes:
            raise self._error(f'<{element}> has no attribute "{key}"')
        return attributes[key]

    def _new_task(self, attributes: Mapping[str, str]) -> Task:
        identity = self._required(attributes, "id", "job")
        if identity in self._numbers:
            raise self._error(f'job "{identity}" is defined twice')
        category = attributes.get("name") or attributes.get("file") or identity
        seconds = self._number(attributes, "runtime")
        return Task(name=identity, category=category, expected=Amounts.of(wall_time=seconds))

    def _number(self, attributes: Mapping[str, str], key: str) -> float | None:
        """Return an attribute that must be a non-negative number, or None if it is absent."""
        text = attributes.get(key)
        if text is None or not text.strip():
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < 2.0**63:
            raise self._error(f'the attribute {key} is "{text}"; expected a non-negative number')
        return value

    def _inside_job(self, job: _Job, name: str, attributes: Mapping[str, str]) -> None:
        if name == "argument":
            self._text = []
        elif name in ("file", "filename") and self._text is not None:
            self._text.append(attributes.get("name") or attributes.get("file") or "")
        elif name == "profile":
            self._profile = (attributes.get("namespace", ""), attributes.get("key", ""))
            self._text = []
        elif name == "uses":
            self._uses(job, attributes)
        elif name in REDIRECTIONS and (file := attributes.get("name") or attributes.get("file")):
            job.redirections.append(f"{REDIRECTIONS[name]} {file}")

    def _uses(self, job: _Job, attributes: Mapping[str, str]) -> None:
        file = attributes.get("file") or attributes.get("name")
        if not file:
            raise self._error('<uses> names no file (attribute "file" or "name")')
        link = attributes.get("link", "input").lower()
        if link in ("input", "inout"):
            job.inputs.append(file)
            size = self._number(attributes, "size")
            job.sizes.append(None if size is None else int(size))
        if link in ("output", "inout"):
            job.outputs.append(file)

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, _qualified: str) -> None:
        name = self._open.pop()
        if self._job is None:
            self._child = None if name == "child" else self._child
        elif name == "argument" and self._text is not None:
            # Line breaks are only for looks; blanks inside a line can be in quotes and have a meaning.
            self._job.arguments.append(" ".join(line.strip() for line in "".join(self._text).splitlines()).strip())
            self._text = None
        elif name == "profile" and self._profile and self._text is not None:
            self._job.profiles[self._profile] = "".join(self._text).strip()
            self._text = None
        elif name in _NODES and len(self._open) == 1:
            self._finish(self._job, name)
            self._job = None

    def _finish(self, job: _Job, element: str) -> None:
        task = job.task
        asked = asked_in_profiles(job.profiles)
        if task.expected.wall_time is None and asked.seconds is not None:
            task = replace(task, expected=Amounts.of(wall_time=asked.seconds))
        self._numbers[task.name] = len(self._tasks)
        self._tasks.append(
            replace(
                task,
                # <dag> and <dax> are other workflows: one task each, whose command only Pegasus's planner knows.
                command=" ".join([task.category, *job.arguments, *job.redirections]) if element == "job" else None,
                inputs=tuple(dict.fromkeys(job.inputs)),
                outputs=tuple(dict.fromkeys(job.outputs)),
                request=asked.request,
                gpus=asked.gpus,
                input_bytes=total_size(job.sizes),
            )
        )


REDIRECTIONS = {"stdin": "<", "stdout": ">", "stderr": "2>"}
"""The shell operator for the element or key of this name."""


class _Asked(NamedTuple):
    """What the profiles of a job request and expect."""

    request: Amounts
    gpus: int
    seconds: float | None
    """The expected run time, if there is one."""


def asked_in_profiles(profiles: Mapping[tuple[str, str], str]) -> _Asked:
    """Return what (namespace, key) profiles request and expect.

    Pegasus measures memory and diskspace in MB of 2^20 bytes; the condor namespace has HTCondor's own settings.
    """
    settings = {key: value for (namespace, key), value in profiles.items() if namespace == "condor"}
    condor = submit.amounts(settings, {})

    def pegasus(key: str) -> float | None:
        return submit.amount(profiles.get(("pegasus", key), ""), 1)

    def in_bytes(key: str) -> int | None:
        value = submit.amount(profiles.get(("pegasus", key), ""), 2**20)
        return None if value is None else round(value)

    seconds = pegasus("runtime")
    minutes = pegasus("maxwalltime")
    cores, memory, disk = pegasus("cores"), in_bytes("memory"), in_bytes("diskspace")
    request = Amounts.of(
        cores=condor.cores if cores is None else cores,
        memory=condor.memory if memory is None else memory,
        disk=condor.disk if disk is None else disk,
        wall_time=condor.wall_time if minutes is None else minutes * 60,
    )
    gpus = pegasus("gpus")
    return _Asked(request, submit.gpus(settings, {}) if gpus is None else math.ceil(gpus), seconds)
