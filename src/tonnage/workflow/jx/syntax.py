"""The grammar of JX: from text to a tree."""

from collections.abc import Callable
from typing import TypeVar

from tonnage.workflow.jx.tokens import END, tokens
from tonnage.workflow.jx.tree import (
    Call,
    Chain,
    Constant,
    Entry,
    Listing,
    Lookup,
    Loop,
    Node,
    Prefix,
    Record,
    Slice,
    Symbol,
)
from tonnage.workflow.jx.values import JXError, Value

__all__ = ["parse"]

Part = TypeVar("Part")

_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "null": None}

# The real tool groups equal operators from the right and lets `not` bind tightest; its manual says otherwise, and so
# does everybody who writes 8 - 4 - 2.
_POWER = {"or": 1, "and": 2}
_POWER |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4)
_POWER |= dict.fromkeys("+-", 5)
_POWER |= dict.fromkeys("*/%", 6)
_NOT = 3

# Python itself stops after 1000 nested calls; a bracket costs two of these and at most five calls.
_DEEPEST = 200
# A tree takes about a hundred bytes for each; files of this size are plain JSON, which is not read here.
_MOST_TOKENS = 5_000_000


def parse(text: str) -> Node:
    """Return the tree of a text that holds one expression."""
    return _Parser(text).document()


class _Parser:
    """Reads tokens one ahead; each method reads one rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._rest = tokens(text)
        self._kind, self._value, self._line = next(self._rest)
        self._depth = 0
        self._tokens = 0

    def document(self) -> Node:
        node = self._expression()
        if self._kind != END:
            raise JXError(f"expected nothing more, found {self._found()}", self._line)
        return node

    def _expression(self, least: int = 1) -> Node:
        """Read operands joined by operators that bind at least so tightly."""
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
        """Read the lookups and method calls that follow a value, each around the one before."""
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
        """Read what stands between brackets, separated by commas, of which the last may follow the last part."""
        start, opening = self._line, self._next()
        parts: list[Part] = []
        while self._kind != end:
            if self._kind == END:
                raise JXError(f'"{opening}" is not closed', start)
            parts.append(part())
            if self._kind == ",":
                self._next()
            elif self._kind not in (end, END):
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
        """Go on to the next token and return the kind of the one that was read."""
        self._tokens += 1
        if self._tokens > _MOST_TOKENS:
            raise JXError(f"is longer than {_MOST_TOKENS:,} words", self._line)
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
                return f"the text {str(self._value)[:40]!r}"
            case "number" | "name":
                return f'"{self._value}"'
            case kind:
                return kind if kind == END else f'"{kind}"'
