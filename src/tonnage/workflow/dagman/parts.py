"""The parts of one DAGMan file, by name: nodes, splices, dependencies, variables, priorities."""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tonnage.errors import InputError
from tonnage.files import Document, is_file
from tonnage.workflow.dagman.statements import COMMANDS, INTEGER, Statement, statements

__all__ = ["ALL_NODES", "Arc", "Node", "Parts", "Splice", "parts", "unknown_node"]

ALL_NODES = "ALL_NODES"
_RESERVED = frozenset(("PARENT", "CHILD", ALL_NODES))
_VARIABLE = re.compile(r'\s*([+\w.]+)\s*=\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SPECIAL = frozenset(("FINAL", "PROVISIONER", "SERVICE"))


class Node(NamedTuple):
    """A node as the file states it."""

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


@dataclass
class Parts:
    """What one file and the files that it includes say."""

    items: list[Node | Splice] = field(default_factory=list)
    names: dict[str, Node | Splice] = field(default_factory=dict)
    arcs: list[Arc] = field(default_factory=list)
    variables: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    pins: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def parts(document: Document, folder: Path) -> Parts:
    """Read one DAGMan file and what it includes; `folder` is where relative names start."""
    result = Parts()
    references: list[tuple[str, Document, int]] = []
    open_files = [(document, statements(document))]
    while open_files:
        current, remaining = open_files[-1]
        statement = next(remaining, None)
        if statement is None:
            open_files.pop()
        elif statement.keyword == "INCLUDE":
            included = _included(statement, current, folder, [one for one, _ in open_files])
            open_files.append((included, statements(included)))
        else:
            for name in _take(statement, current, result):
                references.append((name, current, statement.first))
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
    """Add what a statement says, and return the names of the nodes that it must find in the file."""
    take = _HANDLERS.get(statement.keyword)
    if take is not None:
        return take(statement, document, result)
    if statement.keyword in _SETTINGS:
        return ()
    raise document.error(f'unknown command "{statement.keyword}"', statement.first, hint=_similar(statement.keyword))


def _similar(keyword: str) -> str | None:
    close = difflib.get_close_matches(keyword, COMMANDS, n=1)
    return f"did you mean {close[0]}?" if close else None


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
    if item.name.upper() in _RESERVED or "+" in item.name or not item.name:
        raise item.document.error(f'"{item.name}" cannot be the name of a node', item.line)
    result.names[item.name] = item
    result.items.append(item)


def _take_node(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    kind = "JOB" if statement.keyword == "NODE" else statement.keyword
    if statement.description is not None:
        name, *options = _at_least(statement, document, 1, f"{kind} name {{ ... }}")
        file = None
    else:
        name, file, *options = _at_least(statement, document, 2, f"{kind} name submit-file")
    directory, noop = _options(options, statement, document)
    _define(Node(name, kind, file, statement.description, directory, noop, document, statement.first), result)
    return ()


def _options(words: list[str], statement: Statement, document: Document) -> tuple[str | None, bool]:
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
        elif option != "DONE":
            raise document.error(f'"{word}" is not one of DIR, NOOP, DONE', statement.first)
    return directory, noop


def _take_subdag(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    external, name, file, *options = _at_least(statement, document, 3, "SUBDAG EXTERNAL name file")
    if external.upper() != "EXTERNAL":
        raise document.error("expected SUBDAG EXTERNAL name file", statement.first)
    directory, noop = _options(options, statement, document)
    _define(Node(name, "SUBDAG", file, None, directory, noop, document, statement.first), result)
    return ()


def _take_splice(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    name, file, *options = _at_least(statement, document, 2, "SPLICE name file")
    directory, _ = _options(options, statement, document)
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
        close = difflib.get_close_matches("CHILD", [word.upper() for word in words], n=1) if split < 0 else []
        hint = f'did you mean CHILD where "{close[0]}" stands?' if close else None
        raise document.error("expected PARENT p ... CHILD c ...", statement.first, hint=hint)
    result.arcs.append(Arc(words[:split], words[split + 1 :], False, document, statement.first))
    return ()  # the reader looks these up anyway


def _place_of_child(words: list[str]) -> int:
    """Return where CHILD stands, in any letters, or -1."""
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
        raise document.error(f'"{number}" is not the number of a pin, counted from 1', statement.first)
    result.pins.setdefault((statement.keyword, int(number)), []).append(node)
    return (node,)


def _take_variables(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    node, rest = (*statement.text.split(None, 1), "", "")[:2]
    if rest[:7].upper().startswith(("PREPEND", "APPEND")):
        word, after = (*rest.split(None, 1), "")[:2]
        rest = after if word.upper() in ("PREPEND", "APPEND") else rest
    found = result.variables.setdefault(_whom(node), [])
    position, end = 0, len(rest.rstrip())
    while position < end:
        match = _VARIABLE.match(rest, position)
        if not match:
            raise document.error('expected VARS node name="value" ...', statement.first)
        value = match.group(2)
        if "\\" in value:
            value = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        found.append((match.group(1).lower(), value))
        position = match.end()
    return (node,)


def _whom(node: str) -> str:
    """Return the name of a node as it is, and that of all of them in capitals."""
    return ALL_NODES if node.upper() == ALL_NODES else node


def _take_priority(statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    node, number = _at_least(statement, document, 2, "PRIORITY node number")[:2]
    if not INTEGER.fullmatch(number):
        raise document.error(f'"{number}" is not a priority (an integer)', statement.first)
    result.priorities[_whom(node)] = int(number)
    return (node,)


def _take_script(statement: Statement, document: Document, _: Parts) -> Iterable[str]:
    words = _at_least(statement, document, 3, "SCRIPT PRE|POST|HOLD node program")
    for place, word in enumerate(words[:-2]):
        if word.upper() in ("PRE", "POST", "HOLD"):
            return (words[place + 1],)
    raise document.error("expected SCRIPT PRE|POST|HOLD node program", statement.first)


def _take_named(statement: Statement, document: Document, _: Parts) -> Iterable[str]:
    return _at_least(statement, document, 1, f"{statement.keyword} node ...")[:1]


def _take_reject(_statement: Statement, document: Document, result: Parts) -> Iterable[str]:
    result.warnings.append(f"{document.path.name} says REJECT: DAGMan would refuse to run it")
    return ()


_HANDLERS: dict[str, Callable[[Statement, Document, Parts], Iterable[str]]] = {
    **dict.fromkeys(("JOB", "NODE", *_SPECIAL), _take_node),
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
    # Those below change how DAGMan runs a node, not what there is to run: only the node's name is checked.
    **dict.fromkeys(
        ("CATEGORY", "RETRY", "ABORT_DAG_ON", "PRE_SKIP", "TOLERANCE", "DONE", "SAVE_POINT_FILE"), _take_named
    ),
}
_SETTINGS = frozenset(("MAXJOBS", "CONFIG", "DOT", "NODE_STATUS_FILE", "JOBSTATE_LOG", "SET_JOB_ATTR", "ENV"))


def _check_references(result: Parts, references: list[tuple[str, Document, int]]) -> None:
    for name, document, line in references:
        if name not in result.names and name.upper() != ALL_NODES and name.partition("+")[0] not in result.names:
            raise unknown_node(name, document, line, result.names)


def unknown_node(name: str, document: Document, line: int, known: Iterable[str]) -> InputError:
    """Return the error about a name that nothing defines."""
    close = difflib.get_close_matches(name, list(known)[:10_000], n=1)
    hint = f'did you mean "{close[0]}"?' if close else None
    return document.error(f'"{name}" is not defined by any JOB, SUBDAG or SPLICE line', line, hint=hint)
