"""The programs of a batch system, called one at a time: how they run, and what their silence means."""

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

from tonnage.batch.scheduler import UnreachableError
from tonnage.errors import InputError, TonnageError

__all__ = ["SECONDS", "ProgramTraits", "Programs", "RefusalError"]

SECONDS = 60.0
"""How long a program may take: most give up on a server themselves after 9 to 100 seconds."""
_LARGEST = 1 << 28
"""Bytes that a program may write: a hundred thousand jobs are a tenth of it."""
_PIECE = 1 << 20
_MOST_WORDS = 1 << 14
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ProgramTraits:
    """How the programs of a batch system say what they say."""

    system: str
    """What people call it."""
    silence: re.Pattern[str]
    """What they say where nobody answers them."""
    hint: str
    """Where they are to be found, for who does not have them."""
    hesitation: str | None = None
    """What one says that would hold us up for minutes."""


class RefusalError(TonnageError):
    """A program of a batch system ended with an error that is none of the network's."""

    def __init__(self, program: str, said: str) -> None:
        super().__init__(f"{program}: {said}")
        self.said = said
        """In its own words."""


class Programs:
    """Runs programs, and counts how often: never a shell, never without a limit of time and of output."""

    def __init__(self, manners: ProgramTraits) -> None:
        self._traits = manners
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
        """Run a program in a folder, and return what it printed, and what it wrote on standard error.

        It holds some descriptors open for as long as it runs, even if we do not.
        """
        self.calls[program] += 1
        began = time.monotonic()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write((stdin or "").encode(errors="surrogateescape"))
            given.seek(0)
            try:
                # A group of its own, so that Ctrl-C does not cut off a submission that was made, or perhaps not.
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
            said = _said(errors)
        if output is None:
            raise UnreachableError(
                f"{program} has no answer after {time.monotonic() - began:.0f} s: {said or 'silence'}"
            )
        if process.returncode:
            if self._traits.silence.search(said):
                raise UnreachableError(f"{self._traits.system} does not answer: {said}")
            raise RefusalError(program, said or f"it ended with status {process.returncode}")
        return output.decode(errors="replace"), said

    def _output(
        self, process: subprocess.Popen[bytes], stream: IO[bytes], errors: IO[bytes], seconds: float
    ) -> bytes | None:
        """Return all that a program prints until it ends; None where it takes too long, or says that it will."""
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
                    raise TonnageError(f"{self._traits.system} prints more than {_LARGEST >> 20} MiB")
        return None

    def _hesitates(self, errors: IO[bytes]) -> bool:
        return self._traits.hesitation is not None and self._traits.hesitation in _said(errors)

    def _absent(self, program: str) -> InputError:
        problem = f"{self._traits.system} is not on this machine: there is no {program}"
        return InputError(problem, hint=self._traits.hint)


def _kill(group: int) -> None:
    """Kill a program and what it has started: at some sites sbatch is a script."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _said(errors: IO[bytes]) -> str:
    """Return the words of a program on one line, each without the name of the program before it."""
    # A program goes on writing where we stop reading, unless reading moves nothing.
    lines = os.pread(errors.fileno(), _MOST_WORDS, 0).decode(errors="replace").splitlines()
    return "; ".join(dict.fromkeys(_bare(line) for line in lines if line.strip()))


def _bare(line: str) -> str:
    return re.sub(r"^\w+: (error: |fatal: )?", "", line.strip())
