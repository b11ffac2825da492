"""The values of JX, the error it raises, and the limits on what it can generate."""

from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Budget", "JXError", "Value", "as_text", "kind"]

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    list: "array",
    dict: "object",
}

_MOST_VALUES = 20_000_000
_MOST_CHARACTERS = 500_000_000


class JXError(Exception):
    """A text that is not JX or cannot be evaluated, with the line of the problem."""

    def __init__(self, message: str, line: int | None = None, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


class Budget:
    """Counts what an evaluation generates, and stops it before it uses up memory or time."""

    def __init__(self, values: int = _MOST_VALUES, characters: int = _MOST_CHARACTERS) -> None:
        self._values = values
        self._characters = characters

    def spend(self, values: int) -> None:
        """Count values that are about to be generated."""
        self._values -= values
        if self._values < 0:
            raise JXError(f"generates more than {_MOST_VALUES:,} values")

    def text(self, parts: Sequence[str], between: str = "") -> str:
        """Join strings, counting their characters first."""
        self._characters -= sum(map(len, parts)) + len(between) * len(parts)
        if self._characters < 0:
            raise JXError(f"generates more than {_MOST_CHARACTERS:,} characters of text")
        return between.join(parts)


def kind(value: Value) -> str:
    """Return JX's name for a value's type."""
    return _KINDS[type(value)]


def as_text(value: bool | int | float | str) -> str:
    """Return a value as it is written inside a string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.16g}" if isinstance(value, float) else str(value)
