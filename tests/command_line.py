"""The command line, called within the test's own process: a separate process costs half a second of CPU."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import click

from tonnage.cli import main, tonnage

__all__ = ["NEED_A_PROCESS", "Call", "CommandLine", "Said", "verbs"]

NEED_A_PROCESS = ("run", "serve", "watch")  # these change their process: signals, children, threads
_HARMLESS = ("--help", "--dry-run")


@dataclass(frozen=True)
class Said:
    """The result of one call of the command line."""

    status: int
    stdout: str
    stderr: str

    @property
    def facts(self) -> dict[str, Any]:
        """The parsed output of --json."""
        facts: dict[str, Any] = json.loads(self.stdout)
        assert facts["schema"] == 1
        return facts


Call = Callable[..., Said]


class CommandLine:
    """Calls ``tonnage`` as a shell would: in a folder, with an environment, and with its own streams."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """Make calls in this folder, with these variables changed."""
        self.folder = folder
        self.variables = dict(variables)

    def __call__(self, *words: object, stdin: str | bytes = "", status: int | None = 0) -> Said:
        """Call a verb and check its exit status; None accepts any."""
        texts = [str(word) for word in words]
        assert texts[0] not in NEED_A_PROCESS or set(texts) & set(_HARMLESS), f"{texts[0]} needs a process of its own"
        with ExitStack() as stack:
            given = stack.enter_context(_file(stdin.encode() if isinstance(stdin, str) else stdin))
            out, err = (stack.enter_context(_file()) for _ in range(2))
            stack.enter_context(_inside(self.folder, self.variables))
            with _streams(given, out, err):
                found = main(texts)
            said = Said(found, _content(out), _content(err))
        assert "Traceback" not in said.stderr, said.stderr
        assert status is None or said.status == status, said.stderr
        return said


@contextmanager
def _file(content: bytes = b"") -> Iterator[IO[bytes]]:
    with TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


@contextmanager
def _inside(folder: Path, variables: Mapping[str, str]) -> Iterator[None]:
    before, here = dict(os.environ), Path.cwd()
    os.chdir(folder)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)


@contextmanager
def _streams(*files: IO[bytes]) -> Iterator[None]:
    """Redirect the standard streams to files, also for processes started meanwhile."""
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in range(3)]
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (closed below; not a path)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    try:
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


def verbs(command: click.Command = tonnage, name: str = "") -> list[tuple[str, click.Command]]:
    """Return every verb by its name; verbs of groups have two words: ``archive import``."""
    if not isinstance(command, click.Group):
        return [(name, command)]
    context = click.Context(command)
    inner = [(one, command.get_command(context, one)) for one in command.list_commands(context)]
    return [entry for one, verb in inner if verb for entry in verbs(verb, f"{name} {one}".strip())]
