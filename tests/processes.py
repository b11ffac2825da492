"""Finds the processes that a test has started, by their arguments or environment."""

import os
from collections.abc import Iterator
from pathlib import Path

from tonnage.watch.proc import Process, children, read

__all__ = ["all_processes", "commands_with", "is_alive", "minder_and_command", "with_argument", "with_variable"]


def all_processes() -> list[int]:
    """Return the ids of all processes on this machine."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def with_argument(text: str) -> list[int]:
    """Return the processes with this text in their command line; ended processes have none."""
    return _holding("cmdline", text)


def with_variable(text: str) -> list[int]:
    """Return the processes with this text, such as ``MARK=x``, in their environment."""
    return _holding("environ", text)


def _holding(file: str, text: str) -> list[int]:
    return [pid for pid in _others() if text.encode() in (read(f"/proc/{pid}/{file}") or b"")]


def _others() -> Iterator[int]:
    return (pid for pid in all_processes() if pid != os.getpid())


def commands_with(mark: str) -> list[int]:
    """Return the processes with this argument, without those of ``tonnage watch``, which have it too."""
    return [pid for pid in with_argument(mark) if b"\0watch\0" not in (read(f"/proc/{pid}/cmdline") or b"\0watch\0")]


def is_alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    process = Process.of(pid)
    return process is not None and not process.ended


def minder_and_command(guard: int) -> tuple[int, int] | None:
    """Return the minder below the process that a user sees, and its command; None if not started yet."""
    for minder in children(guard):
        for command in children(minder):
            return minder, command
    return None
