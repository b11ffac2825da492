"""``tonnage replay``: the deciders on recorded data, side by side with their rivals."""

import click

from tonnage.cli.replay import pack, rank, run, size

__all__ = ["replay"]


@click.group()
def replay() -> None:
    """Play recorded data to rival strategies.

    \b
    Example: tonnage replay size trace.csv --protocol sizey
    """


replay.add_command(size.command)
replay.add_command(rank.command)
replay.add_command(pack.command)
replay.add_command(run.command)
