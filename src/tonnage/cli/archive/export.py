"""``tonnage archive export``: write jobs to a file for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.archive.registry import ENDINGS, EXPORTERS
from tonnage.cli.archive.options import archive_option, search_options
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.archive import Search

__all__ = ["command"]


@click.command("export")
@archive_option
@search_options
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE", help="File to write.")
@click.option("--format", type=click.Choice(EXPORTERS), help="[default: by the extension of FILE]")
def command(url: str | None, search: "Search", output: Path, format: str | None) -> None:
    """Write jobs as CSV, JSON lines or Parquet, in bytes and seconds.

    \b
    Example: tonnage archive export --since 365d -o jobs.parquet
    """
    from tonnage.archive import export
    from tonnage.archive.remote import find_at

    chosen = format or ENDINGS.get(output.suffix.lower())
    if chosen is None:
        raise InputError(f"{output}: unknown file name extension", hint=f"one of {', '.join(ENDINGS)}, or --format")
    output = Path("/dev/stdout") if str(output) == "-" else output
    count = export(find_at(url, search), output, chosen)
    click.echo(f"{output}: {count:,} jobs", err=True)
