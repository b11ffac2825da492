"""`Summary`: what a command used, read from the JSON of ``tonnage watch`` or cctools' resource_monitor."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tonnage.errors import InputError
from tonnage.units import Bytes, Cores, Seconds
from tonnage.watch.limits import BYTE_UNITS, CCTOOLS_NAMES, TIME_UNITS
from tonnage.watch.record import FIELD, UNITS

__all__ = ["Summary"]

_LARGEST = 2**24
_UNITS = BYTE_UNITS | TIME_UNITS | dict.fromkeys(("cores", "procs", "files", "switches"), 1.0)
_OUR_NAMES = {theirs: ours for ours, theirs in CCTOOLS_NAMES.items()}
_TEXTS = (
    "command",
    "category",
    "workflow",
    "host",
    "monitor_version",
    "exit_type",
    "stopped_because",
    "memory_method",
    "processes_method",
    "cgroup",
    "lower_bounds",
    "upper_bounds",
)
_BYTES = [name for name, (unit, _) in UNITS.items() if unit == "MB"]
_COUNTS = [name for name, (unit, _) in UNITS.items() if unit in ("procs", "files", "switches")] + ["machine_cpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a command ended and what it used, in bytes, seconds and cores; None means unknown."""

    command: str | None = None
    category: str | None = None
    workflow: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    host: str | None = None
    monitor_version: str | None = None

    exit_type: str | None = None
    """``normal``, ``signal`` or ``limits``."""
    exit_status: int | None = None
    signal: int | None = None
    stopped_because: str | None = None
    """``limit`` or ``monitor killed``; None where the command ended by itself."""
    limits_exceeded: Mapping[str, float] = field(default_factory=dict)
    """The exceeded limits, by resource."""

    start: Seconds | None = None
    end: Seconds | None = None
    wall_time: Seconds | None = None
    cpu_time: Seconds | None = None
    cores: Cores | None = None
    cores_avg: Cores | None = None
    memory: Bytes | None = None
    memory_method: str | None = None
    """``rss``, ``pss`` or ``max_rss``."""
    cgroup: str | None = None
    """``v1`` or ``v2`` where the kernel enforced the memory limit too."""
    cgroup_memory: Bytes | None = None
    """The kernel's peak figure, including files in memory and its own memory."""
    virtual_memory: Bytes | None = None
    swap_memory: Bytes | None = None
    disk: Bytes | None = None
    disk_at_start: Bytes | None = None
    bytes_read: Bytes | None = None
    bytes_written: Bytes | None = None
    max_concurrent_processes: int | None = None
    total_processes: int | None = None
    processes_method: str | None = None
    """``perf`` or ``poll``."""
    total_files: int | None = None
    open_files: int | None = None
    context_switches: int | None = None
    machine_cpus: int | None = None
    peak_times: Mapping[str, float] = field(default_factory=dict)
    lower_bounds: tuple[str, ...] = ()
    """The figures that are lower bounds: more may have been used than was seen."""
    upper_bounds: tuple[str, ...] = ()
    """The figures that are upper bounds: less may have been used."""

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.exit_type == "normal" and self.exit_status == 0

    @classmethod
    def read(cls, path: str | Path) -> "Summary":
        """Read a summary file."""
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST + 1)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from None
        if len(data) > _LARGEST:
            raise InputError("is larger than 16 MiB; expected the summary of one command", path=path)
        try:
            return cls.parse(data.decode("utf-8"))
        except UnicodeDecodeError:
            raise InputError("is not UTF-8 text", path=path) from None
        except InputError as error:
            raise InputError(error.message, path=path, line=error.line, hint=error.hint) from None

    @classmethod
    def parse(cls, text: str) -> "Summary":
        """Parse a summary from JSON text."""
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"is not JSON ({error})", line=getattr(error, "lineno", None)) from None
        if not isinstance(facts, dict):
            raise InputError("is not the summary of a command: expected a JSON object")
        return cls.of(facts)

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> "Summary":
        """Build a summary from a parsed JSON object."""
        names = {one.name for one in fields(cls)} - {"fields"}
        values = {name: _value(name, value) for name, value in facts.items() if name in names}
        values["fields"] = {
            name.removeprefix(FIELD): str(value) for name, value in facts.items() if name.startswith(FIELD)
        }
        return cls(**values)


def _value(name: str, value: object) -> Any:  # noqa: ANN401 (each field has its own type)
    if name in ("limits_exceeded", "peak_times"):
        if not isinstance(value, dict):
            raise InputError(f"{name}: expected an object")
        amounts = {key: _amount(key, amount) for key, amount in value.items()}
        return {_OUR_NAMES.get(key, key): amount for key, amount in amounts.items()} if name[0] == "l" else amounts
    if name in _TEXTS:
        if not isinstance(value, str):
            raise InputError(f"{name}: {value!r} is not a string")
        return tuple(value.split()) if name in ("lower_bounds", "upper_bounds") else value
    if name in ("exit_status", "signal"):
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{name}: {value!r} is not a whole number")
        return value
    amount = _amount(name, value)
    return Bytes(round(amount)) if name in _BYTES else int(amount) if name in _COUNTS else amount


def _amount(name: str, value: object) -> float:
    """Return an amount such as ``[300, "MB"]`` in its base unit."""
    number, unit = value if isinstance(value, list) and len(value) == 2 else (None, None)
    if isinstance(number, bool) or not isinstance(number, int | float) or not isinstance(unit, str):
        raise InputError(f'{name}: {value!r} is not an amount such as [300, "MB"]')
    if not -1e18 < number < 1e18:  # also false for NaN
        raise InputError(f"{name}: {number} is not an amount")
    factor = _UNITS.get(unit.lower())
    if factor is None:
        raise InputError(f'{name}: "{unit}" is not a unit', hint=f"expected one of {', '.join(_UNITS)}")
    return float(number * factor)
