"""Arguments and options that several verbs share."""

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.units import format_bytes
from tonnage.wording import printable

if TYPE_CHECKING:
    from tonnage.workflow import Workflow

__all__ = [
    "gathered",
    "json_option",
    "print_json",
    "read_workflow",
    "say",
    "with_options",
    "workflow_arguments",
]

_LARGE = 5_000_000
"""From this many bytes on, reading takes long enough to show progress."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print the same information as JSON.")


def with_options(command: Any, *options: Any) -> Any:  # noqa: ANN401 (click's decorators take and return any callable)
    """Add options to a command; the first is listed first in its help."""
    for option in reversed(options):
        command = option(command)
    return command


def gathered(command: Any, name: str, kind: Any, *options: Any) -> Any:  # noqa: ANN401
    """Add options to a command, which receives them as one named tuple of type `kind`, called `name`."""

    def wrapped(**values: Any) -> Any:  # noqa: ANN401
        own = {field: values.pop(field) for field in kind._fields}
        return command(**{name: kind(**own)}, **values)

    return with_options(update_wrapper(wrapped, command), *options)


def workflow_arguments(command: Any) -> Any:  # noqa: ANN401 (click's decorators take and return any callable)
    """Add the argument WORKFLOW and the option --from."""
    from tonnage.workflow.formats import READERS

    path = click.argument("path", metavar="WORKFLOW", type=click.Path(path_type=Path, readable=False))
    source = click.option(
        "--from", "source_format", type=click.Choice(READERS), help="Format of WORKFLOW.  [default: recognised]"
    )
    return path(source(command))


def read_workflow(path: Path, source_format: str | None) -> "Workflow":
    """Read the workflow named by the arguments (``-`` is standard input), and print warnings about it."""
    from tonnage.workflow import read
    from tonnage.workflow.formats import STANDARD_INPUT

    if str(path) == "-":
        path = STANDARD_INPUT
    with _progress(path):
        workflow = read(path, source_format)
    for warning in workflow.source.warnings if workflow.source else ():
        say(f"{path}: warning: {warning}")
    return workflow


def _progress(path: Path) -> AbstractContextManager[object]:
    """Show on a terminal that a large file is being read."""
    if not sys.stderr.isatty() or not path.is_file() or path.stat().st_size < _LARGE:
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"Reading {path.name} ({format_bytes(path.stat().st_size)}) ...")


def say(text: str) -> None:
    """Tell the user something beside the output: on standard error, marked as ours."""
    click.echo(printable(f"tonnage: {text}"), err=True)


def print_json(facts: dict[str, object]) -> None:
    """Print facts as JSON, with the version of their schema at the top."""
    import json

    click.echo(json.dumps({"schema": 1, **facts}, indent=2, allow_nan=False))
