"""The command line: one module per verb; parses, calls, prints.

Verbs are imported when they are used. A verb's module imports click and nothing heavy at its top, so that
``tonnage --help``, which loads them all, answers at once.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click

from tonnage import __version__
from tonnage.errors import TonnageError

__all__ = ["run", "tonnage"]

# Each verb is the command of the same name in the module of the same name.
VERBS = ("show", "generate")


class _Verbs(click.Group):
    """Finds a verb's module by its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's own signature)
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(f"tonnage.cli.{cmd_name}"), cmd_name)
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="tonnage %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def tonnage(debug: bool) -> None:
    """Size, rank and pack the jobs of a workflow, run them, and learn from every run.

    \b
    Example: tonnage show analysis.dag
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status; errors are printed for people."""
    try:
        result = tonnage.main(list(arguments), prog_name="tonnage", standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (TonnageError, MemoryError) as error:
        if "--debug" in arguments:
            raise
        return _report(error)
    return result if isinstance(result, int) else 0


def _report(error: TonnageError | MemoryError) -> int:
    if isinstance(error, MemoryError):
        error = TonnageError("there is not enough memory for this input")
    click.echo(f"tonnage: {error.report()}", err=True)
    return error.exit_status
