"""Read a DAGMan file: insert splices, resolve dependencies, look up submit descriptions."""

import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Literal, cast

from tonnage.files import Document, is_file
from tonnage.workflow.dagman import submit
from tonnage.workflow.dagman.parts import Arc, Node, Parts, Splice, folder_within, parts, splice_path, unknown_node
from tonnage.workflow.dagman.statements import ALL_NODES, COMMANDS
from tonnage.workflow.formats.notes import restored
from tonnage.workflow.model import Source, SpecialTask, Task, Workflow
from tonnage.workflow.shell import several_lines, without_number

__all__ = ["NOTE", "read", "recognises", "shortened"]

NOTE = "tonnage"
"""The variable in which Tonnage stores what HTCondor cannot express."""

# A few lines of splices can expand to any number of nodes, and one PARENT line to any number of dependencies.
_MOST_TASKS = 5_000_000
_MOST_EDGES = 50_000_000
_MOST_SPLICES = 1_000_000
_MOST_LETTERS = 2**29
_MOST_WARNINGS = 20

# What follows a keyword that is also the name of a program, because a list of commands can start with one.
_SHAPES = {
    "CONFIG": r"\S+$",
    "DONE": r"\S+$",
    "DOT": r"[^\s-]\S*( (UPDATE|DONT.UPDATE|OVERWRITE|DONT.OVERWRITE|INCLUDE)\b.*)?$",
    "ENV": r"(SET|GET) ",
    "INCLUDE": r"\S+$",
    "REJECT": r"$",
    "RETRY": r"\S+ \d+( UNLESS.EXIT |$)",
    "SCRIPT": r"(DEFER|DEBUG|PRE|POST|HOLD) ",
}
_OTHER_SHAPE = r"(?!--?[A-Za-z])\S+ (?!--?[A-Za-z])\S"


def recognises(text: str) -> bool:
    """Whether the first statement of a text is one of DAGMan's, with plausible arguments."""
    lines = (line.strip() for line in text[:100_000].split("\n"))
    words = next((line.split() for line in lines if line and not line.startswith(("#", "//"))), [])
    keyword = words[0].upper().replace("-", "_") if words else ""
    if keyword not in COMMANDS:
        return False
    return re.match(_SHAPES.get(keyword, _OTHER_SHAPE), " ".join(words[1:]), re.IGNORECASE) is not None


def read(document: Document) -> Workflow:
    """Read a DAGMan file with its splices, included files and submit descriptions."""
    expansion = _Expansion(document)
    expansion.run()
    if not expansion.tasks and not expansion.special:
        raise document.error("contains no nodes")
    source = Source(document.path, "dagman", tuple(shortened(expansion.warnings)))
    special = [SpecialTask(_kind(node), task) for node, task in expansion.special]
    edges = (expansion.parents, expansion.children)
    return Workflow.build(document.stem, expansion.tasks, edges, special=special, source=source)


def _kind(node: Node) -> Literal["final", "provisioner", "service"]:
    return cast(Literal["final", "provisioner", "service"], node.kind.lower())


def shortened(warnings: Mapping[str, int]) -> Iterator[str]:
    """Yield each warning once with its number of nodes, up to a limit, and then how many more there are."""
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
    descriptions: Mapping[str, str]
    """Named submit descriptions: the DAG's own, and those of the enclosing DAGs."""
    inner: "dict[str, _Done]" = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Done:
    """A splice after its insertion: the tasks that dependencies to it and from it connect to."""

    entries: Sequence[int]
    exits: Sequence[int]
    pins: Mapping[tuple[str, int], Sequence[int]]


class _Expansion:
    """Walks through the top DAG and its splices without recursion, so that nesting can have any depth."""

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
        self._splice_paths: dict[tuple[str, str], Path] = {}
        self._splices = 0
        self._letters = 0
        self._describer = _Describer(self.folder, self.warnings)

    def run(self) -> None:
        top = self._scope(self.document, "", "", None, {})
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
        self.tasks = self._describer.set_apart(self.tasks)

    def _scope(
        self, document: Document, prefix: str, directory: str, splice: Splice | None, around: Mapping[str, str]
    ) -> _Scope:
        path = document.path if splice else document.path.resolve()
        self._open_files.add(path)
        found = self._parsed.get((path, directory))
        if found is None:
            found = self._parsed[path, directory] = parts(document, self.folder / directory)
            self.warnings.update(found.warnings)
        named = {**around, **found.descriptions} if around and found.descriptions else around or found.descriptions
        return _Scope(found, prefix, directory, iter(found.items), splice, path, named)

    def _enter(self, splice: Splice, outer: _Scope) -> _Scope:
        self._splices += 1
        if self._splices > _MOST_SPLICES:
            raise splice.document.error(f"more than {_MOST_SPLICES:,} splices", splice.line)
        directory = folder_within(outer.directory, splice.directory)
        path = self._splice_path(splice, directory)
        if path in self._open_files:
            raise splice.document.error(f'"{splice.file}" is spliced into itself', splice.line)
        document = Document(path, b"") if (path, directory) in self._parsed else Document.open(path)
        return self._scope(document, f"{outer.prefix}{splice.name}+", directory, splice, outer.descriptions)

    def _splice_path(self, splice: Splice, directory: str) -> Path:
        where = (directory, splice.file)
        if where not in self._splice_paths:
            self._splice_paths[where] = splice_path(splice, self.folder / directory)
        return self._splice_paths[where]

    def _add(self, node: Node, scope: _Scope) -> None:
        self._letters += len(scope.prefix) + len(node.name)
        if self._letters > _MOST_LETTERS:
            raise node.document.error(f"the names of tasks have more than {_MOST_LETTERS:,} characters", node.line)
        task = self._describer.task(node, scope)
        if node.kind not in ("JOB", "SUBDAG"):
            self._describer.paths.pop()
            self.special.append((node, task))
            if node.name in scope.parts.priorities:
                self.warnings[f'the {node.kind} node "{task.name}" has a PRIORITY, which DAGMan rejects'] += 1
            return
        if len(self.tasks) == _MOST_TASKS:
            raise node.document.error(f"more than {_MOST_TASKS:,} tasks", node.line)
        scope.numbers[node.name] = len(self.tasks)
        self.tasks.append(task)
        self._has_parent.append(0)
        self._has_child.append(0)

    def _finish(self, scope: _Scope) -> _Done:
        """Resolve the dependencies of a DAG whose nodes and splices are complete; return its entries and exits."""
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
        """Add the dependencies of CONNECT: from each output pin of one splice to the same input pin of the other."""
        first, second = scope.inner.get(arc.parents[0]), scope.inner.get(arc.children[0])
        if first is None or second is None:
            raise arc.document.error("CONNECT needs the names of two splices", arc.line)
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
    """Turns nodes into tasks with their submit descriptions, each of which is read only once."""

    def __init__(self, folder: Path, warnings: Counter[str]) -> None:
        self._folder = folder
        self._warnings = warnings
        self._files: dict[tuple[str, str], submit.Description | str] = {}
        self._texts: dict[str, submit.Description] = {}
        self._paths: dict[tuple[str, str], str] = {}
        self.paths: list[str | None] = []
        """For each task, the submit file after which its category is named."""

    def task(self, node: Node, scope: _Scope) -> Task:
        directory = folder_within(scope.directory, node.directory)
        try:
            return self._task(node, scope, directory)
        except ValueError as error:
            raise node.document.error(f'node "{node.name}": {error}', node.line) from None

    def _task(self, node: Node, scope: _Scope, directory: str) -> Task:
        before, after = self._variables(node, scope)
        # As DAGMan passes them to condor_submit: later ones win, and variables can also be settings.
        settings = {**before, **self._description(node, scope, directory), **after}
        command = "true" if node.noop else submit.command(settings, settings)
        request = submit.amounts(settings, settings)
        for oddity in submit.oddities(settings, settings, request):
            self._warnings[f"{node.file or node.name}: {oddity}"] += 1
        task = Task(
            name=f"{scope.prefix}{node.name}",
            command=command and several_lines(command),
            category=self._category(node, scope, directory),
            inputs=submit.files(settings, settings, "transfer_input_files"),
            outputs=submit.files(settings, settings, "transfer_output_files"),
            request=request,
            gpus=submit.gpus(settings, settings),
            priority=self._priority(node, scope),
            directory=folder_within(directory, submit.expand(settings.get("initialdir", ""), settings)) or None,
        )
        note = settings.get(NOTE)
        self.paths.append(self._path(node, scope, directory) if note is None else None)
        return task if note is None else self._with_note(task, note)

    @staticmethod
    def _with_note(task: Task, note: str) -> Task:
        try:
            return restored(task, note)
        except (TypeError, ValueError) as error:
            raise ValueError(f'its variable "{NOTE}" is damaged: {error}') from None

    @staticmethod
    def _variables(node: Node, scope: _Scope) -> tuple[dict[str, str], dict[str, str]]:
        """Return the variables that come before the submit description, and those that come after it."""
        found = scope.parts.variables.get(node.name, [])
        everyone = scope.parts.variables.get(ALL_NODES)
        if everyone and node.kind != "FINAL":
            found = sorted([*found, *everyone])
        before = {"job": f"{scope.prefix}{node.name}"}
        after: dict[str, str] = {}
        for variable in found:
            (after if variable.appended else before)[variable.name] = variable.value
        return before, after

    @staticmethod
    def _priority(node: Node, scope: _Scope) -> int | None:
        """Return the priority in the last line for the node or for all nodes."""
        own = scope.parts.priorities.get(node.name)
        everyone = scope.parts.priorities.get(ALL_NODES) if node.kind != "FINAL" else None
        stated = [one for one in (own, everyone) if one is not None]
        return max(stated)[1] if stated else None

    def _category(self, node: Node, scope: _Scope, directory: str) -> str:
        """Return the name of the submit description; for a file, without its folder and extension."""
        if node.file is None:
            return without_number(node.name)
        if node.file in scope.descriptions:
            return node.file
        path = self._path(node, scope, directory) or node.file
        return path.rpartition("/")[2] or path

    def _path(self, node: Node, scope: _Scope, directory: str) -> str | None:
        """Return a submit file's path without its extension; None if the description is not in a file."""
        if node.file is None or node.file in scope.descriptions:
            return None
        where = (directory, node.file)
        if where not in self._paths:
            path = PurePosixPath(normpath(PurePosixPath(directory, node.file)))
            self._paths[where] = str(path.with_suffix("")) if path.name else node.file
        return self._paths[where]

    def set_apart(self, tasks: list[Task]) -> list[Task]:
        """Return the tasks with separate categories for submit files of the same name in different folders."""
        known: dict[str, set[str]] = {}
        for path in self._paths.values():
            known.setdefault(path.rpartition("/")[2], set()).add(path)
        shared = {path for paths in known.values() if len(paths) > 1 for path in paths}
        if not shared:
            return tasks
        return [
            replace(task, category=path) if path in shared else task
            for task, path in zip(tasks, self.paths, strict=True)
        ]

    def _description(self, node: Node, scope: _Scope, directory: str) -> submit.Description:
        """Return the settings of the node's submit description; empty if it has no file or the file is missing."""
        text = node.description if node.file is None else scope.descriptions.get(node.file)
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
        """Return the description in a file, or the problem with the file."""
        subdag = node.kind == "SUBDAG"
        if is_file(path) and os.access(path, os.R_OK):
            return {} if subdag else submit.parse(Document.open(path).text)
        problem = "cannot be read" if is_file(path) else "is missing"
        if subdag:
            return f'SUBDAG file "{node.file}" {problem}'
        return f'submit file "{node.file}" {problem}: command and requests are unknown'
