"""Rows of tables whose cells are separated by a character."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator

from tonnage.logs.log import UnusableError

__all__ = ["rows"]


def rows(
    lines: Iterable[str], delimiter: str, *, first: int = 1, quoted: bool = True
) -> Iterator[tuple[int, list[str] | UnusableError]]:
    """Yield the cells of each row that is not blank, or why there are none, and the line on which it begins.

    `first` is the number of the first line. Cells that are `quoted` may hold the delimiter and line breaks.
    """
    quotes = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    source = _Lines(lines)
    # Strict, since a quote that nobody closes would hide all rows after it in one cell.
    reader = csv.reader(source, delimiter=delimiter, quoting=quotes, strict=True)  # type: ignore[arg-type] # one of both
    while True:
        begin = source.read + first
        source.taken.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:  # also a cell of 128 KiB, or a line break of its own kind within one
            yield begin, UnusableError("its cells cannot be told apart", str(problem))
            source.give_back()
            continue
        if any(map(str.strip, cells)):
            yield begin, cells


class _Lines:
    """Lines that can be given back: those that a quote without an end took along are rows of their own."""

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
        """Give back the lines of the last row but its first."""
        self._again.extendleft(reversed(self.taken[1:]))
        self.read -= len(self.taken[1:])
