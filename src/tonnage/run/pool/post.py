"""The POST script of a node, where HTCondor itself does not know what to do with a job that had too little.

``post.sh RUNGS RETRIES JOB JOBID RETURN RETRY``, called by DAGMan: exit status 0: it is done; 1: try again; 2: give up.
It sees to it that a task which needs more is tried with all its sizes, and one that failed as often as the user said.
"""

import os
import re
import sys
from pathlib import Path

from tonnage.batch.htcondor.dag import EVENTS
from tonnage.logs.condor import exhausted_by
from tonnage.logs.condor_event import Event, events
from tonnage.logs.log import Log

__all__ = ["main"]

_DONE, _AGAIN, _GIVE_UP = 0, 1, 2
_OVER_LIMIT, _REMOVED, _NOT_FOUND = "124", "-1002", "127"
_TAIL = 1 << 20  # bytes at the end of the event log among which a job's last event is
_HELD = "012"


def main(words: list[str]) -> int:
    """Return what DAGMan is to do."""
    folder, rungs, retries, node, job, returned, retry = words
    if returned == "0":
        return _DONE
    if returned == _OVER_LIMIT or (returned == _REMOVED and _had_too_little(Path(folder), job)):
        return _AGAIN if int(retry) + 1 < int(rungs) else _GIVE_UP
    if returned in (_NOT_FOUND, _REMOVED):
        return _GIVE_UP
    return _AGAIN if _failed(Path(folder), node) <= int(retries) else _GIVE_UP


def _had_too_little(folder: Path, job: str) -> bool:
    """Whether a job was held because it took too much, and then removed."""
    cluster = int(job.partition(".")[0])
    try:
        with (folder / EVENTS).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return False
    found = [one for one in events(Log.of(text)) if isinstance(one, Event) and one.job[0] == cluster]
    held = [one for one in found if one.kind == _HELD]
    return bool(held) and exhausted_by(*held[-1].codes()) is not None


def _failed(folder: Path, node: str) -> int:
    """Note that a node has failed by itself, and return how often that was."""
    with (folder / "failures" / _safe(node)).open("ab") as file:
        file.write(b".")
        return file.tell()


def _safe(node: str) -> str:
    return re.sub(r"[^\w.-]", lambda found: f"%{ord(found[0]):x}", node)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
