"""Moments, as users write them: ``2026-11-15``, or how long ago."""

import time
from contextlib import suppress

from tonnage.errors import InputError
from tonnage.logs import amounts
from tonnage.logs.log import UnusableError
from tonnage.logs.zones import zone
from tonnage.units import parse_seconds

__all__ = ["moment"]


def moment(text: str) -> float:
    """Return a date such as ``2026-11-15``, or how long ago something was, ``30d``, as seconds since 1970."""
    # What is only digits could be a year, seconds, or a moment: a guess could remove the wrong jobs.
    with suppress(UnusableError, InputError):
        if not text.strip().isdigit():
            found = amounts.moment(text, "it", zone())
            if found is not None:
                return found
    with suppress(InputError):
        if not text.strip().isdigit():
            return time.time() - parse_seconds(text)
    hint = "write one such as 2026-11-15, 2026-11-15T12:30 or 30d"
    raise InputError(f'"{text}" is neither a date nor a time span', hint=hint)
