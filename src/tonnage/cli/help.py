"""``tonnage help``: the help of a verb, for people who type it that way."""

import click

from tonnage.cli.groups import no_such_verb

__all__ = ["help"]


@click.command()
@click.argument("names", metavar="[VERB]...", nargs=-1)
@click.pass_context
def help(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a verb, or the list of verbs.

    \b
    Example: tonnage help run
             tonnage help archive import
    """
    shown = context.find_root()
    for name in names:
        command = shown.command.get_command(shown, name) if isinstance(shown.command, click.Group) else None
        if command is None:
            raise no_such_verb(shown, name)
        shown = click.Context(command, info_name=name, parent=shown)
    click.echo(shown.get_help())
