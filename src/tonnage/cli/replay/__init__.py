"""``tonnage replay``: the deciders on recorded data, side by side with their rivals."""

from tonnage.cli.groups import Subcommands

__all__ = ["replay"]

replay = Subcommands(
    "replay",
    {name: f"tonnage.cli.replay.{name}" for name in ("pack", "rank", "run", "size")},
    help="""Play recorded data to rival strategies.

    \b
    Example: tonnage replay size trace.csv --protocol sizey
    """,
)
