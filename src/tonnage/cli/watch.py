"""``tonnage watch``: only its help lives here; see ``__main__.py`` for how a command is watched without click."""

import click

from tonnage.watch.options import OPTIONS

__all__ = ["watch"]


def _run(**_options: object) -> None:
    raise AssertionError("tonnage watch is started before click is imported")


class _Watch(click.Command):
    """Hands its arguments over as they are: whoever reached this through Python gets the same behaviour."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        if args[:1] in (["-h"], ["--help"]):
            return super().make_context(info_name, args, parent)
        from tonnage.watch.main import main

        raise click.exceptions.Exit(main(args))


watch = _Watch(
    "watch",
    callback=_run,
    options_metavar="[OPTIONS] --",
    params=[
        *(
            click.Option([name], metavar=placeholder, is_flag=placeholder is None, multiple=repeatable, help=text)
            for name, placeholder, repeatable, text in OPTIONS
        ),
        click.Argument(["command"], nargs=-1, required=True, metavar="COMMAND ..."),
    ],
    short_help="Measure what a command uses, and stop it at a limit.",
    help="""Run COMMAND, measure what it and all its processes use, and stop it when it takes too much.

    The command's input, output, terminal, signals and exit status are as without the monitor; 124 means that a limit
    was exceeded, 125 that the monitor failed, 126 and 127 that the command cannot be run or found.

    \b
    Example: tonnage watch -- python analysis.py
             tonnage watch --limit memory=4GB --limit wall_time=2h --summary s.json -- ./simulate 42
    """,
)
