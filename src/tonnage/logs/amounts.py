"""Numbers, sizes, durations and timestamps as logs write them; impossible values raise UnusableError.

Schedulers and workflow systems count in powers of 1024 whatever they call the unit: here K, KB and KiB are the same.
"""

import re
from datetime import datetime, tzinfo
from math import isfinite, isnan

from tonnage.errors import InputError
from tonnage.logs.log import UnusableError
from tonnage.units import parse_bytes

__all__ = [
    "binary_bytes",
    "byte_unit",
    "clock_seconds",
    "is_unknown",
    "moment",
    "number",
    "scaled",
    "whole",
]

_UNKNOWN = frozenset(("", "-", "na", "n/a", "nan", "none", "null", "unknown", "undefined"))
_LARGEST = 2.0**62  # fits into a database column, and is more than any job ever used
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([KMGTPE]?)(i?B|bytes?)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")


def is_unknown(text: str) -> bool:
    """Whether a cell stands for an unknown value."""
    return text.strip().lower() in _UNKNOWN


def number(text: str, what: str) -> float | None:
    """Parse a number that is not negative; return None for an unknown value."""
    try:
        value = float(text)
    except ValueError:
        if is_unknown(text):
            return None
        raise UnusableError(f"{what} is not a number", text) from None
    if isnan(value):
        return None
    if not 0 <= value < _LARGEST:
        raise UnusableError(f"{what} is negative or not plausible", text)
    return value


def whole(value: object, what: str) -> int | None:
    """Convert text or a number to a whole number, possibly negative; return None for an unknown value."""
    if value is None or (isinstance(value, str) and is_unknown(value)):
        return None
    try:
        result = int(value) if isinstance(value, str) else int(float(value))  # type: ignore[arg-type] # else it raises
    except (TypeError, ValueError, OverflowError):
        raise UnusableError(f"{what} is not a whole number", str(value)) from None
    if not abs(result) < _LARGEST:
        raise UnusableError(f"{what} is not plausible", str(value))
    return result


def binary_bytes(text: str, what: str, unit: str = "") -> int | None:
    """Parse ``152.8 MB``, ``200M`` or ``1 GiB`` into bytes, in powers of 1024; a bare number is in `unit`."""
    if is_unknown(text):
        return None
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise UnusableError(f"{what} is not a size", text)
    digits, prefix, suffix = found.groups()
    value = float(digits) * 1024.0 ** _POWERS[(prefix if prefix or suffix else unit).lower()]
    if not (isfinite(value) and value < _LARGEST):
        raise UnusableError(f"{what} is not plausible", text)
    return round(value)


def scaled(text: str, what: str, unit: float) -> float | None:
    """Parse a bare number and multiply it by `unit`, its size in bytes or seconds."""
    count = number(text, what)
    if count is None:
        return None
    if not count * unit < _LARGEST:
        raise UnusableError(f"{what} is negative or not plausible", text)
    return count * unit


def byte_unit(name: str) -> int:
    """Return the number of bytes in a unit given by the user: ``MB`` is 10^6, ``MiB`` 2^20."""
    if not name.isalpha():
        raise InputError(f'"{name}" is not a unit of bytes such as MB or MiB')
    return parse_bytes(f"1{name}")


def clock_seconds(text: str, what: str) -> float | None:
    """Parse ``[D-]HH:MM:SS[.fff]`` or ``MM:SS[.fff]`` into seconds."""
    if is_unknown(text):
        return None
    found = _CLOCK.fullmatch(text.strip())
    if not found:
        raise UnusableError(f"{what} is not a time", text)
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    if not total < _LARGEST:
        raise UnusableError(f"{what} is not plausible", text)
    return total


def moment(text: str, what: str, zone: tzinfo) -> float | None:
    """Parse a timestamp such as ``2026-11-15T21:25:34`` into seconds since 1970; without a zone it is in `zone`."""
    if is_unknown(text):
        return None
    try:
        parsed = datetime.fromisoformat(text.strip())
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise UnusableError(f"{what} is not a date and time", text) from None
