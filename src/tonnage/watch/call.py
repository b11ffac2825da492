"""Watching a command from Python."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tonnage.errors import TonnageError
from tonnage.watch.main import find_program
from tonnage.watch.options import parse
from tonnage.watch.summary import Summary

__all__ = ["watch"]

_Stream = int | IO[bytes] | IO[str] | None


def watch(
    command: Sequence[str],
    *,
    limits: Mapping[str, str | float] | None = None,
    measure_only: bool = False,
    grace: float = 0.0,
    series: str | Path | None = None,
    category: str | None = None,
    workflow: str | None = None,
    fields: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    interval: float = 1.0,
    cores_window: float = 20.0,
    stdin: _Stream = None,
    stdout: _Stream = None,
    stderr: _Stream = None,
) -> Summary:
    """Run a command and return what it used.

    A monitor process of its own watches the command, as ``tonnage watch`` does. Limits are texts such as ``"300MB"``
    or numbers in bytes, seconds, cores or processes. A command that fails, or is stopped at a limit, is no error here:
    the summary tells. One that cannot be started raises an error.
    """
    arguments = [
        *(f"--limit={resource}={_text(resource, amount)}" for resource, amount in (limits or {}).items()),
        *(["--measure-only"] if measure_only else []),
        *(f"--field={key}={value}" for key, value in (fields or {}).items()),
        *_options(series=series, category=category, workflow=workflow, dir=folder),
        f"--grace={grace:f}s",
        f"--interval={interval:f}s",
        f"--cores-window={cores_window:f}s",
        "--",
        *command,
    ]
    parse(arguments)  # what is wrong with them is said here, where it can be caught
    find_program(command[0])
    with tempfile.TemporaryDirectory(prefix="tonnage-") as place:
        path = Path(place, "summary.json")
        monitor = [sys.executable, "-P", "-m", "tonnage", "watch", f"--summary={path}", *arguments]
        ended = subprocess.run(monitor, stdin=stdin, stdout=stdout, stderr=stderr, check=False)  # noqa: S603 (what the user asked for)
        if not path.exists():
            raise TonnageError(f"the monitor failed with status {ended.returncode} and left no summary")
        return Summary.read(path)


def _options(**values: str | Path | None) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def _text(resource: str, amount: str | float) -> str:
    """Return an amount as the command line has it; a bare number is in the resource's base unit."""
    if isinstance(amount, str):
        return amount
    unit = {"memory": "B", "disk": "B", "wall_time": "s", "cpu_time": "s"}.get(resource, "")
    return f"{amount:.15g}{unit}" if unit != "B" else f"{round(amount)}B"
