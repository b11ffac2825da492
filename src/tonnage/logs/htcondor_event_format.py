"""One event of HTCondor's job event log, and how its text is parsed.

An event is a line ``005 (123.000.000) 2024-01-05 10:11:12 Job terminated.``, more lines, and a line of three dots.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo

from tonnage.jobs import Resource
from tonnage.logs.amounts import clock_seconds, moment
from tonnage.logs.classads import value
from tonnage.logs.log import Log, Skipped

__all__ = ["HEADER", "Event", "JobName", "Moment", "events"]

HEADER = re.compile(
    r"^(\d{3}) \((-?\d{1,18})\.(-?\d{1,18})\.(-?\d{1,18})\) (\d\d/\d\d|\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d\S*)",
    re.ASCII | re.MULTILINE,
)
"""How an event begins: its kind, its job, the date (before HTCondor 8.9 without its year) and the time."""
JobName = tuple[int, int, int]

_WITH_REASON = ("007", "009", "012", "022", "024")  # events whose second line is a reason
_END = "..."
_LONGEST = 2**20  # characters kept of an event: none is this long, unless the file is damaged
_KIB, _MIB, _DAY = 2**10, 2**20, 86400.0
_LEAP_YEAR = "2024"  # used for dates without a year: every date exists in it
_MARCH = 1709251200.0  # its 1st of March

_ATTRIBUTE = re.compile(r"^[ \t]+([A-Za-z_]\w*) = (.*)$", re.MULTILINE)
_NOTE = re.compile(r'\b(\w+) = "((?:[^"\\]|\\.)*)"')
_ALIAS = re.compile(r"[?&]alias=([^&>\s]+)")
_ADDRESS = re.compile(r"host: <\[?([\w.:-]+?)\]?:\d+[?>]", re.ASCII)
_SLOT = re.compile(r"^[ \t]*SlotName: \"?(?:\S*@)?([^\s@\"]+)", re.MULTILINE)
_CODES = re.compile(r"\bCode (\d{1,9}) Subcode (-?\d{1,9})", re.ASCII)
_EXIT = re.compile(
    r"\) Normal termination \(return value (-?\d{1,9})\)|\) Abnormal termination \(signal (\d{1,9})\)", re.ASCII
)
_CPU = re.compile(r"Usr (\d{1,9}) (\d\d:\d\d:\d\d), Sys (\d{1,9}) (\d\d:\d\d:\d\d)  -  Run Remote Usage", re.ASCII)
_GREW_TO = re.compile(r"^[ \t]*(\d{1,18})  -  (MemoryUsage|ResidentSetSize) of job", re.MULTILINE | re.ASCII)
_LIMIT = re.compile(r"memory limit of (\d{1,9}) megabytes", re.ASCII)
_TABLE = re.compile(r"^[ \t]*Partitionable Resources[ \t]*:(.*)$", re.MULTILINE)
_CELL = re.compile(r"\S+")
_COLUMNS = {"Usage": "{}Usage", "Request": "Request{}", "Allocated": "{}"}
_ENFORCED = {"Memory": Resource.MEMORY, "Disk": Resource.DISK}


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time; without its year it can only be used for durations."""

    seconds: float
    has_year: bool

    @property
    def known(self) -> float | None:
        """The seconds since 1970, or None if the year is unknown."""
        return self.seconds if self.has_year else None

    def until(self, end: "Moment") -> float | None:
        """Return the seconds between two moments, or None if unknown."""
        seconds = end.seconds - self.seconds
        if self.has_year or end.has_year:
            return seconds if self.has_year and end.has_year and seconds >= 0 else None
        if seconds < 0:  # over New Year
            seconds += 366 * _DAY
        if self.seconds < _MARCH - _DAY and end.seconds >= _MARCH:  # most years have no 29th of February
            seconds -= _DAY
        return seconds if seconds < 180 * _DAY else None  # anything longer means that a clock was set back


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a job: the text of the event, and methods to parse it."""

    line: int
    kind: str
    job: JobName
    date: str
    text: str

    def moment(self, zone: tzinfo) -> Moment:
        """Return when it happened."""
        has_year = "/" not in self.date
        date = self.date if has_year else f"{_LEAP_YEAR}-{self.date.replace('/', '-')}"
        return Moment(moment(date, "the date", zone if has_year else UTC) or 0.0, has_year)

    def codes(self) -> tuple[int | None, int | None]:
        """Return the code and subcode of a hold or an eviction, which follow its reason."""
        found = _CODES.findall(self.text)
        return (int(found[-1][0]), int(found[-1][1])) if found else (None, None)

    def reason(self) -> str:
        """Return why it happened, in HTCondor's words; empty if it does not say."""
        lines = [line.strip() for line in self.text.split("\n")[1:]]
        labelled = next((line for line in lines if line.startswith("Reason: ")), None)
        if labelled is not None:
            return labelled.removeprefix("Reason: ")
        if self.kind not in _WITH_REASON:
            return ""
        return next((line for line in lines if line and not line.startswith(("(", "Code "))), "")

    def exit(self) -> tuple[int | None, int | None] | None:
        """Return the exit status or the signal if the job ended by itself, else None."""
        found = _EXIT.search(self.text)
        if not found:
            return None
        return (int(found[1]), None) if found[1] else (None, int(found[2]))

    def host(self) -> str | None:
        """Return the name, or else the address, of the machine where it runs or was submitted from."""
        found = _SLOT.search(self.text) or _ALIAS.search(self.text) or _ADDRESS.search(self.text)
        return found[1] if found else None

    def alias(self) -> str | None:
        """Return the name of the machine that an address belongs to."""
        found = _ALIAS.search(self.text.split("\n", 1)[0])
        return found[1] if found else None

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the execution that this event ended."""
        found = _CPU.search(self.text)
        if not found:
            return None
        user, system = (
            clock_seconds(time, "CPU time") or 0.0 for time in (f"{found[1]}-{found[2]}", f"{found[3]}-{found[4]}")
        )
        return user + system

    def grown_to(self) -> float:
        """Return the memory in bytes to which a job has grown; 0 if unknown."""
        found = {name: float(digits) for digits, name in _GREW_TO.findall(self.text)}
        return found.get("ResidentSetSize", 0.0) * _KIB or found.get("MemoryUsage", 0.0) * _MIB

    def memory_limit(self) -> float | None:
        """Return the memory limit in bytes that a job was held for exceeding."""
        found = _LIMIT.search(self.text)
        return float(found[1]) * _MIB if found else None

    def notes(self) -> dict[str, str]:
        """Return the notes of a submission; DAGMan puts the name of its node there, as a line or as a ClassAd."""
        notes: dict[str, str] = {}
        for line in self.text.split("\n")[1:]:
            text = line.strip()
            if text.startswith("["):
                notes |= {name: re.sub(r"\\(.)", r"\1", string) for name, string in _NOTE.findall(text)}
            elif text.startswith("DAG Node: "):
                notes["DAGNodeName"] = text.removeprefix("DAG Node: ").strip()
            elif text:
                notes.setdefault("LogNotes", text)
        return notes

    def attributes(self) -> dict[str, object]:
        """Return the attributes that an event lists as ``Name = value`` lines."""
        return {name: value(text) for name, text in _ATTRIBUTE.findall(self.text)}

    def resources(self) -> dict[str, object]:
        """Return the table of resources by HTCondor's attribute names: MemoryUsage, RequestMemory, Memory."""
        header = _TABLE.search(self.text)
        if not header:
            return {}
        columns = [(cell.end(), cell[0]) for cell in _CELL.finditer(header[1]) if cell[0] in _COLUMNS]
        # Assigned items (names of GPUs) follow the amounts, and begin below the name of their column.
        assigned = header[1].find("Assigned") if "Assigned" in header[1] else None
        found: dict[str, object] = {}
        for line in self.text[header.end() :].split("\n")[1:]:
            label, colon, row = line.partition(":")
            if not colon or not label.strip():
                break
            for column, cell in _cells(row[:assigned], columns):
                found[_COLUMNS[column].format(label.split()[0])] = value(cell)
        return found

    def exceeded(self) -> Resource | None:
        """Return the resource that exceeded its allocation, according to the table of resources."""
        table = self.resources()
        for name, resource in _ENFORCED.items():
            used, given = table.get(f"{name}Usage"), table.get(name)
            if isinstance(used, int | float) and isinstance(given, int | float) and used > given:
                return resource
        return None


def _cells(row: str, columns: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    """Yield the cells of a row: they are aligned with the ends of the columns' names, and any can be empty."""
    cells = list(_CELL.finditer(row))
    if len(cells) == len(columns):  # in old logs they can be wider than their columns
        yield from zip((name for _, name in columns), (cell[0] for cell in cells), strict=True)
        return
    for cell in cells:
        if column := next((name for end, name in columns if cell.end() <= end), None):
            yield column, cell[0]


def events(log: Log) -> Iterator[Event | Skipped]:
    """Yield the events of a log."""
    begin, size, lines = 1, 0, list[str]()
    for number, line in enumerate(log.lines(), start=1):
        if line.rstrip() == _END:
            if lines:
                yield _event(begin, lines)
            size, lines = 0, []
            continue
        if lines and line[:1].isdigit() and HEADER.match(line):  # the writer of the last one died
            yield Skipped(begin, "the event is incomplete", lines[0][:80])
            size, lines = 0, []
        if not lines and not line.strip():
            continue
        begin, size = begin if lines else number, size + 1 + len(line)
        if not lines or size <= _LONGEST:
            lines.append(line)
    if lines:
        yield Skipped(begin, "the event is incomplete", lines[0][:80])


def _event(begin: int, lines: list[str]) -> Event | Skipped:
    found = HEADER.match(lines[0])
    if not found:
        return Skipped(begin, "is not an event", lines[0][:80])
    kind, cluster, proc, subproc, day, time = found.groups()
    return Event(begin, kind, (int(cluster), int(proc), int(subproc)), f"{day} {time}", "\n".join(lines))
