"""Slurm's own programs, called one at a time: how they run, and what their silence means."""

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
from typing import IO

from tonnage.batch.scheduler import UnreachableError
from tonnage.errors import InputError, TonnageError

__all__ = ["Client", "RefusalError"]

_SECONDS = 60.0
"""Slurm's programs give up on a controller themselves after 9 to 100 seconds."""
_LARGEST = 1 << 28
"""Bytes that a program may write: a hundred thousand jobs are a tenth of it."""
_PIECE = 1 << 20
_MOST_WORDS = 1 << 14
_LOOK_SECONDS = 0.5
_RETRYING = "sleeping and retrying"
"""What sbatch says where the queue is full: it would hold us up for two minutes."""

_ADDRESSED = ("SLURM_CONF", "SLURM_CONF_SERVER")
"""Where the cluster is; all other variables change what programs do, print or submit."""
_MEANT_FOR_SLURM = re.compile(r"(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SINFO|SACCT|SACCTMGR|SCONTROL|SCANCEL)_\w*")
_PLAIN = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Times in seconds since 1970, and lists of an array's elements in full."""

_SILENCE = re.compile(
    "|".join(
        [
            "Unable to contact slurm controller",
            "Socket timed out",
            "Zero Bytes were transmitted",
            "Communication (connection|shutdown|receive|send) (failure|error)",
            "Connection (refused|reset|timed out)",
            "No route to host|Network is unreachable|Transport endpoint is not connected",
            "backup controller in standby mode",
            "failed to open persistent connection|Problem talking to the database|Unable to connect to database",
            "Munge (encode|decode) failed|[Aa]uthentication (error|credential)",
            "Could not establish a configuration source|Failed to fetch (remote )?config",
            "Unable to establish (control|controller|configuration)",
            "Resource temporarily unavailable",
        ]
    )
)


class RefusalError(TonnageError):
    """A program of Slurm ended with an error that is none of the network's."""

    def __init__(self, program: str, said: str) -> None:
        super().__init__(f"{program}: {said}")
        self.said = said
        """In its own words."""


class Client:
    """Runs Slurm's programs, and counts how often: never a shell, never without a limit of time and of output."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        own = os.environ if environment is None else environment
        kept = {name: value for name, value in own.items() if not _MEANT_FOR_SLURM.fullmatch(name)}
        # A job takes over the environment of sbatch, which should be the user's.
        self._theirs = kept | {name: own[name] for name in _ADDRESSED if name in own}
        self._ours = self._theirs | _PLAIN
        self.calls: Counter[str] = Counter()
        """How many times each program was run."""

    def run(self, program: str, *words: str, stdin: str | None = None, seconds: float = _SECONDS) -> str:
        """Run a program that only asks, and return what it printed."""
        return self._run(program, words, self._ours, stdin, seconds)[0]

    def words(self, program: str, *words: str, stdin: str | None = None, seconds: float = _SECONDS) -> str:
        """Run a program that only asks, and return what it wrote on standard error."""
        return self._run(program, words, self._ours, stdin, seconds)[1]

    def submit(self, *words: str, held: Collection[int] = (), seconds: float = _SECONDS) -> str:
        """Run sbatch in the user's own environment, which the job will have, and return what it printed.

        It holds some descriptors open for as long as it runs, even if we do not.
        """
        return self._run("sbatch", words, self._theirs, None, seconds, held)[0]

    def _run(
        self,
        program: str,
        words: Iterable[str],
        environment: Mapping[str, str],
        stdin: str | None,
        seconds: float,
        held: Collection[int] = (),
    ) -> tuple[str, str]:
        self.calls[program] += 1
        began = time.monotonic()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write((stdin or "").encode(errors="surrogateescape"))
            given.seek(0)
            try:
                # A group of its own, so that Ctrl-C does not cut off a submission that was made, or perhaps not.
                process = subprocess.Popen(  # noqa: S603 (Slurm's own programs, no shell)
                    [program, *words],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=dict(environment),
                    process_group=0,
                    pass_fds=tuple(held),
                )
            except (FileNotFoundError, PermissionError):
                raise _absent(program) from None
            with process:
                output = None
                try:
                    output = _output(process, process.stdout, errors, seconds) if process.stdout else b""
                finally:
                    if output is None:
                        _kill(process.pid)
            said = _said(errors)
        if output is None:
            raise UnreachableError(
                f"{program} has no answer after {time.monotonic() - began:.0f} s: {said or 'silence'}"
            )
        if process.returncode:
            if _SILENCE.search(said):
                raise UnreachableError(f"Slurm does not answer: {said}")
            raise RefusalError(program, said or f"it ended with status {process.returncode}")
        return output.decode(errors="replace"), said


def _kill(group: int) -> None:
    """Kill a program and what it has started: at some sites sbatch is a script."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _output(process: subprocess.Popen[bytes], stream: IO[bytes], errors: IO[bytes], seconds: float) -> bytes | None:
    """Return all that a program prints until it ends; None where it takes too long, or says that it will."""
    pieces: list[bytes] = []
    room, deadline = _LARGEST, time.monotonic() + seconds
    with selectors.DefaultSelector() as selector, suppress(subprocess.TimeoutExpired):
        selector.register(stream, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and _RETRYING not in _said(errors):
            if not selector.select(min(left, _LOOK_SECONDS)):
                continue
            pieces.append(os.read(stream.fileno(), _PIECE))
            if not pieces[-1]:
                process.wait(left)
                return b"".join(pieces)
            room -= len(pieces[-1])
            if room < 0:
                raise TonnageError(f"Slurm prints more than {_LARGEST >> 20} MiB")
    return None


def _said(errors: IO[bytes]) -> str:
    """Return the words of a program on one line, each without the name of the program before it."""
    # A program goes on writing where we stop reading, unless reading moves nothing.
    lines = os.pread(errors.fileno(), _MOST_WORDS, 0).decode(errors="replace").splitlines()
    return "; ".join(dict.fromkeys(_bare(line) for line in lines if line.strip()))


def _bare(line: str) -> str:
    return re.sub(r"^\w+: (error: |fatal: )?", "", line.strip())


def _absent(program: str) -> InputError:
    return InputError(
        f"Slurm is not on this machine: there is no {program}",
        hint="call tonnage on a login node of the cluster, or where Slurm's programs are on the PATH",
    )
