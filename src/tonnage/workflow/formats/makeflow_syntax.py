"""The syntax of classic Makeflow: quotes, escapes, variables and comments, as the real tool reads them.

A backslash escapes the character after it, also inside quotes. Commands keep their quotes, file names lose them. A
variable outside quotes is replaced by its text, whose own quotes and blanks are then interpreted; inside double quotes
its text is inserted literally, inside single quotes nothing is replaced. Nothing else is left to the shell: ``$$``,
``$(date)`` or ``$1`` are errors in Makeflow, and a dollar sign for the shell is written ``\\$``.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

__all__ = [
    "MalformedError",
    "Variables",
    "as_command",
    "as_text",
    "as_words",
    "escaped",
    "escaped_name",
    "is_continued",
    "statement",
]

Piece: TypeAlias = tuple[Literal["plain", "literal", "quote"], str]
"""A part of a line: text whose blanks and colons have a meaning, literal text, or a quotation mark."""
Variables: TypeAlias = Callable[[str], str | None]
"""Returns the text of a variable by name; None if it is not defined."""

_SPECIAL = re.compile(r"[\\$#'\"]")
_PLAIN = re.compile(r"[^\\$#'\"]+")
_SINGLE = re.compile(r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_DOUBLE_PART = re.compile(r"[^\\$'\"]+")
_VARIABLE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))", re.ASCII)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\n": " "}
_BLANKS = re.compile(r"[ \t]+")
_HEADER = re.compile(r"[ \t]+|:|->|-|[^ \t:-]+")

_QUOTED = r"\\.|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
_STATEMENT = re.compile(rf"(?:[^\\'\":=#]|{_QUOTED})*+", re.DOTALL)
_CONTINUED = re.compile(rf"(?:[^\\'\"#]|{_QUOTED}|['\"])*+", re.DOTALL)

_IN_COMMANDS = re.compile(r"[\\$#'\"\t]|(?<= ) |^[ @]| \Z")
_IN_NAMES = re.compile(r"[\\$#'\" \t:=]|^[@-]|-(?=[->])|(?<=-)-")


class MalformedError(Exception):
    """A line that Makeflow could not read; the caller adds the line number."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def pieces(text: str, variables: Variables | None) -> Iterator[Piece]:
    """Yield the pieces of a line up to its comment; without `variables`, dollar and number signs are plain text."""
    position = 0
    while position < len(text):
        character = text[position]
        if character == "#" and variables:
            return
        if character == "\\":
            following = text[position + 1 : position + 2] or "\\"
            yield ("plain", " ") if following == "\n" else ("literal", following)
            position += 2
        elif character == "$" and variables:
            name, position = _variable(text, position)
            yield from _inserted(name, variables)
        elif character == "'":
            inside, position = _single(text, position)
            yield from (("quote", "'"), ("literal", inside), ("quote", "'"))
        elif character == '"':
            inside, position = _double(text, position, variables)
            yield from (("quote", '"'), ("literal", inside), ("quote", '"'))
        else:
            found = _PLAIN.match(text, position)
            run = found.group() if found else character
            yield "plain", run
            position += len(run)


def _variable(text: str, position: int) -> tuple[str, int]:
    found = _VARIABLE.match(text, position)
    if found is None:
        shown = text[position : position + 12].split("\n", maxsplit=1)[0]
        raise MalformedError(f'"{shown}" is not a variable', r"a dollar sign for the shell is written \$")
    return found.group(1) or found.group(2) or found.group(3), found.end()


def _inserted(name: str, variables: Variables) -> Iterator[Piece]:
    value = variables(name)
    if value is None:
        yield "literal", f"${{{name}}}"
    else:
        yield from pieces(value, None)


def _single(text: str, position: int) -> tuple[str, int]:
    found = _SINGLE.match(text, position)
    if found is None:
        raise MalformedError("a ' is not closed", r"a quotation mark alone is written \' or \"")
    return _ESCAPE.sub(lambda escape: escape.group(1).replace("\n", " "), found.group(1)), found.end()


def _double(text: str, position: int, variables: Variables | None) -> tuple[str, int]:
    """Return the text in double quotes, and where they end."""
    parts: list[str] = []
    position += 1
    while position < len(text):
        character = text[position]
        if character == '"':
            return "".join(parts), position + 1
        if character == "\\":
            following = text[position + 1 : position + 2]
            parts.append(_ESCAPES.get(following, following))
            position += 2
        elif character == "'":
            inside, position = _single(text, position)
            parts.append(f"'{inside}'")
        elif character == "$" and variables:
            name, position = _variable(text, position)
            value = variables(name)
            parts.append(f"${{{name}}}" if value is None else value)
        else:
            found = _DOUBLE_PART.match(text, position)
            parts.append(found.group() if found else character)
            position += len(parts[-1])
    raise MalformedError('a " is not closed', r"a quotation mark alone is written \' or \"")


def as_text(line: str, variables: Variables) -> str:
    """Return the value of an assignment: everything from the first non-blank character on, including quotes."""
    if not _SPECIAL.search(line):
        return line.lstrip(" \t")
    # Here, as in double quotes and nowhere else, \n and \t are a line break and a tab.
    line = _ESCAPE.sub(lambda found: _ESCAPES.get(found.group(1), found.group()), line.lstrip(" \t"))
    return "".join(text for _, text in pieces(line, variables))


def as_command(line: str, variables: Variables) -> str:
    """Return the command for the shell, with several blanks outside quotes reduced to one."""
    if not _SPECIAL.search(line):
        return _BLANKS.sub(" ", line).strip(" ")
    parts = _merged(pieces(line, variables))
    if parts and parts[0][0] == "plain":
        parts[0] = ("plain", parts[0][1].lstrip(" \t"))
    if parts and parts[-1][0] == "plain":
        parts[-1] = ("plain", parts[-1][1].rstrip(" \t"))
    return "".join(_BLANKS.sub(" ", text) if kind == "plain" else text for kind, text in parts)


def _merged(parts: Iterable[Piece]) -> list[Piece]:
    """Join neighbouring pieces of the same kind, because blanks can meet at their borders."""
    return [(kind, "".join(text for _, text in same)) for kind, same in groupby(parts, key=itemgetter(0))]


def as_words(line: str, variables: Variables) -> tuple[list[str], list[str]]:
    """Return the targets and the sources of a rule; a file that is renamed keeps the name it has in the workflow."""
    if not _SPECIAL.search(line) and "->" not in line:
        targets, _, sources = line.partition(":")
        return _split(targets), _split(sources.replace(":", " "))
    sides: tuple[list[str], list[str]] = ([], [])
    side = sides[0]
    word: list[str] = []
    renamed = False
    for kind, text in (*_header_parts(pieces(line, variables)), ("plain", " ")):
        if kind == "plain" and text[0] in " \t:":
            if word:
                side.append("".join(word))
            word, renamed = [], False
            side = sides[1] if text == ":" else side
        elif kind == "plain" and text == "->":
            renamed = True
        elif not renamed:
            word.append("" if kind == "quote" else text)
    return sides


def _split(text: str) -> list[str]:
    return [word for word in _BLANKS.split(text) if word]


def _header_parts(parts: Iterable[Piece]) -> Iterator[Piece]:
    for kind, text in parts:
        if kind == "plain":
            yield from (("plain", part) for part in _HEADER.findall(text))
        else:
            yield kind, text


def statement(line: str) -> Literal["rule", "assignment", "other"]:
    """Classify an unindented line: a colon outside quotes makes it a rule, an = before it an assignment."""
    found = _STATEMENT.match(line)
    sign = line[found.end() : found.end() + 1] if found else ""
    return "rule" if sign == ":" else "assignment" if sign == "=" else "other"


def is_continued(line: str) -> bool:
    """Whether a line continues on the next one: it ends in a backslash that is neither escaped nor in a comment."""
    if not line.endswith("\\"):
        return False
    found = _CONTINUED.match(line)
    return found is not None and found.end() == len(line) - 1


def escaped(command: str) -> str:
    """Escape a command so that nothing in it is read as a quote, a variable or a comment."""
    return _IN_COMMANDS.sub(lambda found: f"\\{found.group()}", command)


def escaped_name(name: str) -> str:
    """Escape a file name for the head of a rule."""
    return _IN_NAMES.sub(lambda found: f"\\{found.group()}", name)
