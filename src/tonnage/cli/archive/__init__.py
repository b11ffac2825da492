"""``tonnage archive``: every job ever run, from any tool, in one store."""

from tonnage.cli.groups import Subcommands

__all__ = ["archive"]

# Each subcommand is the function `command` in the module of its name; `import` is a keyword in Python.
_SUBCOMMANDS = {
    "import": "imports",
    "query": "query",
    "stats": "stats",
    "export": "export",
    "forget": "forget",
    "check": "check",
    "migrate": "migrate",
    "send": "send",
}

archive = Subcommands(
    "archive",
    {name: f"tonnage.cli.archive.{module}" for name, module in _SUBCOMMANDS.items()},
    help="""Store what every job used, and look it up.

    The archive is a file in ~/.local/share/tonnage unless --archive or TONNAGE_ARCHIVE names another: sqlite:///FILE,
    or for a team postgresql://USER@HOST/DATABASE or http://SERVER:PORT.

    \b
    Example: tonnage archive import trace.txt
             tonnage archive stats
    """,
)
