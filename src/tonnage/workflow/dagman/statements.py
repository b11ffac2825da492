"""DAGMan input files as statements, each with the physical lines it stands on.

A file is only ever changed by replacing the lines of a statement or adding lines; every other byte stays.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tonnage.files import Document

__all__ = ["ALL_NODES", "COMMANDS", "INTEGER", "RESERVED", "Statement", "statements", "with_priorities"]

COMMANDS = frozenset(
    "JOB FINAL PROVISIONER SERVICE SUBDAG SPLICE INCLUDE SUBMIT_DESCRIPTION PARENT WEAK CATEGORY MAXJOBS RETRY "  # noqa: SIM905
    "ABORT_DAG_ON SCRIPT VARS PRIORITY PRE_SKIP TOLERANCE DONE SAVE_POINT_FILE CONFIG DOT NODE_STATUS_FILE "
    "JOBSTATE_LOG REJECT SET_JOB_ATTR ENV CONNECT PIN_IN PIN_OUT".split()
)
"""The keywords of HTCondor 25, in capitals and with underscores."""

ALL_NODES = "ALL_NODES"
"""What stands for every node but FINAL ones, in any letters."""
RESERVED = frozenset(("PARENT", "CHILD", ALL_NODES))
"""What no node can be called."""

INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
"""How DAGMan writes a whole number."""

_WITH_DESCRIPTION = {"JOB", "FINAL", "PROVISIONER", "SERVICE", "SUBMIT_DESCRIPTION"}


class Statement(NamedTuple):
    """One command of a DAGMan file, its continuation lines joined."""

    keyword: str
    """In capitals, with underscores: DAGMan does not tell `-` from `_`, nor small letters from capitals."""
    text: str
    """What follows the keyword; for an inline description what stands before and after it."""
    first: int
    """The number of its first line, from 1."""
    last: int
    description: str | None = None
    """The lines of an inline submit description."""

    @property
    def words(self) -> list[str]:
        """What follows the keyword, split at blanks; quotes of either kind hold a word together."""
        return _quoted_words(self.text) if '"' in self.text or "'" in self.text else self.text.split()


def statements(document: Document) -> Iterator[Statement]:
    """Yield the statements of a file in their order; comments and blank lines are passed over."""
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
    """Return the statement that starts on a line, and the line after it; blank and comment lines give no text."""
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
    words = text.split()
    if len(words) < 2:
        return None
    if words[1] == "{":
        return words[0], "}"
    if words[1].startswith("@=") and len(words[1]) > 2:
        return words[0], f"@{words[1][2:]}"
    return None


def _closing_line(document: Document, lines: list[str], number: int, closing: str, opened: int) -> int:
    for end in range(number, len(lines)):
        if lines[end].strip().split(" ", 1)[0] == closing:
            return end
    raise document.error(f'the submit description that starts here is not closed by "{closing}"', opened)


def _quoted_words(text: str) -> list[str]:
    """Split at blanks outside of quotes; inside them a backslash takes the next character as it is."""
    words: list[str] = []
    word: list[str] = []
    inside, started = "", False
    characters = iter(text)
    for character in characters:
        if character == inside or (not inside and character in "\"'"):
            inside, started = "" if inside else character, True
        elif character == "\\" and inside:
            word.append(next(characters, ""))
        elif character.isspace() and not inside:
            if word or started:
                words.append("".join(word))
            word, started = [], False
        else:
            word.append(character)
    if word or started:
        words.append("".join(word))
    return words


def with_priorities(document: Document, priorities: Mapping[str, int]) -> bytes:
    """Return the file with these PRIORITY lines: an old number is replaced, a missing line added at the end.

    All other bytes stay, and doing it twice changes nothing more.
    """
    lines = document.data.split(b"\n")
    missing = dict(priorities)
    stated = [statement for statement in statements(document) if statement.keyword == "PRIORITY" and statement.words]
    # The last line that concerns a node counts, so one above a line for ALL_NODES must be said again below it.
    for_all = max((one.first for one in stated if one.words[0].upper() == ALL_NODES), default=0)
    for statement in stated:
        words = statement.words
        if words[0] not in priorities:
            continue
        if len(words) != 2 or not INTEGER.fullmatch(words[1]):
            raise document.error("expected PRIORITY node number", statement.first)
        if statement.first > for_all:
            missing.pop(words[0], None)
        if words[1] != str(priorities[words[0]]):
            _replace_number(lines, statement, words, priorities[words[0]])
    end_of_line = b"\r\n" if lines[0].endswith(b"\r") else b"\n"
    data = b"\n".join(lines)
    if not missing:
        return data
    if data and not data.endswith(b"\n"):
        data += end_of_line
    added = (f"PRIORITY {node} {number}".encode() for node, number in missing.items())
    return data + b"".join(line + end_of_line for line in added)


def _replace_number(lines: list[bytes], statement: Statement, words: list[str], number: int) -> None:
    """Put a number in the place of the one that stands on the statement's lines."""
    for index in reversed(range(statement.first - 1, statement.last)):
        before, found, after = lines[index].rpartition(words[1].encode())
        # Only blanks or a continuation may follow the number: else the digits belong to a node's name.
        if found and not after.strip(b" \t\r\\") and (not before or before[-1:] in b" \t"):
            lines[index] = before + str(number).encode() + after
            return
