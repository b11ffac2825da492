"""Options shared by several subcommands of ``tonnage archive``."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from tonnage.jobs import Outcome, Resource

__all__ = ["archive_option", "search_options"]

archive_option = click.option(
    "--archive", "url", metavar="URL", help="The archive.  [default: $TONNAGE_ARCHIVE, else your own file]"
)

_OTHERS = ("input", "output_file", "file", "exit_status", "outcome", "exhausted", "since", "until", "where", "field")
_TEXTS = {
    "workflow": "Of this workflow, given by name or checksum.",
    "run": "Of this run.",
    "user": "Of this user.",
    "category": "Of this category. Names can be patterns: '*ALIGN*'.",
    "label": "With this label, set by discover.",
    "task": "Of the task with this name.",
    "command": "With this in the command, or matching a pattern such as '*/bwa mem*'.",
    "executable": "Of this program.",
    "source": "Of the source with this label.",
}


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filters to a command, which gets them as one argument, `search`."""

    @wraps(command)
    def with_search(*arguments: object, **options: Any) -> object:  # noqa: ANN401 (click's options are of any type)
        from tonnage.archive.search import search_of

        chosen = {name: options.pop(name) for name in (*_TEXTS, *_OTHERS)}
        chosen["output"] = chosen.pop("output_file")
        return command(*arguments, search=search_of(**chosen), **options)

    decorated = with_search
    options = [
        *(click.option(f"--{name}", metavar="TEXT", help=explanation) for name, explanation in _TEXTS.items()),
        click.option("--input-file", "input", metavar="NAME", help="That read this file."),
        click.option("--output-file", "output_file", metavar="NAME", help="That wrote this file."),
        click.option("--file", metavar="NAME", help="That read or wrote this file."),
        click.option("--exit", "exit_status", type=int, metavar="N", help="That ended with this exit status."),
        click.option("--outcome", type=click.Choice([one.value for one in Outcome]), help="That ended this way."),
        click.option("--exhausted", type=click.Choice([one.value for one in Resource]), help="That ran out of this."),
        click.option("--since", metavar="WHEN", help="That ended since a date, or within the last 30d."),
        click.option("--until", metavar="WHEN", help="That ended before a date, or more than 30d ago."),
        click.option("--where", multiple=True, metavar="CONDITION", help="Like memory>4GB or requested_cores>=8."),
        click.option("--field", multiple=True, metavar="KEY=VALUE", help="With this custom field."),
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
