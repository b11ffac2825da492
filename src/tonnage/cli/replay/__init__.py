"""``tonnage replay``: compare strategies on recorded data."""

from tonnage.cli.groups import Subcommands

__all__ = ["replay"]

replay = Subcommands(
    "replay",
    {name: f"tonnage.cli.replay.{name}" for name in ("pack", "rank", "run", "size")},
    help="""Compare strategies on recorded data.

    \b
    Example: tonnage replay size trace.csv --protocol sizey
    """,
)
