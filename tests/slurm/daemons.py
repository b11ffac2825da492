"""Daemons that run for as long as a test wants them, and ports for them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.deadlines import HANGS
from tests.waiting import until

__all__ = ["LOOPBACK", "Daemon", "Ports", "answers"]

LOOPBACK = "127.0.0.1"
_SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Daemon:
    """One daemon in the foreground, and below the same supervisor whatever it starts."""

    def __init__(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        self.name = Path(command[0]).name
        self.output = output
        with output.open("ab") as file:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, **environment},
                cwd="/",
                start_new_session=True,  # what ends the test's process group must leave us time to clean up
            )
        self._process: int | None = None

    @property
    def process(self) -> int:
        """The daemon's process id."""
        if self._process is None:
            assert self._supervisor.stdout is not None
            line = self._supervisor.stdout.readline()
            if not line:
                raise RuntimeError(f"{self.name} did not start: {self.left_results()}")
            self._process = int(line)
        return self._process

    @property
    def runs(self) -> bool:
        """Whether the daemon itself is there."""
        return Path(f"/proc/{self.process}").exists()  # its supervisor is its parent and leaves no zombie

    def when(self, condition: Callable[[], bool]) -> Callable[[], bool]:
        """Return the condition as one that fails at once where the daemon has ended."""

        def checked() -> bool:
            if not self.runs:
                raise RuntimeError(f"{self.name} ended: {self.left_results()}")
            return condition()

        return checked

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the daemon alone and wait for its end; what it started lives on."""
        with suppress(ProcessLookupError):
            os.kill(self.process, number)
        until(lambda: not self.runs, f"the end of {self.name}")

    def let_go(self) -> None:
        """Ask for the end of the daemon and of all that came of it, without waiting."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()

    def kill(self) -> None:
        """End the daemon and all that came of it."""
        self.let_go()
        self._supervisor.wait()
        assert self._supervisor.stdout is not None
        self._supervisor.stdout.close()

    def left_results(self) -> str:
        """Return what it wrote last, for a message."""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-5:])


class Ports:
    """Free ports that stay ours, also while a daemon is down.

    A socket that is bound but does not listen keeps the kernel from giving its port to anyone else, and a daemon may
    listen there nevertheless, since both say SO_REUSEADDR: we only after binding, so that two of us cannot share one.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def new(self) -> int:
        held = socket.socket()
        self._sockets.append(held)
        held.bind(("", 0))  # on every address, as Slurm's daemons do
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port: int = held.getsockname()[1]
        return port

    def close(self) -> None:
        for held in self._sockets:
            held.close()
        self._sockets.clear()


def answers(port: int) -> bool:
    """Whether somebody listens on a port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=HANGS).close()
    except OSError:
        return False
    return True
