"""A DAG and its splices, each at the place where it is inserted, with the new priorities of its nodes."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.errors import InputError
from tonnage.files import Document
from tonnage.workflow.dagman.parts import Node, Parts, Splice, folder_within, parts, splice_path

__all__ = ["Scope", "scopes"]


@dataclass(eq=False)
class Scope:
    """The top DAG, or a splice under its name."""

    prefix: str
    """The prefix of its nodes' names: empty, or like ``A+B+``."""
    directory: str
    document: Document
    parts: Parts
    wanted: Mapping[str, int]
    """The priorities of its own nodes."""
    named: "Mapping[str, Scope]"
    """Named submit descriptions, its own and those of the enclosing DAGs, and where each is defined."""
    inner: "dict[str, Scope]" = field(default_factory=dict)
    """Its splices."""
    used: set[str] = field(default_factory=set)
    """The descriptions defined here that nodes with a priority use, here or in a splice."""

    @property
    def name(self) -> str:
        """The names of the splices that lead to it; empty for the top DAG."""
        return self.prefix[:-1]


def scopes(document: Document, priorities: Mapping[str, int], keep: Collection[str]) -> list[Scope]:
    """Return the top DAG and all splices, each before those inside it; `keep` is passed to `parts`."""
    walk = _Walk(document, _by_prefix(priorities), keep)
    found = list(walk.run())
    if walk.wanted:
        prefix, nodes = next(iter(walk.wanted.items()))
        raise _no_node(document, f"{prefix}{next(iter(nodes))}")
    return found


def _by_prefix(priorities: Mapping[str, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, number in priorities.items():
        if not -(2**31) <= number < 2**31:
            raise InputError(f'the priority {number:,} of "{name}" does not fit into the 32 bits that DAGMan uses')
        splices, plus, node = name.rpartition("+")
        found.setdefault(splices + plus, {})[node] = number
    return found


def _no_node(document: Document, name: str) -> InputError:
    return document.error(f'"{name}" is not a JOB or SUBDAG node, so it cannot have a priority')


class _Walk:
    """Walks through a DAG and its splices without recursion."""

    def __init__(self, document: Document, wanted: dict[str, dict[str, int]], keep: Collection[str]) -> None:
        self.document = document
        self.wanted = wanted
        """Priorities of nodes that have not been found yet."""
        self._keep = keep
        self._parsed: dict[tuple[Path, str], tuple[Document, Parts]] = {}

    def run(self) -> Iterator[Scope]:
        top = self._scope(self.document.path.resolve(), "", "", {})
        yield top
        stack = [(top, top.document.path.resolve(), self._splices(top))]
        open_files = {stack[0][1]}
        while stack:
            outer, path, remaining = stack[-1]
            splice = next(remaining, None)
            if splice is None:
                stack.pop()
                open_files.discard(path)
                continue
            directory = folder_within(outer.directory, splice.directory)
            file = splice_path(splice, self.document.path.parent / directory)
            if file in open_files:
                raise splice.document.error(f'"{splice.file}" is spliced into itself', splice.line)
            scope = self._scope(file, f"{outer.prefix}{splice.name}+", directory, outer.named)
            outer.inner[splice.name] = scope
            open_files.add(file)
            stack.append((scope, file, self._splices(scope)))
            yield scope

    @staticmethod
    def _splices(scope: Scope) -> Iterator[Splice]:
        return (item for item in scope.parts.items if isinstance(item, Splice))

    def _scope(self, path: Path, prefix: str, directory: str, around: Mapping[str, Scope]) -> Scope:
        if (path, directory) not in self._parsed:
            document = Document.open(path) if prefix else self.document
            folder = self.document.path.parent / directory
            self._parsed[path, directory] = document, parts(document, folder, self._keep)
        document, found = self._parsed[path, directory]
        wanted = self.wanted.pop(prefix, {})
        for name in wanted:
            node = found.names.get(name)
            if not isinstance(node, Node) or node.kind not in ("JOB", "SUBDAG"):
                raise _no_node(self.document, f"{prefix}{name}")
        scope = Scope(prefix, directory, document, found, wanted, around)
        if found.descriptions:
            scope.named = {**around, **dict.fromkeys(found.descriptions, scope)}
        return scope
