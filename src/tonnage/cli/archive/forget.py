"""``tonnage archive forget``: remove jobs from the archive."""

from typing import TYPE_CHECKING

import click

from tonnage.cli.archive.options import archive_option, search_options
from tonnage.cli.options import json_option, print_json
from tonnage.wording import counted

if TYPE_CHECKING:
    from tonnage.archive import Search

__all__ = ["command"]


@click.command("forget")
@archive_option
@search_options
@click.option("--older-than", metavar="WHEN", help="Jobs that ended before a date, or more than 90d or 52w ago.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the newest N of each category.")
@click.option("--yes", is_flag=True, help="Remove the jobs. Without this, only count them.")
@json_option
def command(
    url: str | None, search: "Search", older_than: str | None, keep: int | None, yes: bool, as_json: bool
) -> None:
    """Remove jobs from the archive.

    \b
    Example: tonnage archive forget --older-than 730d --keep 1000 --yes
    """
    from tonnage.archive import EVERYTHING, Archive, count_forgettable, forget
    from tonnage.logs.user_times import moment

    if search == EVERYTHING and older_than is None and keep is None:
        raise click.UsageError("this would remove everything: select jobs with --older-than, --keep or a filter")
    before = None if older_than is None else moment(older_than)
    with Archive.open(url) as archive:
        act = forget if yes else count_forgettable
        count = act(archive, search, before=before, keep=keep)
        left = archive.count()
    if as_json:
        print_json({"jobs": count, "removed": yes, "left": left})
    else:
        jobs = counted(count, "job")
        click.echo(f"{jobs} removed, {left:,} left" if yes else f"{jobs} would be removed; add --yes to remove them")
