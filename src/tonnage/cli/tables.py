"""Tables on the terminal: formatting cells and printing whole tables."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, takewhile

import click

from tonnage.jobs import Resource

__all__ = ["amount", "bar", "cut", "print_table", "shortened"]

_SHORTEST_NAME = 16
_BOUNDARY = re.compile(r"[^:./]*[:./]*")
"""A part of a long name such as ``GENOME:ALIGN:BWA_MEM``, with what separates it from the next."""
_BARS = "▁▂▃▄▅▆▇█"
_WIDE = 160  # characters, if there is no terminal to set a limit


def amount(resource: str, value: float, *, binary: bool = False) -> str:
    """Format an amount of a resource in its unit, bytes in powers of 1000 or, with `binary`, of 1024."""
    return Resource(resource).format_amount(value, binary=binary)


def cut(name: str, room: int) -> str:
    """Shorten a name to at most `room` characters, keeping its end, in which long names differ."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def shortened(names: Sequence[str], room: int) -> list[str]:
    """Shorten names to at most `room` characters so that different ones stay different.

    If one is too long, all lose the parts that they begin with in common; then the longest lose their middle.
    """
    different = list(dict.fromkeys(names))
    if max(map(len, different), default=0) <= room:
        return list(names)
    shown: dict[str, str] = {}
    for name, text in zip(different, _without_common_parts(different), strict=True):
        taken = set(shown.values())
        shown[name] = next(one for one in _elided(text, room) if one not in taken)
    return [shown[name] for name in names]


def _without_common_parts(names: Sequence[str]) -> list[str]:
    """Replace the parts that all names begin with by an ellipsis."""
    positions = zip(*(_BOUNDARY.findall(name)[:-2] for name in names), strict=False)
    common = takewhile(lambda parts: len(set(parts)) == 1, positions)
    start = sum(len(parts[0]) for parts in common) if len(names) > 1 else 0
    return [f"…{name[start:]}" if start else name for name in names]


def _elided(name: str, room: int) -> Iterator[str]:
    """Yield a name without its middle in different ways, in the end with numbers in its place."""
    if len(name) <= room:
        yield name
    usual = room // 3
    for head in sorted(range(room), key=lambda head: abs(head - usual)):
        yield f"{name[:head]}…{name[len(name) - (room - 1 - head) :]}"
    for number in count(2):
        yield f"{name[: room - 1 - len(str(number))]}…{number}"


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    give_way: Sequence[str] = (),
    names: int = _SHORTEST_NAME,
) -> None:
    """Print a table; the columns in `right` are right-aligned.

    If there is not enough room, the first column is shortened to not less than `names` characters, then the columns in
    `give_way` are left out one by one; numbers are never shortened.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _WIDE
    cells = list(zip(*rows, strict=True)) or [()] * len(header)
    columns = dict(zip(header, cells, strict=True))
    for name in give_way:
        if _width(columns, names) > console.width:
            columns.pop(name, None)
    first, *others = columns
    room = max(_SHORTEST_NAME, console.width - _width({name: columns[name] for name in others}) - 2)
    columns[first] = tuple(shortened(columns[first], room))
    table = Table(box=None, pad_edge=False, header_style="bold" if console.is_terminal else None)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _width(columns: Mapping[str, Sequence[str]], shortest: int | None = None) -> int:
    """Return the minimum width of the columns; only the first can be shortened, if at all."""
    widths = [max(map(len, (name, *cells))) for name, cells in columns.items()]
    if not widths:
        return 0
    first = widths[0] if shortest is None else min(shortest, widths[0])
    return first + sum(widths[1:]) + 2 * (len(widths) - 1)


def bar(part: float) -> str:
    """Return a character that shows a bar of this height, from 0 to 1."""
    return _BARS[min(max(int(part * len(_BARS)), 0), len(_BARS) - 1)]
