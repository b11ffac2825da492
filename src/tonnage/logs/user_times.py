"""Times as users write them: a date such as ``2026-11-15``, an age such as ``30d``, and the time zone of logs."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from tonnage.errors import InputError
from tonnage.logs import amounts
from tonnage.logs.log import UnusableError
from tonnage.units import parse_seconds

__all__ = ["moment", "zone"]


class _Local(tzinfo):
    """This machine's time zone, including daylight saving time."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is None:
            return None
        return moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:  # noqa: ARG002 (signature of the base class)
        return None

    def tzname(self, moment: datetime | None) -> str:  # noqa: ARG002
        return time.tzname[0]

    def __str__(self) -> str:
        return f"{time.tzname[0]} (this machine's)"


def zone(name: str | None = None) -> tzinfo:
    """Return the time zone with a name such as ``Europe/Berlin`` or ``UTC``; by default this machine's."""
    if name is None:
        return _Local()
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise InputError(f'"{name}" is not a time zone', hint="use one such as Europe/Berlin or UTC") from None


def moment(text: str) -> float:
    """Parse a date such as ``2026-11-15``, or an age such as ``30d``, into seconds since 1970."""
    # Digits alone could be a year, seconds, or a timestamp: a wrong guess could remove the wrong jobs.
    with suppress(UnusableError, InputError):
        if not text.strip().isdigit():
            found = amounts.moment(text, "it", zone())
            if found is not None:
                return found
    with suppress(InputError):
        if not text.strip().isdigit():
            return time.time() - parse_seconds(text)
    hint = "use one such as 2026-11-15, 2026-11-15T12:30 or 30d"
    raise InputError(f'"{text}" is neither a date nor a time span', hint=hint)
