"""Rows of tables whose cells are separated by a character."""

import csv
from collections.abc import Iterable, Iterator

from tonnage.logs.log import UnusableError

__all__ = ["rows"]


def rows(
    lines: Iterable[str], delimiter: str, *, first: int = 1, quoted: bool = True
) -> Iterator[tuple[int, list[str] | UnusableError]]:
    """Yield the cells of each row that is not blank, or why there are none, and the line on which it begins.

    `first` is the number of the first line. Cells that are `quoted` may hold the delimiter and line breaks.
    """
    # Strict, since a quote that nobody closes would hide all rows after it in one cell.
    text = (f"{line}\n" for line in lines)
    quotes = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(text, delimiter=delimiter, quoting=quotes, strict=True)  # type: ignore[arg-type] # one of both
    while True:
        begin = reader.line_num + first
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:  # also a cell of 128 KiB, or a line break of its own kind within one
            yield begin, UnusableError("its cells cannot be told apart", str(problem))
            continue
        if any(map(str.strip, cells)):
            yield begin, cells
