"""The options shared by all verbs that take a SOURCE."""

import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from tonnage.errors import InputError
from tonnage.option_values import pairs, parts
from tonnage.wording import printable

__all__ = ["named", "source_options"]


def named(text: str, known: Collection[str], option: str) -> list[str]:
    """Split comma-separated names; raises InputError if one is unknown."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InputError(f'{option}: "{", ".join(unknown)}" is unknown', hint=f"use all, or any of {', '.join(known)}")
    return names


def _progress(name: str) -> AbstractContextManager[object]:
    """Show on a terminal that a source is being read."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(printable(f"Reading {name} ..."))


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading a SOURCE; the command receives them as one value, `reading`."""
    from functools import wraps

    from tonnage.logs.formats import READERS

    @click.option(
        "--from",
        "format",
        type=click.Choice(READERS),
        metavar="FORMAT",
        help="Format of SOURCE.  [default: recognised]",
    )
    @click.option("--columns", multiple=True, metavar="OURS=THEIRS,...", help="Names of a table's columns: memory=rss.")
    @click.option("--units", multiple=True, metavar="NAME=UNIT,...", help="Units of a table's columns: memory=KiB.")
    @click.option("--timezone", metavar="ZONE", help="Time zone of times without one.  [default: this machine's]")
    @click.option("--label", metavar="NAME", help="Name for the origin of the jobs.  [default: the file's stem]")
    @click.option("--where", multiple=True, metavar="CONDITION", help="Use only jobs that satisfy this: memory>4GB.")
    @wraps(command)
    def with_reading(
        *arguments: object,
        format: str | None,
        columns: tuple[str, ...],
        units: tuple[str, ...],
        timezone: str | None,
        label: str | None,
        where: tuple[str, ...],
        **options: object,
    ) -> object:
        from tonnage.cli.console import logged  # logging takes its time to load, and --help needs none
        from tonnage.job_sources import Reading

        reading = Reading(
            format=format,
            columns=pairs(parts(columns), "--columns"),
            units=pairs(parts(units), "--units"),
            timezone=timezone,
            label=label,
            where=where,
            progress=_progress,
        )
        with logged():
            return command(*arguments, reading=reading, **options)

    return with_reading
