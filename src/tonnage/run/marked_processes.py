"""The processes of attempts, found by the mark in their environment: to follow them, or to end what a crash left."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MARK", "end_orphans", "processes_of"]

MARK = "TONNAGE_ATTEMPT"
"""The environment variable of all processes of an attempt: the run's token and the attempt's number."""

_UNTIL_ORPHANS_END = 5.0
_PAUSE = 0.01


def end_orphans(token: str, attempt: int | None = None) -> int:
    """Kill all processes marked with a run's token, or only those of one attempt; return how many there were."""
    found: set[int] = set()
    deadline = time.monotonic() + _UNTIL_ORPHANS_END
    while living := list(processes_of(token, attempt)):  # one may have forked during the search
        found.update(living)
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it has ended, or now belongs to another user
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)
    return len(found)


def processes_of(token: str, attempt: int | None = None) -> Iterator[int]:
    """Yield the processes on this machine that are marked with a run's token, or only those of one attempt."""
    mark = f"{MARK}={token}:".encode() + (b"" if attempt is None else b"%d\0" % attempt)
    own = os.getpid()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # it belongs to another user, or is gone
        if int(folder.name) != own and (environment.startswith(mark) or b"\0" + mark in environment):
            yield int(folder.name)
