"""Reading a DAGMan file: splices are inserted, dependencies resolved, submit descriptions looked up."""

import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, cast

from tonnage.files import Document, is_file
from tonnage.workflow.dagman import submit
from tonnage.workflow.dagman.parts import ALL_NODES, Arc, Node, Parts, Splice, parts, unknown_node
from tonnage.workflow.dagman.statements import COMMANDS
from tonnage.workflow.model import Source, SpecialTask, Task, Workflow
from tonnage.workflow.notes import restored
from tonnage.workflow.shell import several_lines, without_number

__all__ = ["NOTE", "read", "recognises"]

NOTE = "tonnage"
"""The variable in which Tonnage keeps what HTCondor has no word for."""

# A few lines of splices can stand for any number of nodes, and one PARENT line for any number of dependencies.
_MOST_TASKS = 5_000_000
_MOST_EDGES = 50_000_000
_MOST_WARNINGS = 20
_OPTION = re.compile(r"--?[A-Za-z]")


def recognises(text: str) -> bool:
    """Whether the first statement of a text is one of DAGMan's, with words that fit."""
    lines = (line.strip() for line in text[:100_000].split("\n"))
    words = next((line.split() for line in lines if line and not line.startswith(("#", "//"))), [])
    if not words or words[0].upper().replace("-", "_") not in COMMANDS:
        return False
    # A bag of tasks may start with a program called `job` or `env`, but DAGMan's words do not look like options.
    return len(words) > 1 and not any(_OPTION.match(word) for word in words[1:3])


def read(document: Document) -> Workflow:
    """Read a DAGMan file with its splices, included files and submit descriptions."""
    expansion = _Expansion(document)
    expansion.run()
    if not expansion.tasks and not expansion.special:
        raise document.error("holds no node")
    source = Source(document.path, "dagman", tuple(_shortened(expansion.warnings)))
    special = [SpecialTask(_kind(node), task) for node, task in expansion.special]
    edges = (expansion.parents, expansion.children)
    return Workflow.build(document.stem, expansion.tasks, edges, special=special, source=source)


def _kind(node: Node) -> Literal["final", "provisioner", "service"]:
    return cast(Literal["final", "provisioner", "service"], node.kind.lower())


def _shortened(warnings: Mapping[str, int]) -> Iterator[str]:
    """Yield each warning once, and say how many more there are."""
    for text, count in islice(warnings.items(), _MOST_WARNINGS):
        yield text if count == 1 else f"{text} ({count:,} nodes)"
    if len(warnings) > _MOST_WARNINGS:
        yield f"and {len(warnings) - _MOST_WARNINGS:,} more like these"


@dataclass
class _Scope:
    """A DAG at the place where it is inserted: the top one, or a splice with its prefix."""

    parts: Parts
    prefix: str
    directory: str
    remaining: Iterator[Node | Splice]
    splice: Splice | None
    path: Path
    inner: "dict[str, _Done]" = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Done:
    """A splice after its insertion: where arrows to it and from it go."""

    entries: Sequence[int]
    exits: Sequence[int]
    pins: Mapping[tuple[str, int], Sequence[int]]


class _Expansion:
    """Walks through the top DAG and its splices without recursion, so that nesting may be as deep as it likes."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.folder = document.path.parent
        self.tasks: list[Task] = []
        self.special: list[tuple[Node, Task]] = []
        self.parents = array("q")
        self.children = array("q")
        self.warnings: Counter[str] = Counter()
        self._has_parent = bytearray()
        self._has_child = bytearray()
        self._parsed: dict[tuple[Path, str], Parts] = {}
        self._open_files: set[Path] = set()
        self._describer = _Describer(self.folder, self.warnings)

    def run(self) -> None:
        top = self._scope(self.document, "", "", None)
        stack = [top]
        while stack:
            scope = stack[-1]
            item = next(scope.remaining, None)
            if isinstance(item, Node):
                self._add(item, scope)
            elif isinstance(item, Splice):
                stack.append(self._enter(item, scope))
            else:
                done = self._finish(scope)
                stack.pop()
                self._open_files.discard(scope.path)
                if stack and scope.splice:
                    stack[-1].inner[scope.splice.name] = done

    def _scope(self, document: Document, prefix: str, directory: str, splice: Splice | None) -> _Scope:
        path = document.path.resolve()
        self._open_files.add(path)
        found = self._parsed.get((path, directory))
        if found is None:
            found = self._parsed[path, directory] = parts(document, self.folder / directory)
            self.warnings.update(found.warnings)
        return _Scope(found, prefix, directory, iter(found.items), splice, path)

    def _enter(self, splice: Splice, outer: _Scope) -> _Scope:
        directory = _joined(outer.directory, splice.directory)
        path = self.folder / directory / splice.file
        if not is_file(path):
            looked = f"looked for {path}"
            raise splice.document.error(f'SPLICE names "{splice.file}", which does not exist', splice.line, hint=looked)
        resolved = path.resolve()
        if resolved in self._open_files:
            raise splice.document.error(f'"{splice.file}" is spliced into itself', splice.line)
        document = Document(path, b"") if (resolved, directory) in self._parsed else Document.open(path)
        return self._scope(document, f"{outer.prefix}{splice.name}+", directory, splice)

    def _add(self, node: Node, scope: _Scope) -> None:
        task = self._describer.task(node, scope)
        if node.kind not in ("JOB", "SUBDAG"):
            self.special.append((node, task))
            return
        if len(self.tasks) == _MOST_TASKS:
            raise node.document.error(f"more than {_MOST_TASKS:,} tasks", node.line)
        scope.numbers[node.name] = len(self.tasks)
        self.tasks.append(task)
        self._has_parent.append(0)
        self._has_child.append(0)

    def _finish(self, scope: _Scope) -> _Done:
        """Resolve the dependencies of a DAG whose nodes and splices all stand, and say where its ends are."""
        for arc in scope.parts.arcs:
            if arc.connect:
                self._connect(arc, scope)
                continue
            parents = [number for name in arc.parents for number in self._ends(name, scope, arc, "exits")]
            children = [number for name in arc.children for number in self._ends(name, scope, arc, "entries")]
            self._link(parents, children, arc)
        numbers = scope.numbers.values()
        entries = [*numbers, *(number for done in scope.inner.values() for number in done.entries)]
        exits = [*numbers, *(number for done in scope.inner.values() for number in done.exits)]
        return _Done(
            entries=[number for number in entries if not self._has_parent[number]],
            exits=[number for number in exits if not self._has_child[number]],
            pins=self._pins(scope) if scope.parts.pins else {},
        )

    def _ends(self, name: str, scope: _Scope, arc: Arc, side: Literal["entries", "exits"]) -> Sequence[int]:
        number = scope.numbers.get(name)
        if number is not None:
            return (number,)
        done = scope.inner.get(name)
        if done is not None:
            return done.entries if side == "entries" else done.exits
        item = scope.parts.names.get(name)
        if isinstance(item, Node):
            raise arc.document.error(f'a {item.kind} node ("{name}") cannot have parents or children', arc.line)
        raise unknown_node(name, arc.document, arc.line, scope.parts.names)

    def _link(self, parents: Sequence[int], children: Sequence[int], arc: Arc) -> None:
        if len(self.parents) + len(parents) * len(children) > _MOST_EDGES:
            raise arc.document.error(f"more than {_MOST_EDGES:,} dependencies", arc.line)
        for parent in parents:
            self._has_child[parent] = 1
            if parent in children:
                raise arc.document.error(f'task "{self.tasks[parent].name}" depends on itself', arc.line)
            self.parents.extend([parent] * len(children))
            self.children.extend(children)
        for child in children:
            self._has_parent[child] = 1

    def _connect(self, arc: Arc, scope: _Scope) -> None:
        """Draw the arrows of CONNECT: from each output pin of one splice to the same input pin of the other."""
        first, second = scope.inner.get(arc.parents[0]), scope.inner.get(arc.children[0])
        if first is None or second is None:
            raise arc.document.error("CONNECT joins two splices", arc.line)
        outs = {number for kind, number in first.pins if kind == "PIN_OUT"}
        ins = {number for kind, number in second.pins if kind == "PIN_IN"}
        if outs != ins or not outs:
            found = f"{len(outs)} PIN_OUT and {len(ins)} PIN_IN"
            raise arc.document.error(f"CONNECT needs the same pins on both sides; found {found}", arc.line)
        for number in sorted(outs):
            self._link(first.pins["PIN_OUT", number], second.pins["PIN_IN", number], arc)

    def _pins(self, scope: _Scope) -> dict[tuple[str, int], Sequence[int]]:
        pins: dict[tuple[str, int], Sequence[int]] = {}
        for (kind, pin), names in scope.parts.pins.items():
            numbers: list[int] = []
            for name in names:
                inner = scope.inner.get(name)
                ends = () if inner is None else inner.entries if kind == "PIN_IN" else inner.exits
                numbers += [scope.numbers[name]] if name in scope.numbers else ends
            pins[kind, pin] = numbers
        return pins


class _Describer:
    """Turns nodes into tasks with the help of their submit descriptions, each of which is read once."""

    def __init__(self, folder: Path, warnings: Counter[str]) -> None:
        self._folder = folder
        self._warnings = warnings
        self._files: dict[tuple[str, str], submit.Description | str] = {}
        self._texts: dict[str, submit.Description] = {}
        self._stems: dict[str, str] = {}
        self._categories: dict[tuple[str, str], str] = {}

    def task(self, node: Node, scope: _Scope) -> Task:
        directory = _joined(scope.directory, node.directory)
        variables = self._variables(node, scope)
        description = self._description(node, scope, directory)
        macros = {**description, **variables}
        command = "true" if node.noop else submit.command(description, macros)
        request = submit.amounts(description, macros)
        for oddity in submit.oddities(description, macros, request):
            self._warnings[f"{node.file or node.name}: {oddity}"] += 1
        task = Task(
            name=f"{scope.prefix}{node.name}",
            command=command and several_lines(command),
            category=self._category(node, scope, directory),
            inputs=submit.files(description, macros, "transfer_input_files"),
            outputs=submit.files(description, macros, "transfer_output_files"),
            request=request,
            priority=scope.parts.priorities.get(node.name, scope.parts.priorities.get(ALL_NODES)),
            directory=directory or None,
        )
        return self._with_note(task, node, variables[NOTE]) if NOTE in variables else task

    def _with_note(self, task: Task, node: Node, note: str) -> Task:
        try:
            return restored(task, note)
        except (TypeError, ValueError) as error:
            message = f'the variable "{NOTE}" of node "{node.name}" is damaged: {error}'
            raise node.document.error(message, node.line) from None

    def _variables(self, node: Node, scope: _Scope) -> Mapping[str, str]:
        everyone = scope.parts.variables.get(ALL_NODES, ())
        own = scope.parts.variables.get(node.name, ())
        return {"job": f"{scope.prefix}{node.name}", **dict(everyone), **dict(own)}

    def _category(self, node: Node, scope: _Scope, directory: str) -> str:
        """Return the name of the submit description; where two files share one, their paths set them apart."""
        if node.file is None:
            return without_number(node.name)
        if node.file in scope.parts.descriptions:
            return node.file
        where = (directory, node.file)
        if where not in self._categories:
            path = PurePosixPath(directory, node.file)
            whole = str(path.with_suffix("")) if path.name else node.file
            stem = path.stem or node.file
            self._categories[where] = stem if self._stems.setdefault(stem, whole) == whole else whole
        return self._categories[where]

    def _description(self, node: Node, scope: _Scope, directory: str) -> submit.Description:
        """Return the settings of the node's submit description; none where it has no file or that is missing."""
        text = node.description if node.file is None else scope.parts.descriptions.get(node.file)
        if text is not None:
            if text not in self._texts:
                self._texts[text] = submit.parse(text)
            return self._texts[text]
        where = (directory, node.file or "")
        if where not in self._files:
            self._files[where] = self._from_file(self._folder / directory / where[1], node)
        found = self._files[where]
        if isinstance(found, str) and not node.noop:
            self._warnings[found] += 1
        return {} if isinstance(found, str) else found

    @staticmethod
    def _from_file(path: Path, node: Node) -> submit.Description | str:
        """Return the description in a file, or what is wrong with the file."""
        subdag = node.kind == "SUBDAG"
        if is_file(path) and os.access(path, os.R_OK):
            return {} if subdag else submit.parse(Document.open(path).text)
        problem = "cannot be read" if is_file(path) else "is missing"
        if subdag:
            return f'SUBDAG file "{node.file}" {problem}'
        return f'submit file "{node.file}" {problem}: command and requests are unknown'


def _joined(outer: str, inner: str | None) -> str:
    """Return the folder `inner` as seen from `outer`; the empty text is the DAG file's own folder."""
    return str(PurePosixPath(outer, inner)) if inner else outer
