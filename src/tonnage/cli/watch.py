"""``tonnage watch``: only its help is here; ``__main__.py`` runs the command without importing click."""

import click

from tonnage.watch.options import OPTIONS

__all__ = ["watch"]


class _Watch(click.Command):
    """Leaves the arguments to the monitor, which parses them itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from tonnage.watch.main import main

        status = main(args)
        if status is not None:
            ctx.exit(status)
        return super().parse_args(ctx, ["--help"])


watch = _Watch(
    "watch",
    options_metavar="[OPTIONS] --",
    params=[
        *(
            click.Option([name], metavar=placeholder, is_flag=placeholder is None, multiple=repeatable, help=text)
            for name, placeholder, repeatable, text in OPTIONS
        ),
        click.Argument(["command"], nargs=-1, required=True, metavar="COMMAND ..."),
    ],
    short_help="Measure what a command uses and stop it at a limit.",
    help="""Run COMMAND, measure what it and all its processes use, and stop it when it exceeds a limit.

    The command's input, output, terminal, signals and exit status are the same as without the monitor, except that exit
    status 124 means that a limit was exceeded, 125 that the monitor failed, 126 that the command cannot be run and 127
    that it was not found.

    \b
    Example: tonnage watch -- python analysis.py
             tonnage watch --limit memory=4GB --limit wall_time=2h --summary s.json -- ./simulate 42
    """,
)
