"""Groups of verbs, each in its own module that is loaded when needed."""

from collections.abc import Mapping

import click

from tonnage.errors import InputError
from tonnage.lazy import Deferred
from tonnage.wording import meant

__all__ = ["Subcommands", "Verbs", "no_such_verb"]


class Verbs(click.Group):
    """A group that suggests the verb that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb that was typed; raises InputError if there is none."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise no_such_verb(ctx, args[0])
        return super().resolve_command(ctx, args)


def no_such_verb(group: click.Context, name: str) -> InputError:
    """Return the error for a verb that a group does not have."""
    known = group.command.list_commands(group) if isinstance(group.command, click.Group) else []
    hint = meant(name, known) or f"see {group.command_path} --help"
    return InputError(f'{group.command_path} has no verb "{name}"', hint=hint)


class Subcommands(Verbs):
    """A group that finds each subcommand as `command` in its module."""

    def __init__(self, name: str, modules: Mapping[str, str], help: str) -> None:
        super().__init__(name, help=help)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (signature of click)
        """Return the names in the order of the help."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load a subcommand; None if there is no such name."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = Deferred(f"{self._modules[cmd_name]}:command").load()
        return command
