"""Tables on the terminal: formatting cells and printing whole tables."""

from collections.abc import Iterable, Mapping, Sequence

import click

from tonnage.jobs import Resource

__all__ = ["amount", "bar", "cut", "print_table"]

_SHORTEST_NAME = 16
_BARS = "▁▂▃▄▅▆▇█"
_WIDE = 160  # characters, if there is no terminal to set a limit


def amount(resource: str, value: float, *, binary: bool = False) -> str:
    """Format an amount of a resource in its unit, bytes in powers of 1000 or, with `binary`, of 1024."""
    return Resource(resource).format_amount(value, binary=binary)


def cut(name: str, room: int) -> str:
    """Shorten a name to at most `room` characters, keeping its end, in which long names differ."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), give_way: Sequence[str] = ()
) -> None:
    """Print a table; the columns in `right` are right-aligned.

    If there is not enough room, the first column is shortened, then the columns in `give_way` are left out one by one;
    numbers are never shortened.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    cells = list(zip(*rows, strict=True)) or [()] * len(header)
    columns = dict(zip(header, cells, strict=True))
    for name in give_way:
        if _width(columns) > console.width:
            columns.pop(name, None)
    first, *others = columns
    room = max(_SHORTEST_NAME, console.width - _width({name: columns[name] for name in others}) - 2)
    columns[first] = tuple(cut(cell, room) for cell in columns[first])
    table = Table(box=None, pad_edge=False, header_style="bold" if console.is_terminal else None)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    """Return the minimum width of the columns; only the first can be shortened."""
    widths = [max(map(len, (name, *cells))) for name, cells in columns.items()]
    return min(_SHORTEST_NAME, widths[0]) + sum(widths[1:]) + 2 * (len(widths) - 1) if widths else 0


def bar(part: float) -> str:
    """Return a character that shows a bar of this height, from 0 to 1."""
    return _BARS[min(max(int(part * len(_BARS)), 0), len(_BARS) - 1)]
