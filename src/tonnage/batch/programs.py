"""Runs the programs of a batch system, one at a time, and interprets their failures."""

import logging
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from tonnage.errors import InputError, ProgramFailedError, SchedulerUnreachableError, TonnageError

__all__ = [
    "SECONDS",
    "ProgramTraits",
    "Programs",
]

SECONDS = 60.0
"""How many seconds a program may take: most stop waiting for a server after 9 to 100 seconds."""
_LARGEST = 1 << 28
"""The most bytes that a program may write: a hundred thousand jobs take a tenth of it."""
_PIECE = 1 << 20
_MOST_WORDS = 1 << 14
_LOOK_SECONDS = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProgramTraits:
    """How to interpret what the programs of a batch system print."""

    system: str
    """The system's name in messages."""
    silence: re.Pattern[str]
    """Matches what they print when their server does not respond."""
    hint: str
    """Hint for users without these programs: where to find them."""
    hesitation: str | None = None
    """What a program prints when it is about to wait for minutes."""


class Programs:
    """Runs programs and counts the calls: never through a shell, never without limits on time and output."""

    def __init__(self, traits: ProgramTraits) -> None:
        self._traits = traits
        self.calls: Counter[str] = Counter()
        """How many times each program was run."""

    def call(
        self,
        program: str,
        words: Iterable[str],
        environment: Mapping[str, str],
        *,
        stdin: str | None = None,
        seconds: float = SECONDS,
        held: Collection[int] = (),
        folder: str | None = None,
    ) -> tuple[str, str]:
        """Run a program in a folder, and return its standard output and standard error.

        It keeps the `held` descriptors open for as long as it runs, even if this process is killed.
        """
        self.calls[program] += 1
        began = time.monotonic()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write((stdin or "").encode(errors="surrogateescape"))
            given.seek(0)
            try:
                # In its own group, so that Ctrl-C does not interrupt a submission that may or may not have been made.
                process = subprocess.Popen(  # noqa: S603 (a batch system's own programs, no shell)
                    [program, *words],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=dict(environment),
                    process_group=0,
                    pass_fds=tuple(held),
                    cwd=folder,
                )
            except (FileNotFoundError, PermissionError):
                raise self._absent(program) from None
            with process:
                output = None
                try:
                    output = self._output(process, process.stdout, errors, seconds) if process.stdout else b""
                finally:
                    if output is None:
                        _kill(process.pid)
            message = _messages(errors)
        _log.debug("%s ended with status %s after %.2f s", program, process.returncode, time.monotonic() - began)
        if output is None:
            raise SchedulerUnreachableError(
                f"{program} has not answered after {time.monotonic() - began:.0f} s: {message or 'no output'}"
            )
        if process.returncode:
            if self._traits.silence.search(message):
                raise SchedulerUnreachableError(f"{self._traits.system} does not answer: {message}")
            raise ProgramFailedError(program, message or f"exit status {process.returncode}")
        return output.decode(errors="replace"), message

    def _output(
        self, process: subprocess.Popen[bytes], stream: IO[bytes], errors: IO[bytes], seconds: float
    ) -> bytes | None:
        """Return everything that a program prints; None if it takes too long, or reports that it will."""
        pieces: list[bytes] = []
        room, deadline = _LARGEST, time.monotonic() + seconds
        with selectors.DefaultSelector() as selector, suppress(subprocess.TimeoutExpired):
            selector.register(stream, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and not self._hesitates(errors):
                if not selector.select(min(left, _LOOK_SECONDS)):
                    continue
                pieces.append(os.read(stream.fileno(), _PIECE))
                if not pieces[-1]:
                    process.wait(left)
                    return b"".join(pieces)
                room -= len(pieces[-1])
                if room < 0:
                    raise TonnageError(f"{self._traits.system} printed more than {_LARGEST >> 20} MiB")
        return None

    def _hesitates(self, errors: IO[bytes]) -> bool:
        return self._traits.hesitation is not None and self._traits.hesitation in _messages(errors)

    def _absent(self, program: str) -> InputError:
        problem = f"{self._traits.system} is not available on this machine: {program} was not found"
        return InputError(problem, hint=self._traits.hint)


def _kill(group: int) -> None:
    """Kill a program and everything it started: at some sites sbatch is a script."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _messages(errors: IO[bytes]) -> str:
    """Return a program's error messages on one line, without its name in front of each."""
    # The program's writes share our file position, so read without moving it.
    lines = os.pread(errors.fileno(), _MOST_WORDS, 0).decode(errors="replace").splitlines()
    return "; ".join(dict.fromkeys(_bare(line) for line in lines if line.strip()))


def _bare(line: str) -> str:
    return re.sub(r"^\w+: (error: |fatal: )?", "", line.strip())
