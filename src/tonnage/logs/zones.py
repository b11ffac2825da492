"""Time zones of logs that write times without one."""

import time
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from tonnage.errors import InputError

__all__ = ["zone"]


class _Local(tzinfo):
    """This machine's own zone, with its summer times."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is None:
            return None
        return moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:  # noqa: ARG002 (the base class's own signature)
        return None

    def tzname(self, moment: datetime | None) -> str:  # noqa: ARG002
        return time.tzname[0]

    def __str__(self) -> str:
        return f"{time.tzname[0]} (this machine's)"


def zone(name: str | None = None) -> tzinfo:
    """Return the zone of a name such as ``Europe/Berlin`` or ``UTC``; by default this machine's."""
    if name is None:
        return _Local()
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise InputError(f'"{name}" is not a time zone', hint="write one such as Europe/Berlin or UTC") from None
