"""Processes of attempts whose engine and minder were killed: found by the mark in their environment, and ended."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MARK", "end_orphans"]

MARK = "TONNAGE_ATTEMPT"
"""The variable that every process of an attempt has: the run's token and the attempt's number."""

_PATIENCE = 5.0
_PAUSE = 0.01


def end_orphans(token: str, attempt: int | None = None) -> int:
    """Kill every process that carries a run's token, or belongs to one attempt; return how many there were."""
    mark = f"{MARK}={token}:".encode() + (b"" if attempt is None else b"%d\0" % attempt)
    found: set[int] = set()
    deadline = time.monotonic() + _PATIENCE
    while living := list(_marked(mark)):  # one may have forked while we looked
        found.update(living)
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it ended, or has become another user's
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)
    return len(found)


def _marked(mark: bytes) -> Iterator[int]:
    own = os.getpid()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # another user's, or gone
        if int(folder.name) != own and (environment.startswith(mark) or b"\0" + mark in environment):
            yield int(folder.name)
