"""Verbs with subcommands, each in a module of its own that is loaded when it is needed."""

from collections.abc import Mapping

import click

from tonnage.lazy import Deferred

__all__ = ["Subcommands"]


class Subcommands(click.Group):
    """Finds each subcommand as `command` in its module."""

    def __init__(self, name: str, modules: Mapping[str, str], help: str) -> None:
        super().__init__(name, help=help)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's own signature)
        """Return the names in the order in which help lists them."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a subcommand."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = Deferred(f"{self._modules[cmd_name]}:command").load()
        return command
