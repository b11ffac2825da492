"""The POST script of a node, which decides whether DAGMan retries it.

``post.sh RETURN RETRY JOBID NUMBER MEMORY DISK RETRIES KILLS`` is called by DAGMan. Its exit status is 0 if the node is
done, 1 to retry it, 2 if it failed for good. MEMORY and DISK are the numbers of sizes to try, RETRIES and KILLS how
often it is retried after a failure and after being killed from outside. A task that needs more is tried with all its
sizes; one that was removed is not retried.
"""

import mmap
import sys
from datetime import UTC
from pathlib import Path

from tonnage.atomic import private_opener
from tonnage.batch.htcondor.dag import EVENTS
from tonnage.jobs import Attempt, Resource
from tonnage.logs.htcondor_event_format import Event, events
from tonnage.logs.htcondor_events import Queue
from tonnage.logs.log import Log
from tonnage.run.backends.htcondor.verdicts import summary_in
from tonnage.run.retry_rules import was_killed_from_outside

__all__ = ["main"]

_DONE, _RETRY, _FAIL = 0, 1, 2
_REMOVED, _NOT_FOUND = "-1002", "127"
_KINDS = ("001", "004", "009", "012")


def main(words: list[str]) -> int:
    """Return the exit status that tells DAGMan what to do."""
    place, returned, retry, job, number, memory, disk, retries, kills = words
    if returned == "0":
        return _DONE
    folder, cluster = Path(place), int(job.partition(".")[0])
    rungs = {Resource.MEMORY: int(memory), Resource.DISK: int(disk)}
    # The monitor's summary decides: an exit status alone may come from the command itself.
    monitor = summary_in(folder / "summaries" / f"{number}.{cluster}")
    lacked = _removed_for(folder, cluster) if returned == _REMOVED else monitor.exhausted if monitor else None
    if lacked is not None:
        return _RETRY if int(retry) + 1 < rungs.get(lacked, 1) else _FAIL
    if returned in (_NOT_FOUND, _REMOVED):
        return _FAIL
    signals = -int(returned), monitor.signal if monitor else None  # DAGMan writes a signal as a negative number
    killed = any(map(was_killed_from_outside, signals))
    if retry == "0":  # DAGMan has just started it, perhaps from a rescue DAG: earlier failures do not count
        for notes in ("kills", "failures"):
            (folder / notes / number).unlink(missing_ok=True)
    notes, allowed = ("kills", kills) if killed else ("failures", retries)
    return _RETRY if _counted(folder / notes / number) <= int(allowed) else _FAIL


def _removed_for(folder: Path, cluster: int) -> Resource | None:
    """Return the resource because of which the pool held or evicted a job before it was removed."""
    queue = Queue(UTC)
    last = [entry for event in _last_events(folder / EVENTS, cluster) for entry in queue.take(event)]
    return next((one.exhausted for one in reversed(last) if isinstance(one, Attempt)), None)


def _last_events(path: Path, cluster: int) -> list[Event]:
    """Return the last start, eviction, hold and removal of a job in their order, without parsing a huge log."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            begins = sorted(log.rfind(f"\n{kind} ({cluster:03}.".encode()) for kind in _KINDS)
            found = [log[begin + 1 : log.find(b"\n...", begin) + 5] for begin in begins if begin >= 0]
    except (OSError, ValueError):  # there is none, or it is empty
        return []
    text = b"".join(found).decode(errors="replace")
    return [one for one in events(Log.of(text)) if isinstance(one, Event)]


def _counted(notes: Path) -> int:
    """Record that a node failed or was killed; return how often that happened since DAGMan started it."""
    with open(notes, "ab", opener=private_opener) as file:
        file.write(b".")
        return file.tell()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
