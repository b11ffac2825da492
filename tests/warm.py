"""The command line in processes of its own that need not import anything: each is forked from one that has.

To start Python and to load what a run needs takes half a second, ten times as long as a small run itself. What is
forked behaves as ``python -m tonnage`` does; a test that looks at how a process starts, or that signals it, starts one.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from struct import Struct
from tempfile import TemporaryFile
from typing import IO

from deadlines import HANGS

__all__ = ["call"]

_NUMBER = Struct("=i")
_NEEDED = ("cli.views", "run.local", "run.preparing", "run.previews", "run.progress", "run.running")
_NEEDED_OF_OTHERS = ("rich.console", "rich.table", "sqlalchemy.dialects.sqlite")
_source: "_Source | None" = None


def call(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], input: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run ``tonnage`` to its end, as `subprocess.run` does."""
    global _source  # noqa: PLW0603 (one for all tests of this process)
    if _source is None:
        _source = _Source()
        atexit.register(_source.close)
    with TemporaryFile() as order, TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        order.write(json.dumps({"words": words, "cwd": os.fspath(cwd), "env": dict(env)}).encode())
        given.write(input.encode())
        for file in (order, given):
            file.seek(0)
        status = _source.call(order, given, out, err)
        return subprocess.CompletedProcess(words, status, _content(out), _content(err))


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


class _Source:
    """The process that the others are forked from."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair()
        with theirs:
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # so that it has one thread, and can be forked
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        self._connection.settimeout(HANGS)

    def call(self, *files: IO[bytes]) -> int:
        """Have a process forked that has its order, and its three streams, in files; return its exit status."""
        socket.send_fds(self._connection, [b"x"], [file.fileno() for file in files])
        pid = self._number()
        try:
            return self._number()
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._number()
            raise

    def _number(self) -> int:
        number: int = _NUMBER.unpack(self._connection.recv(_NUMBER.size, socket.MSG_WAITALL))[0]
        return number

    def close(self) -> None:
        self._connection.close()
        self._process.wait()


def _serve(connection: socket.socket) -> None:
    """Fork a process for each order until nobody is left to give one."""
    for name in (*(f"tonnage.{one}" for one in _NEEDED), *_NEEDED_OF_OTHERS):
        import_module(name)
    gc.freeze()
    while descriptors := socket.recv_fds(connection, 1, 4)[1]:
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(_NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(order: int, *streams: int) -> None:
    """Be a process that has just been started, and leave with its exit status."""
    with open(order) as file:
        told = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["env"])
    sys.argv = ["tonnage", *told["words"]]
    sys.path.pop(0)  # the folder of this file
    from tonnage.__main__ import main

    main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
