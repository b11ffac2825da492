"""``tonnage archive query``: print the jobs that match some filters."""

import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from tonnage.cli.archive.options import archive_option, search_options
from tonnage.cli.options import json_option, print_json
from tonnage.cli.tables import amount, cut, print_table
from tonnage.wording import printable

if TYPE_CHECKING:
    from tonnage.archive import Search
    from tonnage.jobs import Attempt

__all__ = ["command"]

_LONGEST_NAME = 40


@click.command("query")
@archive_option
@search_options
@click.option("--sort", metavar="COLUMN", help="Largest or newest first; names alphabetically.")
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--limit", type=click.IntRange(0), help="At most this many; 0 for all.  [default: 50; all with --csv]")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with all columns.")
@json_option
def command(
    url: str | None, search: "Search", sort: str | None, reverse: bool, limit: int | None, as_csv: bool, as_json: bool
) -> None:
    """Print the jobs that match all filters.

    \b
    Example: tonnage archive query --category align --where 'memory>4GB' --sort memory
             tonnage archive query --outcome exhausted --since 30d --csv --limit 0 > exhausted.csv
    """
    from tonnage.archive import record
    from tonnage.archive.exporting import csv_lines
    from tonnage.archive.remote import find_at

    if as_csv and as_json:
        raise click.UsageError("--csv and --json cannot be combined")
    limit = limit if limit is not None else 0 if as_csv else 50
    # Ask for one more than is shown, to find out whether there are more.
    most = limit + 1 if limit and not as_csv else limit or None
    found = find_at(url, search, sort=sort, reverse=reverse, limit=most)
    if as_csv:
        for data in csv_lines(found):
            sys.stdout.write(data.decode())
        return
    attempts = list(found)
    more = bool(limit) and len(attempts) > limit
    attempts = attempts[:limit] if limit else attempts
    if as_json:
        print_json({"attempts": [record(attempt) for attempt in attempts], "more": more})
    elif not attempts:
        click.echo("no matching jobs")
    else:
        _print(attempts)
        if more:
            click.echo(f"showing the first {limit:,}; --limit 0 shows all")


def _print(attempts: "list[Attempt]") -> None:
    """Print a table without its empty columns."""
    columns = {name: cells for name, show in _COLUMNS.items() if any(cells := [show(attempt) for attempt in attempts])}
    rows = list(zip(*columns.values(), strict=True))
    give_way = ("command", "disk", "cores", "user", "task", "asked", "ended", "outcome")
    print_table(list(columns), rows, right=("memory", "asked", "disk", "cores", "time"), give_way=give_way)


def _shown(resource: str, value: float | None) -> str:
    return "" if value is None else amount(resource, value)


def _at_least(resource: str, attempt: "Attempt") -> str:
    shown = _shown(resource, getattr(attempt.used, resource))
    return f"≥{shown}" if shown and resource in attempt.lower_bounds else shown


def _outcome(attempt: "Attempt") -> str:
    if attempt.outcome is None:
        return ""
    return f"{attempt.outcome} ({attempt.exhausted})" if attempt.exhausted else str(attempt.outcome)


def _date(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{moment:.0f} s"


_COLUMNS: "dict[str, Callable[[Attempt], str]]" = {
    "category": lambda attempt: printable(attempt.category or ""),
    "task": lambda attempt: cut(printable(attempt.task or ""), _LONGEST_NAME),
    "command": lambda attempt: printable(attempt.command or "")[:_LONGEST_NAME],
    "user": lambda attempt: cut(printable(attempt.user or ""), _LONGEST_NAME),
    "outcome": _outcome,
    "memory": lambda attempt: _at_least("memory", attempt),
    "asked": lambda attempt: _shown("memory", attempt.requested.memory),
    "disk": lambda attempt: _shown("disk", attempt.used.disk),
    "cores": lambda attempt: _shown("cores", attempt.used.cores),
    "time": lambda attempt: _shown("wall_time", attempt.used.wall_time),
    "ended": lambda attempt: "" if attempt.ended is None else _date(attempt.ended),
}
