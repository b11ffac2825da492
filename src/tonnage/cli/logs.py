"""``tonnage logs``: what a task printed."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from tonnage.cli.options import say
from tonnage.errors import InputError
from tonnage.wording import meant

if TYPE_CHECKING:
    from tonnage.run.folders import RunFolder
    from tonnage.run.journal_rows import Row

__all__ = ["logs"]

_PAUSE = 0.1
_PIECE = 1 << 16


@click.command()
@click.argument("names", metavar="[RUN] TASK", nargs=-1, required=True)
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Print the Nth attempt.  [default: the last]")
@click.option("--follow", "-f", is_flag=True, help="Continue to print while the task runs on this machine.")
def logs(names: tuple[str, ...], attempt: int | None, follow: bool) -> None:
    """Print what TASK of RUN (by default the last) wrote to standard output and standard error.

    In a list of commands, a task is named by its line. What the task wrote to standard error goes to standard error,
    so that the two can be redirected separately.

    \b
    Example: tonnage logs align-7
             tonnage logs line 12
             tonnage logs -f analysis-20261116-140411 align-7
    """
    from tonnage.run.folders import find_run

    run, task = _named(names)
    folder = find_run(run)
    row, token = _attempt(folder, task, attempt)
    pids = _processes(token, row.attempt) if row.ended is None else []
    streams = _slots(pids, folder) if row.ended is None else (row.stdout, row.stderr)
    _heading(row, streams, on_this_machine=bool(pids), executed=folder.holder() is not None)
    running = (lambda: bool(_processes(token, row.attempt))) if follow and pids else (lambda: False)
    _print(streams, running)


def _named(words: tuple[str, ...]) -> tuple[str, str]:
    """Return the run and the task that are named; ``line 12`` needs no quotes."""
    *runs, task = words
    if runs and runs[-1] == "line" and task.isdecimal():
        task = f"{runs.pop()} {task}"
    if len(runs) > 1:
        raise InputError("expected [RUN] TASK", hint="names with spaces need quotes")
    return runs[0] if runs else "last", task


def _attempt(folder: "RunFolder", task: str, number: int | None) -> "tuple[Row, str]":
    """Return the wanted attempt of a task, and the token of its run."""
    from tonnage.run.journal import Reader

    with closing(Reader(folder.journal)) as reader:
        name, token = reader.name_of(task), reader.facts().get("token", "")
        rows = [] if name is None else reader.attempts(name)
        if rows and number is None:
            return rows[-1], token
        for row in rows:
            if row.number == number:
                return row, token
        if rows:
            raise InputError(f'task "{task}" has no attempt {number}', hint=f"it has {len(rows)}")
        known = [str(name) for (name,) in reader.read("SELECT name FROM tasks WHERE NOT dropped")]
    if name is not None:
        hint = "if it was up to date, an earlier run has what it printed: tonnage logs RUN TASK"
        raise InputError(f'task "{task}" has not started in the run {folder.id}', hint=hint)
    hint = meant(task, known) or "tonnage status shows tasks that run or failed"
    raise InputError(f'{folder.id} has no task "{task}"', hint=hint)


def _processes(token: str, attempt: int) -> list[int]:
    from tonnage.run.marked_processes import processes_of

    return sorted(processes_of(token, attempt))


def _slots(pids: list[int], folder: "RunFolder") -> tuple[str | None, str | None]:
    """Return the files that a running attempt writes to; they get its name when it ends."""
    for pid in pids:
        found: list[str | None] = []
        for descriptor in (1, 2):
            with suppress(OSError):
                path = Path(f"/proc/{pid}/fd/{descriptor}").readlink()
                found.append(str(path) if path.is_relative_to(folder.path.absolute()) else None)
        if len(found) == 2 and any(found):
            return found[0], found[1]
    return None, None


def _heading(row: "Row", streams: tuple[str | None, str | None], *, on_this_machine: bool, executed: bool) -> None:
    state = row.note or str(row.outcome or "running")
    if row.ended is None and not executed:
        state = "how it ended is unknown, because its run was interrupted; resume the run to find out"
    elif row.ended is None and not on_this_machine:
        state = f"running on {row.host or 'another machine'}; its output can be read once it has ended"
    elif not any(streams):
        state = f"{state}; it printed nothing"
    say(f"attempt {row.number} of {row.title}: {state}")


def _print(streams: tuple[str | None, str | None], running: Callable[[], bool]) -> None:
    """Copy both files to our own streams, and what is added to them while the task runs."""
    with ExitStack() as opened:
        pairs: list[tuple[BinaryIO, BinaryIO]] = []
        for name, stream in zip(streams, (sys.stdout.buffer, sys.stderr.buffer), strict=True):
            if name is not None:
                try:
                    pairs.append((opened.enter_context(Path(name).open("rb")), stream))
                except OSError as error:
                    raise InputError(f"cannot be read: {error.strerror}", path=name) from None
        while True:
            lives = running()  # before the last look, so that nothing printed in between is missed
            for file, stream in pairs:
                while piece := file.read(_PIECE):
                    stream.write(piece)
                stream.flush()
            if not lives:
                return
            time.sleep(_PAUSE)
