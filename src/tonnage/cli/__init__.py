"""The command line: one module per verb; parses, calls, prints.

Verbs are imported when they are used. A verb's module imports click and nothing heavy at its top, so that
``tonnage --help``, which loads them all, answers at once.
"""

import importlib
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tonnage import __version__
from tonnage.cli.groups import Verbs
from tonnage.cli.options import say
from tonnage.errors import InputError, TonnageError
from tonnage.wording import meant, printable

__all__ = ["main", "tonnage"]

# Each verb is the command of the same name in the module of the same name.
VERBS = (
    "show",
    "generate",
    "watch",
    "archive",
    "size",
    "discover",
    "rank",
    "pack",
    "run",
    "status",
    "logs",
    "stop",
    "report",
    "serve",
    "replay",
    "config",
    "help",
)


_SEVERAL = ("machine", "minimum")
"""Settings whose options can be given several times."""
_CONFIGURED = {
    "machine": ("run", "size", "report"),
    "strategy": ("run", "size", "report"),
    "minimum": ("size",),
    "headroom": ("size",),
    "override-requests": ("run",),
    "partition": ("run", "pack"),
    "account": ("run", "pack"),
}
"""The verbs whose options take their defaults from a setting of ``tonnage.toml``; `archive.url` reads the archive's."""


class _Verbs(Verbs):
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


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status; errors are printed for people.

    It is not called run: the module of that verb would hide it.
    """
    _prepare_streams()
    try:
        defaults = {} if set(arguments) & {"-h", "--help"} else _configured()
        result = tonnage.main(list(arguments), prog_name="tonnage", standalone_mode=False, default_map=defaults)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return InputError.exit_status
    except (click.ClickException, TonnageError, MemoryError, OSError) as error:
        if "--debug" in arguments and not isinstance(error, click.ClickException):
            raise
        return _report(error)
    return result if isinstance(result, int) else 0


def _configured() -> dict[str, dict[str, object]]:
    """Return what ``tonnage.toml`` and its environment variables say, as defaults of options."""
    from tonnage.config import counting, settings

    values = list(settings())
    for one in values:
        if one.problem:
            say(f"ignored {one.setting} in {one.origin}: {one.problem}")
    found: dict[str, dict[str, object]] = {verb: {} for verb in VERBS}
    for setting, verbs in _CONFIGURED.items():
        value = counting(values, setting)
        # What sbatch reads by itself is left to it: it says so.
        if value is not None and not value.origin.startswith("SBATCH_"):
            for verb in verbs:
                found[verb][setting.replace("-", "_")] = (value.text,) if setting in _SEVERAL else value.text
    return found


def _prepare_streams() -> None:
    """Make output work on a terminal with few characters, and after it was closed."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (open until the process ends)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _report(error: Exception) -> int:
    """Print what went wrong on one line, with a hint below it, and return the exit status."""
    if isinstance(error, BrokenPipeError):
        _discard_output()  # the reader of our output has seen enough
        return 128 + signal.SIGPIPE
    problem: TonnageError
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        problem = InputError(f"{error.ctx.command_path} has no option {error.option_name}", hint=_help_hint(error))
    elif isinstance(error, click.ClickException):
        problem = InputError(error.format_message(), hint=_help_hint(error))
    elif isinstance(error, TonnageError):
        problem = error
    elif isinstance(error, MemoryError):
        problem = TonnageError("there is not enough memory for this input")
    else:
        _discard_output()
        problem = TonnageError(f"the output cannot be written: {error}")
    lines = [_shortened(printable(line)) for line in f"tonnage: {problem.report()}".split("\n")]
    click.echo("\n".join(lines), err=True)
    return problem.exit_status


def _shortened(line: str) -> str:
    """Cut what a damaged file can put into a message: a name of a megabyte, say."""
    return line if len(line) <= 800 else f"{line[:500]} ... {line[-250:]}"


def _help_hint(error: click.ClickException) -> str | None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.BadParameter) and error.param and isinstance(error.param.type, click.Choice):
        typed = re.match("'(.*?)' is not one of", error.message)
        hint = meant(typed[1], map(str, error.param.type.choices)) if typed else None
        if hint:
            return hint
    if isinstance(error, click.NoSuchOption) and context:
        known = [name for one in context.command.get_params(context) for name in one.opts if name.startswith("--")]
        hint = meant(error.option_name, known)
        if hint:
            return hint
    return f"see {context.command_path} --help" if context else None


def _discard_output() -> None:
    """Point standard output at nothing, since Python would complain once more when it closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
