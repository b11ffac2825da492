"""The words of JX: texts, numbers, names and signs, each with its line."""

import re
from collections.abc import Iterator
from typing import TypeAlias

from tonnage.workflow.jx.values import JXError, Value

__all__ = ["END", "Token", "tokens"]

Token: TypeAlias = tuple[str, Value, int]
"""What a token is (an operator or a word is its own kind), its value, and its line."""

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
END = "the end"


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, and END."""
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
    yield END, None, line


def _unreadable(text: str, position: int, line: int) -> JXError:
    character = text[position]
    if character == '"':
        return JXError('a text starts here and has no closing "', line)
    if character == "=":
        return JXError("a single = ; equality is ==", line)
    if character.isdigit() or character == ".":
        return JXError(f'"{text[position : position + 20].split(maxsplit=1)[0]}" is not a number', line)
    hint = 'texts stand in double quotes: "..."' if character == "'" else None
    return JXError(f"the character {character!r} has no meaning here", line, hint=hint)


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
    # Characters beyond the first 65,536 are escaped as two halves, which only together are a character.
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise JXError(r"\u names half a character", line) from None
