"""``tonnage archive``: every job ever run, from any tool, in one store."""

import importlib

import click

__all__ = ["archive"]

# Each subcommand is the command `command` in the module of its name; `import` is a word of Python's own.
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


class _Archive(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's own signature)
        return list(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _SUBCOMMANDS:
            return None
        module = importlib.import_module(f"tonnage.cli.archive.{_SUBCOMMANDS[cmd_name]}")
        command: click.Command = module.command
        return command


archive = _Archive(
    "archive",
    help="""Keep what every job used, and look it up.

    The archive is a file of yours unless --archive or TONNAGE_ARCHIVE names another: sqlite:///FILE, or
    postgresql://USER@HOST/DATABASE or http://SERVER:PORT for a team.

    \b
    Example: tonnage archive import trace.txt
             tonnage archive stats
    """,
)
