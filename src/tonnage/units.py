"""Bytes, seconds and cores: parsed from user input and formatted for people.

Inside Tonnage an amount is a plain number in its base unit; parsing and formatting happen only at the boundaries. Here
MB is 10^6 and MiB is 2^20; formats with other rules (Slurm, HTCondor, cctools) document them in their own modules.
Ambiguous input ("4", "4G", "1:30") is an error, never a guess.

This module is imported by ``watch`` before it starts a command, so it imports nothing at run time but ``errors``.
"""

from tonnage.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NewType

    Bytes = NewType("Bytes", int)
    Seconds = NewType("Seconds", float)
    Cores = NewType("Cores", float)
else:  # typing.NewType costs milliseconds at start-up; at run time the plain number is equivalent
    Bytes = int
    Seconds = float
    Cores = float

__all__ = [
    "Bytes",
    "Cores",
    "Seconds",
    "format_bytes",
    "format_cores",
    "format_seconds",
    "parse_bytes",
    "parse_cores",
    "parse_seconds",
]

_DECIMAL = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15, "EB": 10**18}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
_BYTES = {unit.lower(): size for unit, size in (_DECIMAL | _BINARY).items()}
_AMBIGUOUS_BYTES = frozenset("kmgtpe")

# Minutes are "m" or "min"; "M" is not a unit of time, because it could be months or mega.
_SECONDS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SECONDS_ALIASES = {
    **dict.fromkeys(("week", "weeks"), "w"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "m"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
}

_LARGEST = 2.0**63  # the limit of database columns and 64-bit arrays


def parse_bytes(text: str) -> Bytes:
    """Parse an amount such as ``4GB``, ``4 GiB`` or ``1.5 TB`` into bytes.

    A bare number and a bare prefix are ambiguous (megabytes? 1000 or 1024?) and raise an error; ``0`` is 0.
    """
    number, unit = _number_and_unit(text, "an amount of bytes such as 4GB or 4GiB")
    size = _BYTES.get(unit.lower())
    if size is None and unit == "" and number == 0:
        size = 1
    if size is None:
        raise InputError(f'"{text}" is not an amount of bytes', hint=_bytes_hint(number, unit))
    return Bytes(round(_in_range(number * size, text)))


def _bytes_hint(number: float, unit: str) -> str:
    shown = _plain(number)
    if unit == "":
        return f"a unit is missing: write {shown}B, {shown}MB (10^6 bytes) or {shown}MiB (2^20 bytes)"
    if unit.lower() in _AMBIGUOUS_BYTES:
        prefix = unit.upper() if unit.lower() != "k" else "k"
        return f"ambiguous: write {shown}{prefix}B (powers of 1000) or {shown}{prefix.upper()}iB (powers of 1024)"
    return f'"{unit}" is not one of {", ".join([*_DECIMAL, *_BINARY])}'


def parse_seconds(text: str) -> Seconds:
    """Parse a time such as ``90``, ``1h30m``, ``250ms``, ``02:03:04`` or ``1-02:03:04`` into seconds."""
    stripped = text.strip()
    if ":" in stripped:
        return Seconds(_in_range(_parse_clock(stripped, text), text))
    total, last_unit = 0.0, None
    rest = stripped
    while rest or last_unit is None:
        number, rest = _leading_number(rest, text, "a time such as 90s, 1h30m or 1-02:03:04")
        word, rest = _leading_word(rest)
        unit = _SECONDS_ALIASES.get(word.lower(), word)
        if word == "" and not rest and last_unit is None:
            unit = "s"  # the base unit of every time in Tonnage, as for sleep and timeout
        if unit not in _SECONDS:
            raise InputError(f'"{text}" is not a time', hint=_seconds_hint(word))
        if last_unit is not None and _SECONDS[unit] >= _SECONDS[last_unit]:
            raise InputError(f'"{text}" is not a time', hint='the units must go from large to small, as in "1h30m"')
        total += number * _SECONDS[unit]
        last_unit = unit
    return Seconds(_in_range(total, text))


def _seconds_hint(word: str) -> str:
    if word == "":
        return f"a unit is missing: one of {', '.join(_SECONDS)}"
    return f'"{word}" is not one of {", ".join(_SECONDS)}'


def _parse_clock(stripped: str, text: str) -> float:
    """Parse [D-]HH:MM:SS[.fraction]; three fields are required, because two could be HH:MM or MM:SS."""
    days, dash, clock = stripped.rpartition("-")
    fields = clock.split(":")
    whole, dot, fraction = fields[-1].partition(".")
    digits = [*fields[:-1], whole, *([days] if dash else []), *([fraction] if dot else [])]
    if not all(_is_digits(field) for field in digits):
        raise InputError(f'"{text}" is not a time', hint="expected HH:MM:SS or D-HH:MM:SS")
    if len(fields) != 3:
        hint = f"ambiguous: write {fields[0]}h{fields[1]}m or {fields[0]}m{fields[1]}s" if len(fields) == 2 else None
        raise InputError(f'"{text}" is not a time of the form HH:MM:SS', hint=hint)
    if max(map(len, digits)) > 18:
        raise InputError(f'"{text}" is too large')
    hours, minutes, seconds = int(fields[0]), int(fields[1]), float(fields[2])
    if minutes >= 60 or seconds >= 60 or (dash and hours >= 24):
        raise InputError(f'"{text}" is not a time', hint="minutes and seconds go to 59, hours after days to 23")
    return int(days or 0) * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds


def parse_cores(text: str) -> Cores:
    """Parse a number of cores such as ``4``, ``0.5`` or ``2 cores``."""
    number, unit = _number_and_unit(text, "a number of cores such as 4 or 0.5")
    if unit.lower() not in ("", "core", "cores"):
        raise InputError(f'"{text}" is not a number of cores', hint="write a plain number such as 4 or 0.5")
    return Cores(_in_range(number, text))


def format_bytes(amount: float, *, binary: bool = False) -> str:
    """Format bytes with three significant digits: ``1.35 GB``, or ``1.26 GiB`` with `binary` units."""
    units, base = (["B", *_BINARY], 1024) if binary else (list(_DECIMAL), 1000)
    value, index = float(amount), 0
    # 999.5 prints as 1000 with three digits, so it already belongs to the next unit.
    while abs(value) >= (base if index == 0 else base - 0.5) and index < len(units) - 1:
        value, index = value / base, index + 1
    return f"{_plain(value) if index == 0 else _three_digits(value)} {units[index]}"


def format_seconds(amount: float) -> str:
    """Format a time with its two largest units: ``1h30m``, ``2d4h``, ``12.5s``, ``350ms``."""
    if amount < 0:
        return f"-{format_seconds(-amount)}"
    if amount < 0.9995:
        return f"{_three_digits(amount * 1000)}ms" if amount else "0s"
    if amount < 59.95:
        return f"{_three_digits(amount)}s"
    for large, small in (("d", "h"), ("h", "m"), ("m", "s")):
        if amount >= _SECONDS[large]:
            rounded = round(amount / _SECONDS[small]) * _SECONDS[small]
            if rounded != amount:
                return format_seconds(rounded)  # rounding can reach the next larger unit
            whole, part = divmod(amount, _SECONDS[large])
            return f"{whole:.0f}{large}{part / _SECONDS[small]:.0f}{small}" if part else f"{whole:.0f}{large}"
    return "1m"


def format_cores(amount: float) -> str:
    """Format a number of cores: ``4`` or ``0.5``."""
    return _three_digits(amount) if abs(amount) < 100 else f"{amount:.0f}"


def _number_and_unit(text: str, expected: str) -> "tuple[float, str]":
    number, rest = _leading_number(text.strip(), text, expected)
    return number, rest.strip()


def _leading_number(rest: str, text: str, expected: str) -> "tuple[float, str]":
    """Split off an unsigned decimal number; raises InputError if there is none."""
    rest = rest.lstrip()
    end = 0
    while end < len(rest) and (_is_digits(rest[end]) or rest[end] == "."):
        end += 1
    if rest.startswith("-"):
        raise InputError(f'"{text}" is negative', hint=f"expected {expected}")
    if not end or rest[:end].count(".") > 1 or rest[:end] == ".":
        raise InputError(f'"{text}" is not {expected}')
    return _in_range(float(rest[:end]), text), rest[end:]


def _leading_word(rest: str) -> "tuple[str, str]":
    rest = rest.lstrip()
    end = 0
    while end < len(rest) and rest[end].isalpha():
        end += 1
    return rest[:end], rest[end:].strip() if end else rest


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _in_range(value: float, text: str) -> float:
    if value >= _LARGEST:
        raise InputError(f'"{text}" is too large')
    return value


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return _plain(round(value, digits))


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.12g}"
