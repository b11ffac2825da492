"""The functions of JX that depend only on their arguments."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tonnage.workflow.jx.patterns import matches
from tonnage.workflow.jx.values import Budget, JXError, Value, as_text, kind

__all__ = ["FUNCTIONS", "OUTSIDE", "checked", "filled"]

Arguments: TypeAlias = list[Value]
Kind = TypeVar("Kind", str, list[Value], dict[str, Value])

OUTSIDE = frozenset(("fetch", "listdir"))
"""Functions of the real tool that read files or the network, which merely reading a workflow must not do."""

_SPECIFIER = re.compile(r"%(.?)", re.DOTALL)
_PLACE = re.compile(r"\{\{|\}\}|\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}|[{}]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Function:
    """How many arguments a function takes, and what it returns."""

    least: int
    most: float
    result: Callable[[Arguments, Budget], Value]

    @property
    def takes(self) -> str:
        """How many arguments the function takes, as text for messages."""
        if self.least == self.most:
            return "1 argument" if self.least == 1 else f"{self.least} arguments"
        return f"{self.least} {'or more' if self.most == math.inf else f'to {self.most}'} arguments"


def checked(name: str, value: Value, expected: type[Kind]) -> Kind:
    """Return an argument of the expected type, or raise an error that says what was found instead."""
    if isinstance(value, expected):
        return value
    wanted = {str: "a string", list: "an array", dict: "an object"}[expected]
    raise JXError(f"{name}(): expected {wanted}, found {_described(value)}")


def filled(template: str, value_of: Callable[[str], Value], budget: Budget) -> str:
    """Replace each ``{name}`` with its value; ``{{`` and ``}}`` stand for braces."""
    parts: list[str] = []
    end = 0
    for place in _PLACE.finditer(template):
        parts.append(template[end : place.start()])
        end = place.end()
        if place.group(1):
            parts.append(_inserted(place.group(1), value_of(place.group(1))))
        elif len(place.group()) == 2:
            parts.append(place.group()[0])
        else:
            found = f'the "{place.group()}" in {template[:60]!r} is not part of a {{name}}'
            raise JXError(f"template(): {found}", hint="write a literal brace twice: {{ or }}")
    return budget.text([*parts, template[end:]])


def _inserted(name: str, value: Value) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise JXError(f"template(): {name} is {_described(value)}; expected a number or a string")
    return as_text(value)


def _described(value: Value) -> str:
    if value is None or isinstance(value, bool | int | float):
        return "null" if value is None else f"{kind(value)} {as_text(value)}"
    return f"the string {value[:40]!r}" if isinstance(value, str) else f"an {kind(value)}"


def _whole(value: Value) -> int | None:
    """Return an integer, also from a float that ceil() or floor() returned (the real tool rejects those)."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _range(arguments: Arguments, budget: Budget) -> Value:
    bounds = [number for number in map(_whole, arguments) if number is not None]
    if len(bounds) < len(arguments):
        raise JXError(f"range(): expected integers, found {', '.join(map(_described, arguments))}")
    if len(bounds) == 3 and bounds[2] == 0:
        raise JXError("range(): the step must not be 0")
    found = range(*bounds)
    try:
        budget.spend(len(found))
    except OverflowError:  # longer than any list can be
        budget.spend(2**63)
    return list(found)


def _format(arguments: Arguments, budget: Budget) -> Value:
    pattern, rest = checked("format", arguments[0], str), iter(arguments[1:])
    parts: list[str] = []
    end = 0
    for place in _SPECIFIER.finditer(pattern):
        parts.append(pattern[end : place.start()])
        end = place.end()
        parts.append("%" if place.group(1) == "%" else _formatted(place.group(), rest))
    if list(rest):
        raise JXError(f"format(): more arguments than placeholders in {pattern[:60]!r}")
    return budget.text([*parts, pattern[end:]])


def _formatted(specifier: str, rest: Iterator[Value]) -> str:
    letter = specifier[1:]
    if letter not in tuple("sdieEfFgG"):
        hint = "use %s, %d, %i, %e, %f, %g or %%, without widths"
        raise JXError(f'format(): "{specifier}" is not a placeholder', hint=hint)
    value = next(rest, rest)
    if isinstance(value, Iterator):
        raise JXError(f"format(): there is no argument for {specifier}")
    if letter == "s" and isinstance(value, str):
        return value
    if letter in "di" and (number := _whole(value)) is not None:
        return str(number)
    if letter not in "sdi" and isinstance(value, float):
        return specifier % value
    raise JXError(f"format(): {specifier} cannot format {_described(value)}")


def _len(arguments: Arguments, _budget: Budget) -> Value:
    return len(checked("len", arguments[0], list))


def _join(arguments: Arguments, budget: Budget) -> Value:
    between = checked("join", arguments[1], str) if len(arguments) > 1 else " "
    return budget.text([checked("join", part, str) for part in checked("join", arguments[0], list)], between)


def _rounded(name: str, direction: Callable[[float], int]) -> Callable[[Arguments, Budget], Value]:
    def result(arguments: Arguments, _budget: Budget) -> Value:
        value = arguments[0]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise JXError(f"{name}(): expected a number, found {_described(value)}")
        return float(direction(value)) if isinstance(value, float) else value

    return result


def _basename(arguments: Arguments, _budget: Budget) -> Value:
    path = checked("basename", arguments[0], str)
    suffix = checked("basename", arguments[1], str) if len(arguments) > 1 else ""
    stripped = path.rstrip("/")
    if not stripped:
        return "/" if path else "."
    return stripped.rpartition("/")[2].removesuffix(suffix)


def _dirname(arguments: Arguments, _budget: Budget) -> Value:
    path = checked("dirname", arguments[0], str)
    folder, slash, _ = path.rstrip("/").rpartition("/")
    if not slash:
        return "/" if path and not path.strip("/") else "."
    return folder.rstrip("/") or "/"


def _escape(arguments: Arguments, budget: Budget) -> Value:
    """Quote a string for the shell, in double quotes."""
    return budget.text(['"', re.sub(r'(["$`\\])', r"\\\1", checked("escape", arguments[0], str)), '"'])


def _like(arguments: Arguments, budget: Budget) -> Value:
    return matches(checked("like", arguments[1], str), checked("like", arguments[0], str), budget)


def _schema(arguments: Arguments, _budget: Budget) -> Value:
    objects = arguments if isinstance(arguments[0], dict) else checked("schema", arguments[0], list)
    found: dict[str, Value] = {}
    for one in objects:
        for key, value in checked("schema", one, dict).items():
            found.setdefault(key, kind(value))
    return found


# The real tool lists the entries of an object from the last to the first, and commands built from them depend on that.


def _keys(arguments: Arguments, budget: Budget) -> Value:
    return [pair[0] for pair in _pairs("keys", arguments, budget)]


def _values(arguments: Arguments, budget: Budget) -> Value:
    return [pair[1] for pair in _pairs("values", arguments, budget)]


def _items(arguments: Arguments, budget: Budget) -> Value:
    return [list(pair) for pair in _pairs("items", arguments, budget)]


def _pairs(name: str, arguments: Arguments, budget: Budget) -> list[tuple[str, Value]]:
    found = checked(name, arguments[0], dict)
    budget.spend(3 * len(found))
    return list(reversed(found.items()))


def _error(arguments: Arguments, _budget: Budget) -> Value:
    raise JXError(checked("error", arguments[0], str))


FUNCTIONS = {
    "basename": Function(1, 2, _basename),
    "ceil": Function(1, 1, _rounded("ceil", math.ceil)),
    "dirname": Function(1, 1, _dirname),
    "error": Function(1, 1, _error),
    "escape": Function(1, 1, _escape),
    "floor": Function(1, 1, _rounded("floor", math.floor)),
    "format": Function(1, math.inf, _format),
    "items": Function(1, 1, _items),
    "join": Function(1, 2, _join),
    "keys": Function(1, 1, _keys),
    "len": Function(1, 1, _len),
    "like": Function(2, 2, _like),
    "range": Function(1, 3, _range),
    "schema": Function(1, 1, _schema),
    "values": Function(1, 1, _values),
}
