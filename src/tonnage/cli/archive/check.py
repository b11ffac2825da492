"""``tonnage archive check``: look for damage in the archive."""

import click

from tonnage.cli.archive.options import archive_option
from tonnage.cli.options import json_option, print_json
from tonnage.wording import printable

__all__ = ["command"]


@click.command("check")
@archive_option
@json_option
def command(url: str | None, as_json: bool) -> int:
    """Check every row of the archive for damage; exit status 1 if there is any.

    \b
    Example: tonnage archive check
    """
    from tonnage.archive import Archive, check

    with Archive.open(url) as archive:
        problems = check(archive)
        jobs = archive.count()
        if as_json:
            print_json({"archive": str(archive), "version": archive.version(), "jobs": jobs, "problems": problems})
        else:
            for problem in problems:
                click.echo(printable(problem))
            click.echo(f"{archive}: {jobs:,} jobs, {len(problems) or 'no'} problems")
    return 1 if problems else 0
