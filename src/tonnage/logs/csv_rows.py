"""Rows of delimited text, each with the line where it begins; a row that cannot be parsed hides no other."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator

from tonnage.logs.log import UnusableError

__all__ = ["rows"]


def rows(
    lines: Iterable[str], delimiter: str, *, first: int = 1, quoted: bool = True
) -> Iterator[tuple[int, list[str] | UnusableError]]:
    """Yield the line where each non-blank row begins, and its cells or the reason why it cannot be parsed.

    `first` is the number of the first line. `quoted` cells can contain the delimiter and line breaks.
    """
    quotes = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    source = _Lines(lines)
    # Strict, because an unclosed quote would hide all later rows in one cell.
    reader = csv.reader(source, delimiter=delimiter, quoting=quotes, strict=True)  # type: ignore[arg-type] # one of both
    while True:
        begin = source.read + first
        source.taken.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:  # also for a cell of 128 KiB, or an unusual line break in one
            yield begin, UnusableError("its cells cannot be separated", str(problem))
            source.give_back()
            continue
        if any(map(str.strip, cells)):
            yield begin, cells


class _Lines:
    """Lines that can be given back: those swallowed by an unclosed quote are separate rows."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.read = 0
        self.taken: list[str] = []
        self._lines = iter(lines)
        self._again: deque[str] = deque()

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else f"{next(self._lines)}\n"
        self.read += 1
        self.taken.append(line)
        return line

    def give_back(self) -> None:
        """Give back the lines of the last row except its first."""
        self._again.extendleft(reversed(self.taken[1:]))
        self.read -= len(self.taken[1:])
