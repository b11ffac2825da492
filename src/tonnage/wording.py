"""Words for people: text that is safe to show, counts with their nouns, and suggestions for mistyped names."""

from collections.abc import Iterable
from itertools import islice

__all__ = ["closest", "counted", "meant", "one_line", "part_of", "printable", "shortened"]

# Comparing thousands of long names would delay an error message by minutes.
_LONGEST_COMPARED = 64
_MOST_COMPARED = 5000


def printable(text: str) -> str:
    """Make text safe for a terminal: control characters are written as escapes."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def one_line(text: str, room: int) -> str:
    """Return the beginning of a text, on one line, in at most `room` characters."""
    return shortened(" ".join(text.split()), room)


def shortened(line: str, room: int) -> str:
    """Return the beginning of a line, in at most `room` characters."""
    return line if len(line) <= room else f"{line[: room - 1].rstrip()}…"


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: ``1 job``, ``2 jobs``, ``2 categories``."""
    return f"1 {noun}" if number == 1 else f"{number:,} {_plural(noun)}"


def part_of(part: int, whole: int, noun: str) -> str:
    """Return a part of a count with its noun: ``0 of 1 tasks``, ``1 of 2 tasks``."""
    return f"{part:,} of {whole:,} {_plural(noun)}"


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def closest(typed: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like what was typed; None if none is similar."""
    from difflib import get_close_matches

    if len(typed) > _LONGEST_COMPARED:
        return None
    short = (name for name in known if len(name) <= _LONGEST_COMPARED)
    found = get_close_matches(typed, list(islice(short, _MOST_COMPARED)), 1)
    return found[0] if found else None


def meant(typed: str, known: Iterable[str]) -> str | None:
    """Suggest a known name for a mistyped or shortened one; None if none is similar."""
    names = list(known)
    longer = [name for name in names if len(typed) > 1 and name.startswith(typed)]
    found = longer[0] if len(longer) == 1 else closest(typed, names)
    return f"did you mean {found}?" if found else None
