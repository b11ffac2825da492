"""The parts of a JX expression, each with the line in which it stands."""

from dataclasses import dataclass
from typing import TypeAlias

from tonnage.workflow.jx.values import Value

__all__ = [
    "Call",
    "Chain",
    "Constant",
    "Entry",
    "Listing",
    "Lookup",
    "Loop",
    "Node",
    "Prefix",
    "Record",
    "Slice",
    "Symbol",
]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, true, false or null."""

    line: int
    value: Value


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that stands for a value."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """An operator before its operand."""

    line: int
    operator: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of equal precedence between operands, to be applied from left to right."""

    line: int
    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """An entry of an array or an object."""

    line: int
    container: "Node"
    index: "Node"


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an array."""

    line: int
    container: "Node"
    start: "Node | None"
    stop: "Node | None"


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    line: int
    name: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """One ``for`` of an entry of an array, with its condition."""

    name: str
    array: "Node"
    condition: "Node | None"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an array, repeated by its loops from left to right."""

    value: "Node"
    loops: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """An array in brackets."""

    line: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """An object in braces."""

    line: int
    entries: tuple[tuple["Node", "Node"], ...]


Node: TypeAlias = Constant | Symbol | Prefix | Chain | Lookup | Slice | Call | Listing | Record
