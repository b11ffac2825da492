"""JSON logs of any length, read one value at a time.

A log can be one list, one object that contains a long list, a sequence of values, or one value per line: all are
handled the same way. Only one value at a time is in memory.
"""

import json
import re
from collections.abc import Iterator

from tonnage.logs.log import Log

__all__ = ["parse", "values"]

_BLANK = " \t\n\r"
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_LARGEST = 2**25  # characters: more than any job's record, but a damaged file may never end


def values(log: Log, *lists: str) -> Iterator[tuple[int, object]]:
    """Yield the line number and the value of each record in a log.

    The elements of top-level lists are records, and so are those of the named lists in a top-level object.
    """
    text = _Text(log)
    while text.skip_blank():
        if text.now == "[":
            yield from _elements(text)
        elif text.now == "{" and lists:
            yield from _members(text, lists)
        else:
            yield text.line, text.value()
        text.skip_blank()
        if text.now == ",":  # some tools separate records by commas without a list around them
            text.take()


def parse(text: str) -> object:
    """Parse JSON text such as a line of a log; raises ValueError if it is not valid."""
    try:
        return _whole_characters(json.loads(text), text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole_characters(value: object, text: str) -> object:
    """Replace lone surrogates, which cannot be written to files or databases."""
    if not _HALF_CHARACTER.search(text):
        return value
    whole: object = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return whole


def _elements(text: "_Text") -> Iterator[tuple[int, object]]:
    text.take()
    text.skip_blank()
    while text.now != "]":
        yield text.line, text.value()
        if text.skip_blank() == ",":
            text.take()
            text.skip_blank()
        elif text.now != "]":
            raise text.error("expected a comma or ]")
    text.take()


def _members(text: "_Text", lists: tuple[str, ...]) -> Iterator[tuple[int, object]]:
    """Yield the records in an object; one without any of the lists is itself a record."""
    line, members, entered = text.line, {}, False
    text.take()
    text.skip_blank()
    while text.now != "}":
        name = text.value()
        if not isinstance(name, str) or text.skip_blank() != ":":
            raise text.error("expected a name and a colon")
        text.take()
        text.skip_blank()
        if name in lists and text.now == "[":
            entered = True
            yield from _elements(text)
        else:
            members[name] = text.value()
        if text.skip_blank() == ",":
            text.take()
            text.skip_blank()
        elif text.now != "}":
            raise text.error("expected a comma or }")
    text.take()
    if not entered:
        yield line, members


class _Text:
    """A position in a text that is read in pieces."""

    def __init__(self, log: Log) -> None:
        self.line = 1
        self._log = log
        self._pieces = log.texts()
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0

    @property
    def now(self) -> str:
        """The character at this position; empty at the end."""
        return self._text[self._at : self._at + 1]

    def take(self) -> None:
        """Move on by one character."""
        self._at += 1

    def skip_blank(self) -> str:
        """Move on to the next character that is not blank, and return it; empty at the end."""
        while True:
            begin = self._at
            while self.now and self.now in _BLANK:
                self._at += 1
            self.line += self._text.count("\n", begin, self._at)
            if self.now or not self._more():
                return self.now

    def value(self) -> object:
        """Parse and consume the value that begins here."""
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                value = _whole_characters(value, self._text[self._at : end])
            except (ValueError, RecursionError) as problem:
                if isinstance(problem, RecursionError) or not self._may_go_on(problem) or not self._more():
                    raise self.error(f"is not JSON: {problem}") from None
                continue
            # A number at the end of a piece may continue in the next: 1 could become 1.5 or 1e+5.
            if end >= len(self._text) - 2 and not isinstance(value, dict | list | str) and self._more():
                continue
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            return value

    def error(self, message: str) -> Exception:
        """Return an error about this position, to be raised by the caller."""
        return self._log.error(message if self.now else f"{message}: the file ends unexpectedly", self.line)

    def _may_go_on(self, problem: ValueError) -> bool:
        """Whether a value failed to parse only because its end has not been read yet."""
        if len(self._text) - self._at > _LARGEST:
            return False
        place = getattr(problem, "pos", 0)
        return "Unterminated" in str(problem) or place >= len(self._text) - 16

    def _more(self) -> bool:
        """Read the next piece, and drop what was consumed."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._text = self._text[self._at :] + piece
        self._at = 0
        return True
