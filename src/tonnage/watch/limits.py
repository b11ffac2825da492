"""Limits on what a command may use of each resource, and `Job`, a command with its limits."""

from tonnage.errors import InputError
from tonnage.units import format_bytes, format_cores, format_seconds, parse_bytes, parse_cores, parse_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tonnage.watch.cgroup import Cgroup

__all__ = [
    "BYTE_UNITS",
    "CCTOOLS_NAMES",
    "IN_BYTES",
    "IN_SECONDS",
    "RESOURCES",
    "TIME_UNITS",
    "Exceeded",
    "Job",
    "parse_limit",
    "read_limits",
]

RESOURCES = ("cores", "memory", "disk", "wall_time", "cpu_time", "processes")
IN_BYTES = ("memory", "disk")
IN_SECONDS = ("wall_time", "cpu_time")

# In limits files and summaries, units have the same meaning as in cctools: powers of 1024.
BYTE_UNITS = {
    prefix + ending: 1024**power for power, prefix in enumerate(("", "k", "m", "g", "t", "p")) for ending in ("b", "ib")
}
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
CCTOOLS_NAMES = {"processes": "max_concurrent_processes"}  # resources that cctools calls by another name
_OUR_NAMES = {theirs: ours for ours, theirs in CCTOOLS_NAMES.items()}
_LARGEST_FILE = 2**20


class Exceeded:
    """A limit that a command exceeded, and the amount that was seen."""

    __slots__ = ("limit", "resource", "value")

    def __init__(self, resource: str, limit: float, value: float) -> None:
        self.resource = resource
        self.limit = limit
        self.value = value

    def __str__(self) -> str:
        value, limit = _format_amount(self.resource, self.value), _format_amount(self.resource, self.limit)
        if value == limit:  # equal when rounded to three digits
            value = f"slightly more than {value}"
        return f"{self.resource}: {value} used, limit {limit}"


def parse_limit(text: str) -> "tuple[str, float]":
    """Parse a limit such as ``memory=300MB`` into its resource and amount."""
    name, equals, amount = text.partition("=")
    if not equals:
        raise InputError(f'"{text}" is not a limit', hint="expected RESOURCE=AMOUNT, such as memory=300MB")
    resource = _known(name)
    return resource, _positive(name, _parse_amount(name, amount), amount)


def _parse_amount(resource: str, text: str) -> float:
    """Parse an amount of a resource into its base unit: bytes, seconds, cores or processes."""
    if resource in IN_BYTES:
        return parse_bytes(text)
    if resource in IN_SECONDS:
        return parse_seconds(text)
    if resource == "cores":
        return parse_cores(text)
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InputError(f'"{text}" is not a number of processes')
    return int(text)


def _format_amount(resource: str, amount: float) -> str:
    """Format an amount of a resource for display."""
    if resource in IN_BYTES:
        return format_bytes(amount)
    if resource in IN_SECONDS:
        return format_seconds(amount)
    return f"{format_cores(amount)} {resource}"


def read_limits(path: str) -> "dict[str, float]":
    """Read a limits file: JSON such as ``{"memory": [300, "MB"], "wall_time": 600}``.

    As in cctools, MB means 2^20 bytes there, and a bare number is in MB, seconds, cores or processes.
    """
    import json

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None
    if len(text) > _LARGEST_FILE:
        raise InputError("is larger than 1 MiB; expected a few limits", path=path)
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON ({error})", path=path, line=getattr(error, "lineno", None)) from None
    if not isinstance(entries, dict):
        raise InputError('is not a JSON object such as {"memory": [300, "MB"]}', path=path)
    try:
        return dict(_file_limit(str(name), value) for name, value in entries.items())
    except InputError as error:
        raise InputError(error.message, path=path, hint=error.hint) from None


def _file_limit(name: str, value: object) -> "tuple[str, float]":
    resource = _known(_OUR_NAMES.get(name, name))
    number: object
    number, unit = value if isinstance(value, list) and len(value) == 2 else (value, None)
    if isinstance(number, bool) or not isinstance(number, int | float) or not isinstance(unit, str | None):
        hint = f'expected a number or a number with its unit, such as [300, "{_units(resource)[0]}"]'
        raise InputError(f"{name}: {value!r} is not an amount", hint=hint)
    if number > 1e18:
        raise InputError(f"{name}: the limit is too large")
    return resource, _positive(name, number * _factor(resource, unit), str(number))


def _factor(resource: str, unit: "str | None") -> float:
    if unit is None:
        return 2.0**20 if resource in IN_BYTES else 1.0
    known = BYTE_UNITS if resource in IN_BYTES else TIME_UNITS if resource in IN_SECONDS else {}
    if resource not in IN_BYTES + IN_SECONDS and unit in _units(resource):
        return 1.0
    factor = known.get(unit.lower())
    if factor is None:
        raise InputError(f'{resource}: "{unit}" is not a unit', hint=f"expected one of {', '.join(_units(resource))}")
    return factor


def _units(resource: str) -> "tuple[str, ...]":
    if resource in IN_BYTES:
        return ("MB", "B", "kB", "GB", "TB", "PB")
    if resource in IN_SECONDS:
        return tuple(TIME_UNITS)
    return ("cores",) if resource == "cores" else ("procs", "processes")


def _known(name: str) -> str:
    if name not in RESOURCES:
        raise InputError(f'"{name}" is not a resource', hint=f"expected one of {', '.join(RESOURCES)}")
    return name


def _positive(name: str, amount: float, text: str) -> float:
    if not 0 < amount < 2.0**63:  # also false for NaN
        raise InputError(f"{name}: a limit must be above 0, not {text}")
    return amount


class Job:
    """One command with its limits: bytes, seconds, cores and numbers."""

    __slots__ = (
        "cgroup",
        "command",
        "cores_window",
        "environment",
        "executable",
        "folder",
        "grace",
        "interval",
        "limits",
        "measure_only",
        "own_group",
        "start_in",
        "streams",
    )

    def __init__(
        self,
        command: "list[str]",
        *,
        executable: "str | None" = None,
        folder: "str | None" = ".",
        limits: "dict[str, float] | None" = None,
        measure_only: bool = False,
        grace: float = 0.0,
        interval: float = 1.0,
        cores_window: float = 20.0,
        cgroup: "Cgroup | None" = None,
        start_in: "str | None" = None,
        environment: "Mapping[str, str] | None" = None,
        streams: "tuple[int, ...]" = (),
        own_group: bool = False,
    ) -> None:
        self.command = command
        self.executable = executable or command[0]
        self.folder = folder  # whose disk use is measured; None: disk use is not measured
        self.limits = limits or {}
        self.measure_only = measure_only
        self.grace = grace
        self.interval = interval
        self.cores_window = cores_window
        self.cgroup = cgroup  # in which the kernel enforces the memory limit too; entering it takes 10 ms
        self.start_in = start_in  # the working folder; None: ours
        self.environment = environment  # None: ours
        self.streams = streams  # descriptors for standard input, output and error; empty: ours
        self.own_group = own_group  # whether the command leads its own process group
