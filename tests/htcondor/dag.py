"""DAGMan's input files, as far as the stand-in honours them; written without a look at Tonnage's own reader."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Dag", "DagError", "Node", "Retries", "Variable", "newest_rescue", "read_dag", "read_rescue"]

_VARIABLE = re.compile(r'\s*([\w.+]+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_EVERY = "ALL_NODES"
_IGNORED = frozenset(["CONFIG", "DOT", "NODE_STATUS_FILE", "JOBSTATE_LOG", "SAVE_POINT_FILE", "SET_JOB_ATTR", "ENV"])
"""Commands that change nothing here."""


class DagError(Exception):
    """A line that DAGMan would not take."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A macro of a node; it is set before the submit description is read, or after it."""

    name: str
    value: str
    appended: bool = False


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a failed node is tried again, and after which exit status it is not."""

    most: int = 0
    unless: int | None = None


@dataclass(slots=True)
class Node:
    """A node as its lines describe it."""

    name: str
    description: str
    """A file, or what stands between braces."""
    is_inline: bool = False
    directory: str | None = None
    done: bool = False
    final: bool = False
    variables: list[Variable] = field(default_factory=list)
    priority: int = 0
    retries: Retries = field(default_factory=Retries)
    scripts: dict[str, list[str]] = field(default_factory=dict)
    category: str | None = None
    parents: set[str] = field(default_factory=set)
    children: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Dag:
    """The nodes of a DAG, and how many of a category may be in the queue."""

    nodes: dict[str, Node] = field(default_factory=dict)
    throttles: dict[str, int] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)

    def named(self, name: str) -> list[Node]:
        """Return the nodes that a command is about."""
        if name.upper() == _EVERY:
            return [node for node in self.nodes.values() if not node.final]
        if name not in self.nodes:
            raise DagError(f"Unknown Job {name}")
        return [self.nodes[name]]


def read_dag(path: Path) -> Dag:
    """Read a DAG: nodes first, since other lines may stand before them."""
    dag = Dag()
    later = [words for words in _commands(path) if not _define(dag, words)]
    for words in later:
        try:
            _apply(dag, words)
        except (IndexError, ValueError):
            raise DagError(f"{path}: Invalid syntax: {' '.join(words)}") from None
    for node in dag.nodes.values():
        if node.is_inline or node.description not in dag.descriptions:
            continue
        node.description, node.is_inline = dag.descriptions[node.description], True
    return dag


def read_rescue(path: Path, dag: Dag) -> None:
    """Mark what a rescue DAG says is done, and take over its retries."""
    for words in _commands(path):
        _apply(dag, words)


def newest_rescue(dag: Path) -> Path | None:
    """Return the rescue DAG with the highest number."""
    found = [one for one in dag.parent.glob(f"{dag.name}.rescue*") if re.search(r"\.rescue\d{3}$", one.name)]
    return max(found, default=None)


def _commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each line; the text of an inline description is one word behind a brace."""
    lines = iter(path.read_text().split("\n"))
    for line in lines:
        text = line.strip()
        if not text or text.startswith(("#", "//")):
            continue
        while text.endswith("\\"):
            text = text[:-1] + " " + next((more.strip() for more in lines if not _is_comment(more)), "")
        if text.split(None, 1)[0].upper() == "VARS":
            yield text.split(None, 2)
        elif text.endswith("{"):
            yield [*text[:-1].split(), "{", "\n".join(_until(lines, "}"))]
        elif mark := re.search(r"@=(\w+)$", text):
            yield [*text[: mark.start()].split(), "{", "\n".join(_until(lines, f"@{mark[1]}"))]
        else:
            yield text.split()


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(("#", "//"))


def _until(lines: Iterator[str], end: str) -> Iterator[str]:
    for line in lines:
        if line.strip() == end:
            return
        yield line
    raise DagError(f"no line {end}")


def _define(dag: Dag, words: list[str]) -> bool:
    """Take a line that defines a node or a description; whether it was one."""
    command = _keyword(words[0])
    if command == "SUBMIT_DESCRIPTION":
        dag.descriptions[words[1]] = words[3]
        return True
    if command not in ("JOB", "FINAL"):
        return False
    if len(words) < 3:
        raise DagError(f"Invalid syntax: {' '.join(words)}")
    name = words[1]
    if name in dag.nodes:
        raise DagError(f"Node name {name} is already used")
    inline = words[2] == "{"
    node = Node(name, words[3] if inline else words[2], is_inline=inline, final=command == "FINAL")
    rest = iter(words[4 if inline else 3 :])
    for word in rest:
        match _keyword(word):
            case "DIR":
                node.directory = next(rest)
            case "DONE":
                node.done = True
            case _:
                raise DagError(f"Invalid syntax: {' '.join(words)}")
    dag.nodes[name] = node
    return True


def _keyword(word: str) -> str:
    return word.upper().replace("-", "_")


def _apply(dag: Dag, words: list[str]) -> None:
    command = _keyword(words[0])
    if command == "PARENT":
        _connect(dag, words)
    elif command == "MAXJOBS":
        dag.throttles[words[1]] = int(words[2])
    elif command in _OF_NODES:
        for node in dag.named(words[2 if command == "SCRIPT" else 1]):
            _OF_NODES[command](node, words)
    elif command not in _IGNORED:
        raise DagError(f"Expected a DAG command, found {words[0]}")


def _set_variables(node: Node, words: list[str]) -> None:
    node.variables += _variables(words[2])


def _set_priority(node: Node, words: list[str]) -> None:
    node.priority = int(words[2])


def _set_retries(node: Node, words: list[str]) -> None:
    unless = int(words[4]) if len(words) > 3 and _keyword(words[3]) == "UNLESS_EXIT" else None
    node.retries = Retries(int(words[2]), unless)


def _set_script(node: Node, words: list[str]) -> None:
    node.scripts[words[1].upper()] = words[3:]


def _set_category(node: Node, words: list[str]) -> None:
    node.category = words[2]


def _set_done(node: Node, _words: list[str]) -> None:
    node.done = True


_OF_NODES = {
    "VARS": _set_variables,
    "PRIORITY": _set_priority,
    "RETRY": _set_retries,
    "SCRIPT": _set_script,
    "CATEGORY": _set_category,
    "DONE": _set_done,
}


def _connect(dag: Dag, words: list[str]) -> None:
    middle = next(place for place, word in enumerate(words) if word.upper() == "CHILD")
    for parent in words[1:middle]:
        for child in words[middle + 1 :]:
            (above,), (below,) = dag.named(parent), dag.named(child)
            if parent not in below.parents:
                below.parents.add(parent)
                above.children.append(child)


def _variables(text: str) -> Iterator[Variable]:
    """Yield the macros of a VARS line: ``[PREPEND|APPEND] name="value" ...``."""
    appended = False
    if found := re.match(r"(PREPEND|APPEND)\s+", text, re.IGNORECASE):
        appended, text = found[1].upper() == "APPEND", text[found.end() :]
    place = 0
    while text[place:].strip():
        found = _VARIABLE.match(text, place)
        if not found:
            raise ValueError(text)
        yield Variable(found[1], re.sub(r"\\(.)", r"\1", found[2]), appended)
        place = found.end()
