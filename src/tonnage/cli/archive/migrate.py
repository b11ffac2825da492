"""``tonnage archive migrate``: upgrade an older archive."""

import click

from tonnage.cli.archive.options import archive_option

__all__ = ["command"]


@click.command("migrate")
@archive_option
def command(url: str | None) -> None:
    """Create or upgrade the archive's tables.

    A SQLite archive is upgraded when it is opened, after a backup; one on PostgreSQL only by this command.

    \b
    Example: tonnage archive migrate --archive postgresql://me@db.example.org/jobs
    """
    from tonnage.archive.maintenance import bring_up_to_date

    click.echo(bring_up_to_date(url))
