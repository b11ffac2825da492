"""ClassAds, HTCondor's lists of attributes: as JSON, one JSON object per line, or in the long form.

The long form consists of ``Name = value`` lines with a blank line between two ads. In its strings only ``\\"`` is an
escape, and a line break is printed as it is.
"""

import re
from collections.abc import Iterator, Mapping

from tonnage.logs.amounts import number, whole
from tonnage.logs.json_values import parse, values
from tonnage.logs.log import Log, UnusableError

__all__ = ["ClassAd", "read_ads", "value"]

_ATTRIBUTE = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(.*)")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_STRING = re.compile(r'"([^"]*(?:(?<=\\)"[^"]*)*)"')
_WORDS = {"true": True, "false": False, "undefined": None}
_EXPRESSION = "/Expr("  # how the JSON form marks expressions that only HTCondor evaluates
_BANNER = "***"  # separates the ads in HTCondor's own history files
_LONGEST = 2**25  # characters: more than any job, but a damaged file may never end


class ClassAd:
    """The attributes of a job; their names are not case-sensitive."""

    def __init__(self, attributes: Mapping[str, object]) -> None:
        self.attributes = attributes
        self._values = {name.lower(): value for name, value in attributes.items()}

    def get(self, name: str) -> object:
        """Return a value; None if it is unknown or an expression."""
        value = self._values.get(name.lower())
        return None if isinstance(value, str) and value.startswith(_EXPRESSION) else value

    def text(self, name: str) -> str | None:
        """Return a non-empty string, or None."""
        value = self.get(name)
        return value.strip() or None if isinstance(value, str) else None

    def words(self, name: str) -> tuple[str, ...]:
        """Return the items of a comma-separated list."""
        return tuple(word.strip() for word in (self.text(name) or "").split(",") if word.strip())

    def whole(self, name: str) -> int | None:
        """Return a whole number, or None."""
        value = self.get(name)
        return whole(value, name) if _is_number(value) else None

    def number(self, *names: str, unit: int = 1) -> float | None:
        """Return the first of these attributes that is a number, times `unit`."""
        return next(self._numbers(names, unit), None)

    def positive(self, *names: str, unit: int = 1) -> float | None:
        """Return the first of these attributes that is more than 0, for those that are 0 if unknown."""
        return next(filter(None, self._numbers(names, unit)), None)

    def _numbers(self, names: tuple[str, ...], unit: int) -> Iterator[float]:
        for name in names:
            value = self.get(name)
            known = number(str(value), name) if _is_number(value) else None
            if known is not None:
                number(str(known * unit), name)  # raises if the unit makes it implausibly large
                yield known * unit


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_ads(log: Log) -> Iterator[tuple[int, ClassAd | UnusableError]]:
    """Yield the line number and the attributes of each ad in a log, or the reason why it cannot be used."""
    first = log.head.lstrip().split("\n", 1)[0].rstrip()
    if first.startswith("{") and first.endswith("}"):
        yield from _json_lines(log)
    elif first.startswith(("[", "{")):
        yield from ((line, _ad(found)) for line, found in values(log))
    else:
        yield from _long_form(log)


def _ad(found: object) -> ClassAd | UnusableError:
    if isinstance(found, dict):
        return ClassAd(found)
    return UnusableError("is not an object with a job's attributes", f"a {type(found).__name__}")


def _json_lines(log: Log) -> Iterator[tuple[int, ClassAd | UnusableError]]:
    """Yield one ad per line; a damaged one does not affect the others."""
    for line, text in enumerate(log.lines(), start=1):
        if not text.strip():
            continue
        try:
            yield line, _ad(parse(text))
        except ValueError:
            yield line, UnusableError("is not JSON", text[:80])


def _long_form(log: Log) -> Iterator[tuple[int, ClassAd | UnusableError]]:
    begin, size, lines = 1, 0, list[str]()
    for line, text in enumerate(log.lines(), start=1):
        if text.strip() and not text.startswith(_BANNER):
            begin = begin if lines else line
            lines.append(text)
            size += len(text)
            if size > _LONGEST:
                raise log.error(f"the record of a job is longer than {_LONGEST // 2**20} MiB", begin)
        elif lines:
            yield begin, _from_lines(lines)
            size, lines = 0, []
    if lines:
        yield begin, _from_lines(lines)


def _from_lines(lines: list[str]) -> ClassAd | UnusableError:
    attributes: dict[str, object] = {}
    rest = iter(lines)
    for line in rest:
        found = _ATTRIBUTE.fullmatch(line)
        if not found:
            return UnusableError("a line is not of the form Name = value", line[:80])
        name, text = found.groups()
        if _is_open(text):
            text = "\n".join([text, *_until_quote(rest)])
            if _is_open(text):
                return UnusableError("a string is not terminated", line[:80])
        attributes[name] = value(text)
    return ClassAd(attributes)


def _is_open(text: str) -> bool:
    """Whether a string begins here and continues on the next line."""
    return text.startswith('"') and (text.count('"') - text.count('\\"')) % 2 == 1 and not _STRING.fullmatch(text)


def _until_quote(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.rstrip().endswith('"') and not line.rstrip().endswith('\\"'):
            return


def value(text: str) -> object:
    """Return the value of a literal; an expression is written as in the JSON form."""
    text = text.strip()
    if found := _STRING.fullmatch(text):
        return found[1].replace('\\"', '"')
    if _NUMBER.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() and len(text) < 30 else float(text)
    return _WORDS.get(text.lower(), f"{_EXPRESSION}{text})/")
