"""Tables of jobs (CSV): a header that names the columns, then one job per row.

The columns have the names of the public data sets: ``category, cores, memory, disk, cpu_time, wall_time``; `NAMES`
lists all supported ones, and `--columns memory=peak_mem` maps other names. Memory and disk are in MB (10^6 bytes) and
times in seconds unless a unit is given in the header (``memory (KiB)``), in the cell (``1.5 GB``), or with
`--units memory=KiB`.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import tzinfo
from itertools import chain
from typing import Any

from tonnage.errors import InputError
from tonnage.jobs import AMOUNTS, Amounts, Attempt, Outcome, Resource
from tonnage.logs.amounts import byte_unit, is_unknown, moment, number, scaled, whole
from tonnage.logs.csv_rows import rows
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError
from tonnage.units import parse_bytes, parse_seconds

__all__ = ["NAMES", "read", "recognises"]

_USED = tuple(map(str, Resource))
_TEXTS = (
    "category",
    "label",
    "task",
    "run",
    "workflow",
    "user",
    "host",
    "command",
    "executable",
    "memory_method",
    "workflow_checksum",
)
_MOMENTS = ("submitted", "started", "ended")
_WHOLE = ("exit_status", "signal", "number")
_INPUT = "input_size"
_MB = 10**6
_YEAR_10000 = 253_402_300_800.0  # in seconds since 1970: larger numbers must be milliseconds

NAMES = (
    *AMOUNTS,
    _INPUT,
    *_TEXTS,
    *_MOMENTS,
    "outcome",
    "exhausted",
    *_WHOLE,
    "native_id",
    "identity",
)
"""The supported names of columns."""

# Other common names for them.
_OTHER_NAMES = {
    "time": "wall_time",
    "runtime": "wall_time",
    "walltime": "wall_time",
    "cputime": "cpu_time",
    "input_bytes": _INPUT,
    "input_size_bytes": _INPUT,
    "mem": "memory",
    "name": "task",
    **dict.fromkeys(("exit", "exit_code", "exitcode", "return_code", "returncode"), "exit_status"),
}
_STATUS = ("status", "state")
"""Columns that say in a word, or by an exit status, how a job ended."""
_STATUS_WORDS = {
    **dict.fromkeys(("completed", "complete", "finished", "ok", "success", "successful", "succeeded"), Outcome.DONE),
    **dict.fromkeys(("error", "failure", "aborted"), Outcome.FAILED),
    **dict.fromkeys(("canceled", "removed"), Outcome.CANCELLED),
    "evicted": Outcome.PREEMPTED,
    "node_fail": Outcome.LOST,
    **{outcome.value: outcome for outcome in Outcome},
}
_RAN_OUT = {
    **dict.fromkeys(("out_of_memory", "oom"), Resource.MEMORY),
    **dict.fromkeys(("timeout", "timed_out"), Resource.WALL_TIME),
}
_NOT_ENDED = frozenset(("cached", "idle", "pending", "queued", "running", "skipped", "submitted", "waiting"))
# A row written by `tonnage watch --series` is one moment of a job, not a job.
_SERIES = {"time", "virtual_memory", "bytes_read", "bytes_written"}
_HEADER_UNIT = re.compile(r"[\[(]\s*([A-Za-z]+)\s*[\])]$")
_OWN_UNIT = re.compile(r"[0-9.]\s*[A-Za-z]+\s*$|:")  # as in 1.5 GB, 1h30m and 00:01:30
_DELIMITERS = ",\t;"
# Columns that `tonnage archive export` writes as JSON in addition to the identity; lists become tuples again.
_JSON: dict[str, Callable[[Any], object]] = {
    "lower_bounds": tuple,
    "inputs": tuple,
    "outputs": tuple,
    "fields": dict,
    "raw": dict,
}
_CLOSED_LISTS: dict[str, type[Outcome] | type[Resource]] = {"outcome": Outcome, "exhausted": Resource}
_Cell = Callable[[str], object]


def recognises(head: str) -> bool:
    """Whether the first line names columns of a table of jobs, including the use of a resource."""
    first = head.split("\n", 1)[0].rstrip("\r")
    names = {_name_and_unit(cell)[0] for cell in _split(first)}
    if names >= _SERIES:
        return False
    ours = {_OTHER_NAMES.get(name, name) for name in names - {"time"}}  # in many other tables a timestamp
    return len(names) > 1 and not ours.isdisjoint(_USED)


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each row."""
    lines = log.lines()
    first = next(lines, "")
    table = rows(chain([first], lines), _delimiter(first))
    _, cells = next(table, (1, []))
    header = [] if isinstance(cells, UnusableError) else [cell.strip() for cell in cells]
    columns = _Columns(log, header, hints)
    yield from (Assumed(what) for what in columns.assumed)
    for line, cells in table:
        if isinstance(cells, UnusableError):
            yield cells.at(line)
        elif len(cells) != len(header):
            yield Skipped(line, f"expected {len(header)} columns", f"{len(cells)} columns")
        else:
            try:
                yield columns.attempt(cells)
            except UnusableError as problem:
                yield problem.at(line)


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _split(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=_delimiter(line)), [])]
    except csv.Error:
        return []


def _name_and_unit(cell: str) -> tuple[str, str | None]:
    """Split a header cell such as ``Memory (KiB)`` into the name in lower case and the unit."""
    found = _HEADER_UNIT.search(cell)
    name = "_".join((cell[: found.start()] if found else cell).lower().split())
    if found:
        return name, found[1]
    return name, "B" if name in ("input_bytes", "input_size_bytes") else None


class _Columns:
    """The meaning of each column, and how its cells are read."""

    def __init__(self, log: Log, header: list[str], hints: Hints) -> None:
        self._header = header
        self._label = hints.label or log.stem
        self._places = _places(log, header, hints)
        if not any(name in self._places for name in _USED):
            expected = f"expected one of the columns {', '.join(_USED)}, or use --columns memory=THEIR_NAME"
            raise log.error("is not a table of jobs: no column says what a job used", line=1, hint=expected)
        units = _units(header, self._places, hints)
        self.assumed = _assumed(self._places, units, hints)
        self._readers = {name: _reader(log, name, units.get(name), hints.zone) for name in self._places}
        self._exported = [(name, header.index(name)) for name in _JSON if "identity" in self._places and name in header]
        status = None if "outcome" in self._places else _position(header, _STATUS)
        self._status = None if status in self._places.values() else status
        known = {*self._places.values(), *(place for _, place in self._exported)}
        self._others = [place for place in range(len(header)) if place not in known]
        self._used, self._requested, self._allocated = map(self._amounts, ("used", "requested", "allocated"))
        plain = (*_TEXTS, *_MOMENTS, *_CLOSED_LISTS, *_WHOLE, "native_id", "identity")
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
        if "outcome" not in self._places:
            values |= self._ending(cells, values.get("exit_status"))
        for name, place in self._exported:
            if cells[place]:
                values[name] = _json(cells[place], name)
        if "native_id" in values and "identity" not in values:
            values["native_id"] = f"{self._label}:{values['native_id']}"  # unique only within its origin
        return Attempt(row="\x1f".join(cells), used=_read_amounts(self._used, cells), **values)  # type: ignore[arg-type]

    def _ending(self, cells: list[str], exit_status: object) -> dict[str, object]:
        """Return how a job ended, by its status or else its exit status; raises UnusableError if it has not ended."""
        word = "" if self._status is None else "_".join(cells[self._status].lower().split())
        if word in _NOT_ENDED:
            raise UnusableError("it has not finished or did not run", word, healthy=True)
        if word in _RAN_OUT:
            return {"outcome": Outcome.EXHAUSTED, "exhausted": _RAN_OUT[word]}
        outcome = _STATUS_WORDS.get(word.partition("_by_")[0])  # CANCELLED by 1000
        number = word.removesuffix(".0")
        if exit_status is None and number.isdecimal():
            exit_status = int(number)
        if outcome is None and exit_status is not None:
            outcome = Outcome.FAILED if exit_status else Outcome.DONE
        return {} if outcome is None else {"outcome": outcome}

    def _amounts(self, kind: str) -> list[tuple[str, int, _Cell]]:
        names = [(resource, name) for name, (one, resource) in AMOUNTS.items() if one == kind]
        return [
            (str(resource), self._places[name], self._readers[name]) for resource, name in names if name in self._places
        ]


def _places(log: Log, header: list[str], hints: Hints) -> dict[str, int]:
    """Return the position of each column: as the user says, else by its own name, else by another common name."""
    places: dict[str, int] = {}
    for ours, theirs in hints.columns.items():
        if ours not in NAMES:
            raise InputError(f'--columns: "{ours}" is not a known column', hint=f"use one of {', '.join(NAMES)}")
        if theirs not in header:
            raise log.error(f'there is no column "{theirs}"', 1, hint=f"the columns are {', '.join(header)}")
        places[ours] = header.index(theirs)
    taken = frozenset(places.values())
    names = [_name_and_unit(cell)[0] for cell in header]
    if not taken and _SERIES.issubset(names):
        raise log.error("is not a table of jobs: its rows are samples of one job over time", line=1)
    for candidates in (names, [_OTHER_NAMES.get(name, "") for name in names]):
        for place, name in enumerate(candidates):
            if name in NAMES and place not in taken:
                places.setdefault(name, place)
    return places


def _position(header: list[str], names: Iterable[str]) -> int | None:
    """Return the position of the first of some columns; None if there is none of them."""
    found = [_name_and_unit(cell)[0] for cell in header]
    return next((found.index(name) for name in names if name in found), None)


def _units(header: list[str], places: Mapping[str, int], hints: Hints) -> dict[str, str]:
    """Return the units of the columns: those given by the user, else those in the header."""
    possible = [name for name in NAMES if _unit_of(name) in ("bytes", "seconds")]
    for name in hints.units:
        if name not in possible:
            hint = f"use one of {', '.join(possible)}"
            raise InputError(f'--units: "{name}" is not a column with a unit', hint=hint)
    units = {name: unit for name, place in places.items() if (unit := _name_and_unit(header[place])[1])}
    return units | dict(hints.units)


def _assumed(places: Mapping[str, int], units: Mapping[str, str], hints: Hints) -> list[str]:
    """Return the assumptions about what the table does not specify."""
    assumed = []
    sizes = [name for name in places if _unit_of(name) == "bytes" and name not in units]
    times = [name for name in places if _unit_of(name) == "seconds" and name not in (*units, *_MOMENTS)]
    if sizes:
        assumed.append(f"{', '.join(sizes)} in MB (10^6 bytes)")
    if times:
        assumed.append(f"{', '.join(times)} in seconds")
    if any(name in _MOMENTS for name in places):
        assumed.append(f"times without a zone in {hints.zone}")
    return assumed


def _unit_of(name: str) -> str:
    """Return what a column counts; empty for text."""
    if name in AMOUNTS:
        return AMOUNTS[name][1].unit
    return "bytes" if name == _INPUT else "seconds" if name in _MOMENTS else ""


def _reader(log: Log, name: str, unit: str | None, zone: tzinfo) -> _Cell:
    """Return the function that reads the cells of a column."""
    counted = _unit_of(name)
    if counted == "bytes":
        return _amount_reader(name, _factor(log, name, unit, _bytes_in, _MB), parse_bytes, round)
    if counted == "seconds":
        factor = _factor(log, name, unit, _seconds_in, 1.0)
        if name in _MOMENTS:
            return lambda cell: _moment(cell, name, factor, zone)
        return _amount_reader(name, factor, parse_seconds, float)
    if counted:
        return lambda cell: _count(cell, name) if counted == "processes" else number(cell, name)
    return _plain_reader(name)


def _plain_reader(name: str) -> _Cell:
    if name in _CLOSED_LISTS:
        return lambda cell: _member(_CLOSED_LISTS[name], cell, name)
    if name == "identity":
        return _identity
    if name == "number":
        return lambda cell: max(1, _whole(cell, name) or 1)
    if name in _WHOLE:
        return lambda cell: _whole(cell, name)
    return lambda cell: None if is_unknown(cell) else cell.strip()


def _factor(log: Log, name: str, unit: str | None, size: Callable[[str], float], default: float) -> float:
    """Return the bytes or seconds that a 1 in a column stands for."""
    if unit is None:
        return default
    try:
        return size(unit)
    except InputError as error:
        raise log.error(f'"{unit}" is not a unit of {name}', 1, hint=error.hint or str(error)) from None


def _bytes_in(unit: str) -> float:
    return float(byte_unit("B" if unit.lower() in ("byte", "bytes") else unit))


def _seconds_in(unit: str) -> float:
    if not unit.isalpha():
        raise InputError(f'"{unit}" is not a unit of time such as s, ms, min or h')
    return float(parse_seconds(f"1{unit}"))


def _read_amounts(columns: list[tuple[str, int, _Cell]], cells: list[str]) -> Amounts:
    return Amounts(**{name: read(cells[place]) for name, place, read in columns})  # type: ignore[arg-type]


def _amount_reader(
    what: str, factor: float, with_unit: Callable[[str], float], kind: Callable[[float], float]
) -> _Cell:
    """Return the function that reads a cell: a bare number in the column's unit, or one with its own unit."""

    def read(cell: str) -> float | None:
        try:
            amount = scaled(cell, what, factor)
            return None if amount is None else kind(amount)
        except UnusableError:
            if not _OWN_UNIT.search(cell):
                raise
        try:
            return kind(with_unit(cell))
        except InputError as error:
            raise UnusableError(f"{what} is not an amount", error.report().replace("\n ", ":")) from None

    return read


def _count(cell: str, what: str) -> int | None:
    value = number(cell, what)
    if value is None:
        return None
    if not value.is_integer():
        raise UnusableError(f"{what} is not a whole number", cell)
    return int(value)


def _whole(cell: str, what: str) -> int | None:
    """Parse a whole number; if some are unknown, many programs write the others as 1.0."""
    return whole(cell.strip().removesuffix(".0"), what)


def _moment(cell: str, what: str, factor: float, zone: tzinfo) -> float | None:
    """Parse a date and time, or a number of seconds since 1970."""
    try:
        seconds = scaled(cell, what, factor)
    except UnusableError:
        return moment(cell, what, zone)
    if seconds is not None and seconds >= _YEAR_10000:
        raise UnusableError(f"{what} is not plausible", cell)
    return seconds


def _member(kind: type[Outcome] | type[Resource], cell: str, what: str) -> object:
    if is_unknown(cell):
        return None
    try:
        return kind(cell.strip().lower())
    except ValueError:
        raise UnusableError(f"{what} is not one of {', '.join(kind)}", cell) from None


def _identity(cell: str) -> bytes | None:
    """Parse the identity of an attempt in an archive."""
    if is_unknown(cell):
        return None
    try:
        identity = bytes.fromhex(cell)
    except ValueError:
        identity = b""
    if len(identity) != 16:
        raise UnusableError("identity is not that of an attempt in an archive", cell)
    return identity


def _json(cell: str, name: str) -> object:
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        value = None
    texts = value.values() if isinstance(value, dict) and name == "fields" else value if isinstance(value, list) else ()
    if not isinstance(value, dict if _JSON[name] is dict else list) or not all(isinstance(one, str) for one in texts):
        raise UnusableError(f"{name} is not as exported by an archive", cell)
    return _JSON[name](value)
