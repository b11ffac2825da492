"""DAGMan input files as statements, each with its physical lines.

A file is only ever changed by replacing the lines of a statement or adding lines; every other byte stays the same.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tonnage.files import Document

__all__ = [
    "ALL_NODES",
    "COMMANDS",
    "INTEGER",
    "RESERVED",
    "WORD",
    "Statement",
    "escaped",
    "pieces",
    "quoted",
    "statements",
    "unquoted",
]

COMMANDS = frozenset(
    "JOB FINAL PROVISIONER SERVICE SUBDAG SPLICE INCLUDE SUBMIT_DESCRIPTION PARENT WEAK CATEGORY MAXJOBS RETRY "  # noqa: SIM905
    "ABORT_DAG_ON SCRIPT VARS PRIORITY PRE_SKIP TOLERANCE DONE SAVE_POINT_FILE CONFIG DOT NODE_STATUS_FILE "
    "JOBSTATE_LOG REJECT SET_JOB_ATTR ENV CONNECT PIN_IN PIN_OUT".split()
)
"""The keywords of HTCondor 25, in upper case and with underscores."""

ALL_NODES = "ALL_NODES"
"""The name for every node except FINAL ones; case does not matter."""
RESERVED = frozenset(("PARENT", "CHILD", ALL_NODES))
"""Names that no node can have."""

INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
"""An integer as DAGMan accepts it."""

WORD = re.compile(r"""(?:[^\s"']+|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z))+""", re.DOTALL)
"""A word with its quotes: blanks inside them do not end it, and an unclosed quote extends to the end."""

_QUOTED = re.compile(r"""(["'])((?:(?!\1)[^\\]|\\.)*)(?:\1|\\?\Z)""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# What needs no quotes. At the start of a continued line `#` and `//` would be comments, at its end `\` would continue
# it, and after a node's name `{` and `@=` would open a description.
_PLAIN = re.compile(r"""(?!#|//|@=|\{\Z)[^\s"']*[^\s"'\\]""")

_WITH_DESCRIPTION = {"JOB", "FINAL", "PROVISIONER", "SERVICE", "SUBMIT_DESCRIPTION"}


class Statement(NamedTuple):
    """One command of a DAGMan file, its continuation lines joined."""

    keyword: str
    """In upper case, with underscores: DAGMan ignores case, and treats `-` like `_`."""
    text: str
    """The text after the keyword; for an inline description, the text before and after it."""
    first: int
    """The number of its first line, from 1."""
    last: int
    description: str | None = None
    """The lines of an inline submit description."""

    @property
    def words(self) -> list[str]:
        """The text after the keyword, split at blanks outside single or double quotes."""
        if '"' not in self.text and "'" not in self.text:
            return self.text.split()
        return [unquoted(word) for word in WORD.findall(self.text)]


def statements(document: Document) -> Iterator[Statement]:
    """Yield the statements of a file in order, without comments and blank lines."""
    lines = document.lines()
    number = 0
    while number < len(lines):
        first = number + 1
        text, number = _joined(document, lines, number)
        if not text:
            continue
        keyword, rest = (*text.split(None, 1), "")[:2]
        keyword = keyword.upper().replace("-", "_")
        opening = _opening(rest) if keyword in _WITH_DESCRIPTION else None
        if opening is None:
            yield Statement(keyword, rest.strip(), first, number)
            continue
        before, closing = opening
        end = _closing_line(document, lines, number, closing, first)
        after = lines[end].strip()[len(closing) :]
        body = "\n".join(lines[number:end])
        number = end + 1
        yield Statement(keyword, f"{before}{after}", first, number, body)


def _joined(document: Document, lines: list[str], number: int) -> tuple[str, int]:
    """Return the statement that starts on a line, and the line after it; blank and comment lines return no text."""
    text = lines[number].strip()
    number += 1
    if _is_comment(text):
        return "", number
    if not text.endswith("\\"):
        return text, number
    parts = [text]
    while parts[-1].endswith("\\"):
        parts[-1] = parts[-1][:-1].rstrip()
        while number < len(lines) and _is_comment(lines[number].strip()):
            number += 1
        if number == len(lines):
            raise document.error("ends in the middle of a continued statement", number)
        parts.append(lines[number].strip())
        number += 1
    return " ".join(parts).strip(), number


def _is_comment(text: str) -> bool:
    return not text or text.startswith(("#", "//"))


def _opening(text: str) -> tuple[str, str] | None:
    """Split ``name {`` or ``name @=TOK`` into what comes before and the mark that closes the description."""
    words = text.split() if '"' not in text and "'" not in text else WORD.findall(text)
    if len(words) < 2:
        return None
    if words[1] == "{":
        return words[0], "}"
    if words[1].startswith("@=") and len(words[1]) > 2:
        return words[0], f"@{words[1][2:]}"
    return None


def _closing_line(document: Document, lines: list[str], number: int, closing: str, opened: int) -> int:
    for end in range(number, len(lines)):
        if lines[end].split(None, 1)[:1] == [closing]:
            return end
    raise document.error(f'the submit description that starts here is not closed by "{closing}"', opened)


def unquoted(word: str) -> str:
    """Return a word without its quotes; inside them a backslash makes the next character literal."""
    if '"' not in word and "'" not in word:
        return word
    return _QUOTED.sub(lambda found: _ESCAPED.sub(r"\1", found.group(2)), word)


def quoted(word: str) -> str:
    """Quote a word for a statement, if necessary, so that it is read back unchanged."""
    if _PLAIN.fullmatch(word):
        return word
    return f'"{escaped(word)}"'


def escaped(text: str) -> str:
    """Escape a text for use between double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def pieces(lines: Sequence[str], statement: Statement) -> Iterator[tuple[int, int, str]]:
    """Yield the parts of a statement without a description: the index of the line, the column, and the text there.

    Joined with blanks they are the statement, from its keyword on.
    """
    for index in range(statement.first - 1, statement.last):
        text = lines[index].strip()
        if _is_comment(text):
            continue
        column = len(lines[index]) - len(lines[index].lstrip())
        yield index, column, text[:-1].rstrip() if text.endswith("\\") else text
