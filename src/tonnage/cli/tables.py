"""Tables for people: what is printed, cell by cell and as a whole."""

from collections.abc import Iterable, Sequence

import click

from tonnage.jobs import Resource
from tonnage.units import format_bytes, format_cores, format_seconds

__all__ = ["amount", "cut", "print_table"]

_WIDE = 160  # characters, where nobody's terminal sets a limit


def amount(resource: str, value: float, *, binary: bool = False) -> str:
    """Print an amount of a resource in its unit, bytes in powers of 1000 or, with `binary`, of 1024."""
    unit = Resource(resource).unit
    if unit == "bytes":
        return format_bytes(value, binary=binary)
    return format_seconds(value) if unit == "seconds" else format_cores(value)


def cut(name: str, room: int) -> str:
    """Return a name in at most so many characters: what sets long names apart is their end."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table; the columns in `right` hold numbers, and the first one gives way where there is no room."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    room = max(16, console.width - sum(widths[1:]) - 2 * len(widths))
    table = Table(box=None, pad_edge=False, header_style="bold" if console.is_terminal else None)
    for name in header:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for first, *others in cells:
        table.add_row(cut(first, room), *others)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
