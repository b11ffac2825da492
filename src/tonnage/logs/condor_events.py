"""HTCondor's job event log, the file that a submit description names with ``log = ...``, in its plain form.

Each execution of a job is an attempt: what was evicted and started again is two of them. An execution ends with the
event that says so, but why it ended may stand in the next one: an eviction is followed by the hold that caused it. So
an execution that was stopped is kept until the job's next event. Of a job only what its next attempt needs is kept,
and nothing once it has left the queue.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.amounts import clock_seconds, moment, number
from tonnage.logs.classads import ClassAd, value
from tonnage.logs.condor import exhausted_by
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError

__all__ = ["read", "recognises"]

_KIB, _MIB = 2**10, 2**20
_HEADER = re.compile(
    r"(?P<kind>\d{3}) \((?P<cluster>-?\d+)\.(?P<proc>-?\d+)\.(?P<subproc>-?\d+)\) "
    r"(?P<date>\d\d/\d\d|\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d\S*) ?(?P<title>.*)",
    re.ASCII,
)
_OTHER_FORMS = {"<": "XML", "{": "JSON", "[": "JSON"}
_END = "..."
_LONGEST = 2**20  # letters of one event that are kept: what no real event has

_SUBMITTED, _STARTED, _EVICTED, _TERMINATED, _GREW, _SHADOW_FAILED = "000", "001", "004", "005", "006", "007"
_ABORTED, _HELD, _RECONNECT_FAILED, _AD = "009", "012", "024", "028"
_STOPPED = {_EVICTED: Outcome.PREEMPTED, _SHADOW_FAILED: Outcome.LOST, _RECONNECT_FAILED: Outcome.LOST}
_HELD_BY_USER = 1

_ATTRIBUTE = re.compile(r"^\s*([A-Za-z_]\w*) = (.*)$", re.MULTILINE)
_NOTE = re.compile(r"(\w+) = (\"(?:[^\"\\]|\\.)*\")")
_BATCH = re.compile(r"(.+)\+(\d+)")
_ADDRESS = re.compile(r"<\[?([^\s>?]+?)\]?(?::\d+)?(?:\?[^\s>]*?alias=([^\s>&]+)[^\s>]*|\?[^\s>]*)?>")
_SLOT = re.compile(r"^\s*SlotName: \"?(?:\S*@)?([^\s@\"]+)", re.MULTILINE)
_CODES = re.compile(r"\bCode (\d{1,9}) Subcode (-?\d{1,9})")
_EXIT = re.compile(r"\) Normal termination \(return value (-?\d{1,9})\)|\) Abnormal termination \(signal (\d{1,9})\)")
_CPU = re.compile(r"Usr (\d+) (\d+:\d+:\d+), Sys (\d+) (\d+:\d+:\d+)  -  Run Remote Usage", re.ASCII)
_GROWN = re.compile(r"^\s*(\d+)  -  (MemoryUsage|ResidentSetSize) of job", re.MULTILINE | re.ASCII)
_LIMIT = re.compile(r"memory limit of (\d+) megabytes", re.ASCII)
_TABLE = re.compile(r"\s*Partitionable Resources\s*:(.*)")
_TYPED = ("Cpus", "Memory", "Disk")


def recognises(head: str, path: object) -> bool:  # noqa: ARG001
    """Whether the text begins with an event; those of the other forms are recognised so that the reader can say so."""
    start = head.lstrip()[:1]
    if start in _OTHER_FORMS:
        return "EventTypeNumber" in head
    return _HEADER.fullmatch(head.lstrip().split("\n", 1)[0].rstrip("\r")) is not None


@dataclass(frozen=True, slots=True)
class _Event:
    """One event: its kind, its job and all of its text."""

    line: int
    kind: str
    job: tuple[int, int, int]
    date: str
    text: str

    @property
    def title(self) -> str:
        return self.text.split("\n", 1)[0]

    def codes(self) -> tuple[int | None, int | None]:
        found = _CODES.search(self.text)
        return (int(found[1]), int(found[2])) if found else (None, None)

    def when(self, zone: tzinfo) -> float | None:
        """Return the moment; a date without a year is in the year that `_Clock` gives it."""
        return moment(self.date, "the date", zone)
