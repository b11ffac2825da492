"""The syntax of JX: tokens, the nodes of the syntax tree, and the parser that turns text into a tree."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tonnage.workflow.jx.values import JXError, Value

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
    "parse",
]

_Token: TypeAlias = tuple[str, Value, int]
"""The kind of a token (operators and keywords are their own kind), its value, and its line."""

_TOKEN = re.compile(
    r"""
    (?P<blank>  [ \t\r\n\f\v]+ | \#[^\n]* )
  | (?P<text>   "[^"\\]*(?:\\.[^"\\]*)*" )
  | (?P<number> (?: \d+ (?:\.(?![A-Za-z_])\d*)? | \.\d+ ) (?:[eE][+-]?\d+)? (?![\w]) )
  | (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
  | (?P<sign>   == | != | <= | >= | && | \|\| | [-+*/%<>!()\[\]{},:.] )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = frozenset(("and", "or", "not", "for", "in", "if"))
_SYNONYMS = {"&&": "and", "||": "or", "!": "not"}
_END = "the end"


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of a text, the last one of kind `_END`."""
    position, line = 0, 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unreadable(text, position, line)
        part, kind = found.group(), str(found.lastgroup)
        if kind == "name":
            yield (part if part in _WORDS else "name"), part, line
        elif kind == "sign":
            yield _SYNONYMS.get(part, part), part, line
        elif kind == "number":
            yield "number", _number(part, line), line
        elif kind == "text":
            yield "text", _unescaped(part[1:-1], line), line
        if kind in ("blank", "text"):
            line += part.count("\n")
        position = found.end()
    yield _END, None, line


def _unreadable(text: str, position: int, line: int) -> JXError:
    character = text[position]
    if character == '"':
        return JXError('the string that starts here has no closing "', line)
    if character == "=":
        return JXError("found a single =; equality is ==", line)
    if character.isdigit() or character == ".":
        return JXError(f'"{text[position : position + 20].split(maxsplit=1)[0]}" is not a number', line)
    hint = 'strings are written in double quotes: "..."' if character == "'" else None
    return JXError(f"the character {character!r} is not allowed here", line, hint=hint)


def _number(text: str, line: int) -> int | float:
    if not text.isdigit():
        number = float(text)
        if number == float("inf"):
            raise JXError(f"the number {text} is too large", line)
        return number
    if len(text) > 40 or int(text) > 2**63:
        raise JXError(f"the integer {text[:25]}... is too large" if len(text) > 25 else f"{text} is too large", line)
    return int(text)


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def replaced(escape: re.Match[str]) -> str:
        code = escape.group(1)
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code == "u":
            raise JXError(r"\u needs four hexadecimal digits", line)
        return _ESCAPES.get(code, code)

    plain = _ESCAPE.sub(replaced, text)
    # Characters beyond the first 65,536 are escaped as two surrogates, which only together form a character.
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise JXError(r"\u is followed by half of a surrogate pair", line) from None


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a string, true, false or null."""

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
    """Operators of equal precedence between operands, applied from left to right."""

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


Part = TypeVar("Part")

_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "null": None}

# The real tool groups equal operators from the right and lets `not` bind tightest; its manual and the usual reading of
# 8 - 4 - 2 disagree with that.
_POWER = {"or": 1, "and": 2}
_POWER |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4)
_POWER |= dict.fromkeys("+-", 5)
_POWER |= dict.fromkeys("*/%", 6)
_NOT = 3

# Python itself stops after 1000 nested calls; a bracket costs two of these and at most five calls.
_DEEPEST = 200
# A tree takes about a hundred bytes per token; files of this size are plain JSON, which is not parsed here.
_MOST_TOKENS = 5_000_000


def parse(text: str) -> Node:
    """Return the syntax tree of a text that consists of one expression."""
    return _Parser(text).document()


class _Parser:
    """Reads tokens one ahead; each method reads one rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._rest = _tokens(text)
        self._kind, self._value, self._line = next(self._rest)
        self._depth = 0
        self._tokens = 0

    def document(self) -> Node:
        node = self._expression()
        if self._kind != _END:
            raise JXError(f"expected the end, found {self._found()}", self._line)
        return node

    def _expression(self, least: int = 1) -> Node:
        """Read operands joined by operators whose precedence is at least `least`."""
        self._deeper()
        node = self._operand()
        while (power := _POWER.get(self._kind, 0)) >= least:
            line, rest = self._line, []
            while _POWER.get(self._kind) == power:
                operator = self._next()
                rest.append((operator, self._expression(power + 1)))
            node = Chain(line, node, tuple(rest))
        self._depth -= 1
        return node

    def _operand(self) -> Node:
        self._deeper()
        line, kind = self._line, self._kind
        node: Node
        if kind in ("-", "+"):
            node = Prefix(line, self._next(), self._operand())
        elif kind == "not":
            node = Prefix(line, self._next(), self._expression(_NOT))
        else:
            node = self._followed(self._primary())
        self._depth -= 1
        return node

    def _primary(self) -> Node:
        line, kind, value = self._line, self._kind, self._value
        match kind:
            case "number" | "text":
                self._next()
                return Constant(line, value)
            case "name":
                return self._named()
            case "[":
                return Listing(line, tuple(self._list("]", self._entry)))
            case "{":
                return Record(line, tuple(self._list("}", self._pair)))
            case "(":
                self._next()
                node = self._expression()
                self._expect(")")
                return node
            case _:
                raise self._unlike("a value")

    def _named(self) -> Node:
        line, name = self._line, self._name()
        if name in _CONSTANTS:
            return Constant(line, _CONSTANTS[name])
        if self._kind == "(":
            return Call(line, name, tuple(self._list(")", self._expression)))
        return Symbol(line, name)

    def _followed(self, node: Node) -> Node:
        """Read the lookups and method calls that follow a value, each applied to the result of the one before."""
        start = self._depth
        while self._kind in ("[", "."):
            self._deeper()
            line = self._line
            if self._next() == "[":
                node = self._bracket(node, line)
            else:
                name = self._name()
                if self._kind != "(":
                    raise self._unlike(f'"(" after .{name}')
                node = Call(line, name, (node, *self._list(")", self._expression)))
        self._depth = start
        return node

    def _bracket(self, container: Node, line: int) -> Node:
        start = None if self._kind == ":" else self._expression()
        if start is not None and self._kind != ":":
            self._expect("]")
            return Lookup(line, container, start)
        self._expect(":")
        stop = None if self._kind == "]" else self._expression()
        self._expect("]")
        return Slice(line, container, start, stop)

    def _list(self, end: str, part: Callable[[], Part]) -> list[Part]:
        """Read comma-separated parts between brackets; a comma can also follow the last one."""
        start, opening = self._line, self._next()
        parts: list[Part] = []
        while self._kind != end:
            if self._kind == _END:
                raise JXError(f'"{opening}" is not closed', start)
            parts.append(part())
            if self._kind == ",":
                self._next()
            elif self._kind not in (end, _END):
                raise self._unlike(f'"," or "{end}"')
        self._next()
        return parts

    def _entry(self) -> Entry:
        value = self._expression()
        loops = []
        while self._kind == "for":
            self._next()
            name = self._name()
            self._expect("in")
            array = self._expression()
            condition = None
            if self._kind == "if":
                self._next()
                condition = self._expression()
            loops.append(Loop(name, array, condition))
        return Entry(value, tuple(loops))

    def _pair(self) -> tuple[Node, Node]:
        key = self._expression()
        self._expect(":")
        return key, self._expression()

    def _name(self) -> str:
        if self._kind != "name":
            raise self._unlike("a name")
        name = str(self._value)
        self._next()
        return name

    def _expect(self, kind: str) -> None:
        if self._kind != kind:
            raise self._unlike(f'"{kind}"')
        self._next()

    def _next(self) -> str:
        """Move to the next token and return the kind of the one just read."""
        self._tokens += 1
        if self._tokens > _MOST_TOKENS:
            raise JXError(f"is longer than {_MOST_TOKENS:,} tokens", self._line)
        kind = self._kind
        self._kind, self._value, self._line = next(self._rest)
        return kind

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise JXError(f"is nested more than {_DEEPEST // 2} deep", self._line)

    def _unlike(self, expected: str) -> JXError:
        return JXError(f"expected {expected}, found {self._found()}", self._line)

    def _found(self) -> str:
        match self._kind:
            case "text":
                return f"the string {str(self._value)[:40]!r}"
            case "number" | "name":
                return f'"{self._value}"'
            case kind:
                return kind if kind == _END else f'"{kind}"'
