"""Tables of jobs (CSV): a header that names the columns, then one job a row.

The columns have the names of the public data sets: ``category, cores, memory, disk, cpu_time, wall_time``; `NAMES`
lists all that are understood, and `--columns memory=peak_mem` says what others are called. Memory and disk are in MB
(10^6 bytes) and times in seconds unless a unit stands in the header (``memory (KiB)``) or in the cell (``1.5 GB``), or
is given with `--units memory=KiB`.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import tzinfo

from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.amounts import is_unknown, moment, number, whole
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError
from tonnage.units import parse_bytes, parse_seconds

__all__ = ["NAMES", "read", "recognises"]

_AMOUNTS = ("cores", "memory", "disk", "wall_time", "cpu_time", "processes")
_TEXTS = ("category", "label", "task", "run", "workflow", "user", "host", "command", "executable", "memory_method")
_MOMENTS = ("submitted", "started", "ended")
_BYTES = ("memory", "disk")
_SECONDS = ("wall_time", "cpu_time")
_INPUT = "input_size"
_MB = 10**6

NAMES = (
    *_AMOUNTS,
    *(f"{kind}_{name}" for kind in ("requested", "allocated") for name in _AMOUNTS[:4]),
    _INPUT,
    *_TEXTS,
    *_MOMENTS,
    "outcome",
    "exhausted",
    "exit_status",
    "signal",
    "number",
    "native_id",
)
"""The names that columns have here."""

# How else people call them.
_OTHER_NAMES = {
    "time": "wall_time",
    "runtime": "wall_time",
    "walltime": "wall_time",
    "cputime": "cpu_time",
    "input_bytes": _INPUT,
    "input_size_bytes": _INPUT,
    "mem": "memory",
    "name": "task",
    "exit_code": "exit_status",
}
_HEADER_UNIT = re.compile(r"(.+?)\s*[\[(]\s*([A-Za-z]+)\s*[\])]")
_DELIMITERS = ",\t;"
_CLOSED_LISTS: dict[str, type[Outcome] | type[Resource]] = {"outcome": Outcome, "exhausted": Resource}
_Cell = Callable[[str], object]


def recognises(head: str, path: object) -> bool:  # noqa: ARG001
    """Whether the first line names columns of a table of jobs: the use of a resource among them."""
    first = head.split("\n", 1)[0].rstrip("\r")
    names = {_plain_name(cell)[0] for cell in _split(first)}
    return len(names) > 1 and bool(names & set(_AMOUNTS))


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each row."""
    lines = log.lines()
    first = next(lines, "")
    header = _split(first)
    columns = _Columns(log, header, hints)
    yield from (Assumed(what) for what in columns.assumed)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=_delimiter(first))
    try:
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                yield Skipped(reader.line_num + 1, f"{len(header)} columns were expected", f"{len(cells)} columns")
                continue
            try:
                yield columns.attempt(cells)
            except UnusableError as problem:
                yield problem.at(reader.line_num + 1)
    except csv.Error as error:
        raise log.error(f"is not a table: {error}", reader.line_num + 1) from None


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _split(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=_delimiter(line)), [])]
    except csv.Error:
        return []


def _plain_name(cell: str) -> tuple[str, str | None]:
    """Return the name that a column has here, and the unit that stands behind it: ``Memory (KiB)``."""
    found = _HEADER_UNIT.fullmatch(cell)
    name, unit = (found[1], found[2]) if found else (cell, None)
    name = name.strip().lower().replace(" ", "_")
    if name in ("input_bytes", "input_size_bytes"):
        unit = unit or "B"
    return _OTHER_NAMES.get(name, name), unit


class _Columns:
    """Which column holds what, and how its cells are read."""

    def __init__(self, log: Log, header: list[str], hints: Hints) -> None:
        self.assumed: list[str] = []
        self._header = header
        self._readers: dict[str, _Cell] = {}
        self._places: dict[str, int] = {}
        units = dict(hints.units)
        theirs = {name: ours for ours, name in hints.columns.items()}
        self._check(log, hints, header)
        for place, cell in enumerate(header):
            name, unit = _plain_name(cell)
            name = theirs.get(cell, name if name not in hints.columns else "")
            if name in NAMES and name not in self._places:
                self._places[name] = place
                if unit:
                    units.setdefault(name, unit)
        if not any(name in self._places for name in _AMOUNTS):
            expected = f"expected one of {', '.join(_AMOUNTS)} among the columns, or --columns memory=THEIR_NAME"
            raise log.error("is not a table of jobs: no column says what a job used", line=1, hint=expected)
        for name in self._places:
            self._readers[name] = _reader(name, units.get(name), hints.zone)
        self._note_assumed(units, hints)
        self._others = [place for place in range(len(header)) if place not in self._places.values()]
        self._used = self._amounts("")
        self._requested = self._amounts("requested_")
        self._allocated = self._amounts("allocated_")
        plain = (*_TEXTS, *_MOMENTS, "outcome", "exhausted", "exit_status", "signal", "number", "native_id")
        self._plain = [(name, self._places[name], self._readers[name]) for name in plain if name in self._places]

    def attempt(self, cells: list[str]) -> Attempt:
        """Return the attempt in a row."""
        values = {name: value for name, place, read in self._plain if (value := read(cells[place])) is not None}
        if _INPUT in self._places:
            values["input_bytes"] = self._readers[_INPUT](cells[self._places[_INPUT]])
        if self._others:
            values["raw"] = {
                self._header[place]: cells[place] for place in self._others if not is_unknown(cells[place])
            }
        if self._requested:
            values["requested"] = _read_amounts(self._requested, cells)
        if self._allocated:
            values["allocated"] = _read_amounts(self._allocated, cells)
        return Attempt(row="\x1f".join(cells), used=_read_amounts(self._used, cells), **values)  # type: ignore[arg-type]

    def _check(self, log: Log, hints: Hints, header: list[str]) -> None:
        for ours, theirs in hints.columns.items():
            if ours not in NAMES:
                raise InputError(f'--columns: "{ours}" is not a column here', hint=f"one of {', '.join(NAMES)}")
            if theirs not in header:
                raise log.error(f'there is no column "{theirs}"', 1, hint=f"there are {', '.join(header)}")

    def _amounts(self, prefix: str) -> list[tuple[str, int, _Cell]]:
        names = [(name, f"{prefix}{name}") for name in _AMOUNTS]
        return [(name, self._places[full], self._readers[full]) for name, full in names if full in self._places]

    def _note_assumed(self, units: Mapping[str, str], hints: Hints) -> None:
        sizes = [name for name in self._places if name.endswith((*_BYTES, _INPUT)) and name not in units]
        times = [name for name in self._places if name.endswith(_SECONDS) and name not in units]
        if sizes:
            self.assumed.append(f"{', '.join(sizes)} in MB (10^6 bytes)")
        if times:
            self.assumed.append(f"{', '.join(times)} in seconds")
        if any(name in _MOMENTS for name in self._places):
            self.assumed.append(f"times without a zone in {hints.zone}")


def _reader(name: str, unit: str | None, zone: tzinfo) -> _Cell:
    """Return what reads the cells of a column."""
    kind = name.removeprefix("requested_").removeprefix("allocated_")
    if kind in (*_BYTES, _INPUT):
        return _scaled(name, _byte_factor(unit), parse_bytes, round)
    if kind in _SECONDS:
        return _scaled(name, _second_factor(unit), parse_seconds, float)
    if kind in _AMOUNTS:
        return _scaled(name, 1.0, None, int if kind == "processes" else float)
    return _plain_reader(name, zone)


def _plain_reader(name: str, zone: tzinfo) -> _Cell:
    if name in _MOMENTS:
        return lambda cell: _moment(cell, name, zone)
    if name in _CLOSED_LISTS:
        return lambda cell: _member(_CLOSED_LISTS[name], cell, name)
    if name in ("exit_status", "signal", "number"):
        return lambda cell: whole(cell, name)
    return lambda cell: cell.strip() or None


def _read_amounts(columns: list[tuple[str, int, _Cell]], cells: list[str]) -> Amounts:
    return Amounts(**{name: read(cells[place]) for name, place, read in columns})  # type: ignore[arg-type]


def _scaled(
    what: str, factor: float, with_unit: Callable[[str], float] | None, kind: Callable[[float], float]
) -> _Cell:
    """Return what reads a cell: a bare number in the column's unit, or one with a unit of its own."""

    def read(cell: str) -> float | None:
        try:
            value = number(cell, what)
        except UnusableError:
            if with_unit is None or not cell[:1].isdigit():
                raise
            try:
                value = with_unit(cell) / factor
            except InputError as error:
                raise UnusableError(f"{what} is not an amount", str(error)) from None
        return None if value is None else kind(value * factor)

    return read


def _byte_factor(unit: str | None) -> float:
    return _MB if unit is None else float(parse_bytes(f"1{unit}"))


def _second_factor(unit: str | None) -> float:
    return 1.0 if unit is None else float(parse_seconds(f"1{unit}"))


def _moment(cell: str, what: str, zone: tzinfo) -> float | None:
    """Return a date and time, or a number of seconds since 1970."""
    try:
        return number(cell, what)
    except UnusableError:
        return moment(cell, what, zone)


def _member(kind: type[Outcome] | type[Resource], cell: str, what: str) -> object:
    if is_unknown(cell):
        return None
    try:
        return kind(cell.strip().lower())
    except ValueError:
        raise UnusableError(f"{what} is not one of {', '.join(kind)}", cell) from None
