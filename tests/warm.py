"""The command line in its own process, which starts at once: forked by a server that has loaded everything.

It can be killed, interrupted and waited for like any other process; a new Python would need half a second of CPU first.
"""

import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from tests.command_line import Said
from tests.deadlines import HANGS
from tonnage.cli import main

__all__ = ["Warm", "context"]

context = get_context("forkserver")
# Not our own modules, which the server cannot find.
context.set_forkserver_preload(
    [
        *("pytest", "alembic.command", "psycopg", "sqlalchemy.dialects.postgresql.psycopg"),
        *(f"tonnage.cli.{verb}" for verb in ("archive.imports", "archive.send", "run", "serve", "size")),
        *(f"tonnage.{room}" for room in ("archive.remote", "logs.formats", "run.session", "serve.server", "size")),
    ]
)


class Warm:
    """A call of ``tonnage``; its process is always gone at the end of the `with` statement."""

    def __init__(
        self,
        *words: object,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        constants: Mapping[str, float] | None = None,
        log: Path | None = None,
    ) -> None:
        """Start it in a folder, with exactly these environment variables, by default the test's own.

        `constants` overrides constants of modules, such as timeouts. Its output goes to `log`, if given.
        """
        self._folder = TemporaryDirectory(prefix="tonnage-warm-")
        self._out, self._err = (log or Path(self._folder.name, name) for name in ("out", "err"))
        arguments = [str(word) for word in words]
        place = str(folder or Path.cwd())
        self._process = context.Process(
            target=_call,
            args=(
                arguments,
                place,
                dict(variables or os.environ),
                dict(constants or {}),
                str(self._out),
                str(self._err),
            ),
        )
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs; negative after a signal."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait until it ends, and return the exit status."""
        self._process.join(HANGS)
        status = self._process.exitcode
        assert status is not None, "it hangs"
        return status

    def said(self) -> Said:
        """Wait until it ends, and return its result."""
        status = self.wait()
        out, err = (path.read_text(errors="replace") for path in (self._out, self._err))
        assert "\nTraceback" not in f"\n{err}", err  # a task's own is quoted, behind our name
        return Said(status, out, err)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.poll() is None:
            self.kill()
        self._folder.cleanup()


def _call(
    words: list[str], folder: str, variables: dict[str, str], constants: dict[str, float], out: str, err: str
) -> None:
    """Run ``tonnage`` in the forked process."""
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        assert hasattr(import_module(module), constant), name
        setattr(import_module(module), constant, value)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for number, path in ((1, out), (2, err)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (open until the process ends)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    status = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
