"""`watch`: run and measure a command from Python."""

import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tonnage.errors import InputError, TonnageError
from tonnage.watch.limits import IN_BYTES, IN_SECONDS
from tonnage.watch.main import find_program
from tonnage.watch.options import parse
from tonnage.watch.summary import Summary

__all__ = ["measure"]

_Stream = int | IO[bytes] | IO[str] | None


def measure(
    command: Sequence[str | os.PathLike[str]],
    *,
    limits: Mapping[str, str | float] | None = None,
    measure_only: bool = False,
    grace: str | float = 0.0,
    series: str | Path | None = None,
    category: str | None = None,
    workflow: str | None = None,
    fields: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    interval: str | float = 1.0,
    cores_window: str | float = 20.0,
    stdin: _Stream = None,
    stdout: _Stream = None,
    stderr: _Stream = None,
) -> Summary:
    """Run a command and return what it used.

    A separate monitor process watches the command, as with ``tonnage watch``. Limits are strings such as ``"300MB"``
    or numbers in bytes, seconds, cores or processes. A command that fails or is stopped at a limit raises no error:
    see the summary. A command that cannot be started does.
    """
    if isinstance(command, str):
        raise InputError(f'the command is a single string; expected a list such as ["sleep", "5"], not {command!r}')
    if subprocess.PIPE in (stdin, stdout, stderr):
        raise InputError("subprocess.PIPE is not supported, because nothing would read it; pass an open file")
    words = [os.fspath(word) for word in command]
    arguments = [
        *(f"--limit={resource}={_text(resource, amount)}" for resource, amount in (limits or {}).items()),
        *(["--measure-only"] if measure_only else []),
        *(f"--field={key}={value}" for key, value in (fields or {}).items()),
        *_options(series=series, category=category, workflow=workflow, dir=folder),
        f"--grace={_text('wall_time', grace)}",
        f"--interval={_text('wall_time', interval)}",
        f"--cores-window={_text('wall_time', cores_window)}",
        "--",
        *words,
    ]
    parse(arguments)  # raises errors here, where the caller can catch them
    find_program(words[0])
    with tempfile.TemporaryDirectory(prefix="tonnage-") as place:
        path = Path(place, "summary.json")
        monitor = [sys.executable, "-P", "-m", "tonnage", "watch", f"--summary={path}", *arguments]
        with subprocess.Popen(monitor, stdin=stdin, stdout=stdout, stderr=stderr) as process:  # noqa: S603 (as asked)
            status = _wait(process)
        if not path.exists():
            raise TonnageError(f"the monitor failed with status {status} and left no summary")
        return Summary.read(path)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the monitor; pass an interrupt on, and then wait for as long as the command takes to end."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


def _options(**values: str | Path | None) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def _text(resource: str, amount: str | float) -> str:
    """Return an amount as written on the command line; a bare number is in the resource's base unit."""
    if isinstance(amount, str):
        return amount
    if not isinstance(amount, int | float) or not math.isfinite(amount):
        raise InputError(f"{resource}: {amount!r} is not an amount")
    if resource in IN_BYTES:
        return f"{round(amount)}B"
    if resource in IN_SECONDS:
        return f"{amount:f}s"
    return f"{amount:g}"
