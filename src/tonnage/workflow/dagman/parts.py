"""The parts of one DAGMan file, by name: nodes, splices, dependencies, variables, priorities."""

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tonnage.errors import InputError
from tonnage.files import Document, is_file
from tonnage.workflow.dagman.statements import (
    ALL_NODES,
    COMMANDS,
    INTEGER,
    RESERVED,
    WORD,
    Statement,
    statements,
    unquoted,
)
from tonnage.workflow.names import did_you_mean

__all__ = [
    "JOBS",
    "Arc",
    "Node",
    "Pair",
    "Parts",
    "Splice",
    "Variable",
    "folder_within",
    "parts",
    "splice_path",
    "unknown_node",
    "variable_pairs",
]

_VARIABLE = re.compile(
    r"""\s*([+\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"']+))(?=\s|$)""", re.DOTALL
)
_MOST_INCLUDES = 10_000
_SCRIPT = "SCRIPT [DEFER status seconds] [DEBUG file type] PRE|POST|HOLD node program"
_DONE = "a node is marked as DONE; it is treated like any other task"
JOBS = frozenset(("JOB", "FINAL", "PROVISIONER", "SERVICE"))
"""The kinds of nodes that have a submit description."""


class Node(NamedTuple):
    """A node as the file defines it."""

    name: str
    kind: str
    """JOB, SUBDAG, FINAL, PROVISIONER or SERVICE."""
    file: str | None
    description: str | None
    directory: str | None
    noop: bool
    document: Document
    line: int


class Splice(NamedTuple):
    """Another DAG that is inserted under a name."""

    name: str
    file: str
    directory: str | None
    document: Document
    line: int


class Arc(NamedTuple):
    """A PARENT ... CHILD ... statement, or a CONNECT of two splices."""

    parents: list[str]
    children: list[str]
    connect: bool
    document: Document
    line: int


class Variable(NamedTuple):
    """One pair of a VARS statement."""

    place: int
    """Its position among all pairs of the file."""
    name: str
    value: str
    appended: bool
    """Whether it comes after the submit description and therefore overrides it."""


class Pair(NamedTuple):
    """A name and a value in a VARS statement."""

    name: str
    value: str
    begin: int
    """Where the value begins in the statement's text, with its quotes."""
    end: int


@dataclass
class Parts:
    """The contents of one file and the files that it includes."""

    items: list[Node | Splice] = field(default_factory=list)
    names: dict[str, Node | Splice] = field(default_factory=dict)
    arcs: list[Arc] = field(default_factory=list)
    variables: dict[str, list[Variable]] = field(default_factory=dict)
    """By node; if ALL_NODES also sets a variable, the last one in the file counts."""
    priorities: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By node: the position in the file, and the number."""
    descriptions: dict[str, str] = field(default_factory=dict)
    pins: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    """The file itself and those that it includes, each as often as it is included."""
    kept: list[tuple[Statement, Document]] = field(default_factory=list)
    """The requested statements, in the order in which they take effect."""
    place: int = 0
    """The number of VARS pairs and priorities so far."""


def parts(document: Document, folder: Path, keep: Container[str] = ()) -> Parts:
    """Read one DAGMan file and what it includes; relative names are relative to `folder`.

    Statements whose keyword is one of `keep` are kept unchanged.
    """
    result = Parts(documents=[document])
    references: list[tuple[str, Statement, Document]] = []
    open_files = [(document, statements(document))]
    includes = 0
    while open_files:
        current, remaining = open_files[-1]
        statement = next(remaining, None)
        if statement is None:
            open_files.pop()
            continue
        if statement.keyword in keep:
            result.kept.append((statement, current))
        if statement.keyword == "INCLUDE":
            includes += 1
            if includes > _MOST_INCLUDES:
                raise current.error(f"more than {_MOST_INCLUDES:,} files are included", statement.first)
            included = _included(statement, current, folder, [one for one, _ in open_files])
            open_files.append((included, statements(included)))
            result.documents.append(included)
        else:
            for name in _take(statement, current, result):
                references.append((name, statement, current))
    _check_references(result, references)
    return result


def _included(statement: Statement, document: Document, folder: Path, open_files: list[Document]) -> Document:
    name = _at_least(statement, document, 1, "INCLUDE file")[0]
    path = folder / name
    if not is_file(path):
        raise document.error(f'INCLUDE names "{name}", which does not exist', statement.first)
    if any(path.resolve() == one.path.resolve() for one in open_files):
        raise document.error(f'"{name}" includes itself', statement.first)
    return Document.open(path)


def _take(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    """Add a statement to the result, and return the names of the nodes that must be defined in the file."""
    take = _HANDLERS.get(statement.keyword)
    if take is not None:
        return take(statement, document, result)
    if statement.keyword in _SETTINGS:
        return ()
    hint = did_you_mean(statement.keyword, COMMANDS)
    raise document.error(f'unknown command "{statement.keyword}"', statement.first, hint=hint)


def _at_least(statement: Statement, document: Document, count: int, form: str) -> list[str]:
    words = statement.words
    if len(words) < count:
        raise document.error(f"expected {form}", statement.first)
    return words


def _define(item: Node | Splice, result: Parts) -> None:
    other = result.names.get(item.name)
    if other is not None:
        where = f"line {other.line}" if other.document is item.document else f"{other.document.path}:{other.line}"
        raise item.document.error(f'"{item.name}" is defined twice (first in {where})', item.line)
    if item.name.upper() in RESERVED or "+" in item.name or not item.name:
        raise item.document.error(f'"{item.name}" cannot be the name of a node', item.line)
    result.names[item.name] = item
    result.items.append(item)


def _take_node(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    kind = statement.keyword
    if statement.description is not None:
        name, *options = _at_least(statement, document, 1, f"{kind} name {{ ... }}")
        file = None
    else:
        name, file, *options = _at_least(statement, document, 2, f"{kind} name submit-file")
    directory, noop = _options(options, statement, document, result)
    _define(Node(name, kind, file, statement.description, directory, noop, document, statement.first), result)
    return ()


def _options(words: list[str], statement: Statement, document: Document, result: Parts) -> tuple[str | None, bool]:
    """Read ``[DIR d] [NOOP] [DONE]``."""
    if not words:
        return None, False
    directory, noop = None, False
    rest = iter(words)
    for word in rest:
        option = word.upper()
        if option == "DIR":
            directory = next(rest, None)
            if directory is None:
                raise document.error("DIR needs the name of a folder", statement.first)
        elif option == "NOOP":
            noop = True
        elif option == "DONE":
            result.warnings.append(_DONE)
        else:
            raise document.error(f'"{word}" is not one of DIR, NOOP, DONE', statement.first)
    return directory, noop


def _take_subdag(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    external, name, file, *options = _at_least(statement, document, 3, "SUBDAG EXTERNAL name file")
    if external.upper() != "EXTERNAL":
        raise document.error("expected SUBDAG EXTERNAL name file", statement.first)
    directory, noop = _options(options, statement, document, result)
    _define(Node(name, "SUBDAG", file, None, directory, noop, document, statement.first), result)
    return ()


def _take_splice(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    name, file, *options = _at_least(statement, document, 2, "SPLICE name file")
    directory, _ = _options(options, statement, document, result)
    _define(Splice(name, file, directory, document, statement.first), result)
    return ()


def _take_description(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    name = _at_least(statement, document, 1, "SUBMIT-DESCRIPTION name { ... }")[0]
    if statement.description is None:
        raise document.error("expected SUBMIT-DESCRIPTION name { ... }", statement.first)
    result.descriptions.setdefault(name, statement.description)
    return ()


def _take_arcs(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    words = statement.words
    if statement.keyword == "WEAK":  # the child runs even if the parent fails; the order is the same
        words = words[1:]
    split = _place_of_child(words)
    if not 0 < split < len(words) - 1:
        close = did_you_mean("CHILD", (word.upper() for word in words)) if split < 0 else None
        hint = "is CHILD misspelt?" if close else None
        raise document.error("expected PARENT p ... CHILD c ...", statement.first, hint=hint)
    result.arcs.append(Arc(words[:split], words[split + 1 :], False, document, statement.first))
    return ()  # the reader looks these up anyway


def _place_of_child(words: list[str]) -> int:
    """Return the position of CHILD, ignoring case, or -1."""
    if "CHILD" in words:
        return words.index("CHILD")
    return next((place for place, word in enumerate(words) if word.upper() == "CHILD"), -1)


def _take_connect(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    first, second = _at_least(statement, document, 2, "CONNECT splice splice")[:2]
    result.arcs.append(Arc([first], [second], True, document, statement.first))
    return first, second


def _take_pin(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    node, number = _at_least(statement, document, 2, f"{statement.keyword} node number")[:2]
    if not INTEGER.fullmatch(number) or int(number) < 1:
        raise document.error(f'"{number}" is not the number of a pin; pins are counted from 1', statement.first)
    result.pins.setdefault((statement.keyword, int(number)), []).append(node)
    return (node,)


def _take_variables(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    node, appended, pairs = variable_pairs(statement, document)
    found = result.variables.setdefault(_key(node), [])
    for pair in pairs:
        found.append(Variable(result.place, pair.name, pair.value, appended))
        result.place += 1
    return (node,)


def variable_pairs(statement: Statement, document: Document) -> tuple[str, bool, list[Pair]]:
    """Return the node of a VARS statement, whether it has APPEND, and its pairs."""
    text = statement.text
    first, second = (*islice(WORD.finditer(text), 2), None, None)[:2]
    mark = second.group().upper() if second else ""
    before = second if mark in ("PREPEND", "APPEND") else first
    position = before.end() if before else 0
    pairs: list[Pair] = []
    while position < len(text) or not pairs:
        match = _VARIABLE.match(text, position)
        if not match or match.group(1).lower().startswith("queue"):
            raise document.error('expected VARS node name="value" ...', statement.first)
        pairs.append(_pair(match))
        position = match.end()
    return unquoted(first.group()) if first else "", mark == "APPEND", pairs


def _pair(match: re.Match[str]) -> Pair:
    name, double, single, bare = match.groups()
    value = bare or single or double or ""
    if "\\" in value and not bare:
        value = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
    quotes = 0 if bare else 1
    begin, end = match.span(match.lastindex or 0)
    return Pair(name.lower(), value, begin - quotes, end + quotes)


def _key(node: str) -> str:
    """Return the name of a node unchanged, and ALL_NODES in upper case."""
    return ALL_NODES if node.upper() == ALL_NODES else node


def _take_priority(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    node, number, *more = _at_least(statement, document, 2, "PRIORITY node number")
    if more or not INTEGER.fullmatch(number):
        raise document.error(f'"{" ".join([number, *more])}" is not a priority (an integer)', statement.first)
    result.priorities[_key(node)] = result.place, int(number)
    result.place += 1
    return (node,)


def _take_script(statement: Statement, document: Document, _: Parts) -> Iterable[str]:
    words = _at_least(statement, document, 3, _SCRIPT)
    # DEFER is followed by two words, and so is DEBUG, whose file can have any name.
    while len(words) > 3 and words[0].upper() in ("DEFER", "DEBUG"):
        words = words[3:]
    if len(words) < 3 or words[0].upper() not in ("PRE", "POST", "HOLD"):
        raise document.error(f"expected {_SCRIPT}", statement.first)
    return (words[1],)


def _take_named(statement: Statement, document: Document, _: Parts) -> Iterable[str]:
    return _at_least(statement, document, 1, f"{statement.keyword} node ...")[:1]


def _take_done(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    result.warnings.append(_DONE)
    return _take_named(statement, document, result)


def _take_reject(_statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    result.warnings.append(f"{document.path.name} contains REJECT: DAGMan would refuse to run it")
    return ()


_HANDLERS: dict[str, Callable[[Statement, Document, Parts], Iterable[str]]] = {
    **dict.fromkeys(JOBS, _take_node),
    "SUBDAG": _take_subdag,
    "SPLICE": _take_splice,
    "SUBMIT_DESCRIPTION": _take_description,
    "PARENT": _take_arcs,
    "WEAK": _take_arcs,
    "CONNECT": _take_connect,
    "PIN_IN": _take_pin,
    "PIN_OUT": _take_pin,
    "VARS": _take_variables,
    "PRIORITY": _take_priority,
    "SCRIPT": _take_script,
    "REJECT": _take_reject,
    "DONE": _take_done,
    # These change how DAGMan runs a node, not what it runs: only the node's name is checked.
    **dict.fromkeys(("CATEGORY", "RETRY", "ABORT_DAG_ON", "PRE_SKIP", "TOLERANCE", "SAVE_POINT_FILE"), _take_named),
}
_SETTINGS = frozenset(("MAXJOBS", "CONFIG", "DOT", "NODE_STATUS_FILE", "JOBSTATE_LOG", "SET_JOB_ATTR", "ENV"))


def _check_references(result: Parts, references: list[tuple[str, Statement, Document]]) -> None:
    """Reject statements about undefined nodes; only pins and CONNECT can name splices."""
    for name, statement, document in references:
        found = result.names.get(name)
        if found is None and name.upper() != ALL_NODES:
            raise unknown_node(name, document, statement.first, result.names)
        if isinstance(found, Splice) and statement.keyword not in ("PIN_IN", "PIN_OUT", "CONNECT"):
            message = f'{statement.keyword} does not work on a splice ("{name}"), only inside its file'
            raise document.error(message, statement.first)


def unknown_node(name: str, document: Document, line: int, known: Iterable[str]) -> InputError:
    """Return the error for a name that is not defined."""
    hint = did_you_mean(name, known)
    return document.error(f'"{name}" is not defined by any JOB, SUBDAG or SPLICE line', line, hint=hint)


def splice_path(splice: Splice, folder: Path) -> Path:
    """Return the file of a splice; names in it are relative to `folder`, which includes its own DIR."""
    path = folder / splice.file
    if not is_file(path):
        message = f'SPLICE names "{splice.file}", which does not exist'
        raise splice.document.error(message, splice.line, hint=f"looked for {path}")
    return path.resolve()


def folder_within(outer: str, inner: str | None) -> str:
    """Return the folder `inner` inside `outer`; an empty string is the DAG file's own folder."""
    return str(PurePosixPath(outer, inner)) if inner else outer
