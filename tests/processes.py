"""The processes that a test has started, found by what it gave them."""

import os
from collections.abc import Iterator
from pathlib import Path

from tonnage.watch.proc import Process, children, read

__all__ = ["all_processes", "commands_with", "is_alive", "minder_and_command", "with_argument", "with_variable"]


def all_processes() -> list[int]:
    """Return the numbers of all processes of this machine."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def with_argument(text: str) -> list[int]:
    """Return the processes that have a text in their command line; one that has ended has none."""
    return _holding("cmdline", text)


def with_variable(text: str) -> list[int]:
    """Return the processes that have a text in their environment, such as ``MARK=x``."""
    return _holding("environ", text)


def _holding(file: str, text: str) -> list[int]:
    return [pid for pid in _others() if text.encode() in (read(f"/proc/{pid}/{file}") or b"")]


def _others() -> Iterator[int]:
    return (pid for pid in all_processes() if pid != os.getpid())


def commands_with(mark: str) -> list[int]:
    """Return the processes with a mark among their arguments, without those of ``tonnage watch``, which have it too."""
    return [pid for pid in with_argument(mark) if b"\0watch\0" not in (read(f"/proc/{pid}/cmdline") or b"\0watch\0")]


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    process = Process.of(pid)
    return process is not None and not process.ended


def minder_and_command(guard: int) -> tuple[int, int] | None:
    """Return the minder below the process that a user sees, and the command that it has started; None: not yet."""
    for minder in children(guard):
        for command in children(minder):
            return minder, command
    return None
