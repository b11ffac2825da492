"""Conditions on attempts, as users write them: ``memory>4GB``, ``requested_cores>=8``, ``exit_status!=0``."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from tonnage.errors import InputError
from tonnage.jobs import AMOUNTS, Attempt
from tonnage.units import parse_bytes
from tonnage.wording import meant

__all__ = ["OPERATORS", "Condition", "value_of"]

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_NAMES = (*AMOUNTS, "input_bytes", "exit_status", "signal", "number")
_LARGEST = 2**62
_FORM = re.compile(r"\s*(\w+)\s*(>=|<=|!=|==|>|<|=)\s*(.+?)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """A bound on an amount; an attempt whose amount is unknown does not satisfy it."""

    name: str
    """The name of the archive's column to compare."""
    operator: str
    value: float

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Parse a condition such as ``memory>4GB``."""
        found = _FORM.fullmatch(text)
        if not found:
            raise InputError(f'"{text}" is not a condition', hint="use one such as memory>4GB or exit_status!=0")
        name, sign, amount = found.groups()
        if name not in _NAMES:
            hint = meant(name, _NAMES) or f"use one of {', '.join(_NAMES)}"
            raise InputError(f'"{name}" is not an amount that can be compared', hint=hint)
        return cls(name, "=" if sign == "==" else sign, _amount(name, amount))

    def __str__(self) -> str:
        """Return the condition as text that `parse` accepts."""
        in_bytes = self.name == "input_bytes" or (self.name in AMOUNTS and AMOUNTS[self.name][1].unit == "bytes")
        amount = str(int(self.value)) if self.value.is_integer() else f"{Decimal(str(self.value)):f}"
        return f"{self.name}{self.operator}{amount}{'B' if in_bytes else ''}"

    def holds(self, attempt: Attempt) -> bool:
        """Whether an attempt satisfies the condition."""
        value = value_of(attempt, self.name)
        return value is not None and OPERATORS[self.operator](value, self.value)


def value_of(attempt: Attempt, name: str) -> float | None:
    """Return an attempt's amount, given the name of the archive's column."""
    holder: object = attempt
    if name in AMOUNTS:
        kind, name = AMOUNTS[name]
        holder = getattr(attempt, kind)
    value: float | None = getattr(holder, name)
    return value


def _amount(name: str, text: str) -> float:
    if name == "input_bytes":
        return float(parse_bytes(text))
    if name in AMOUNTS and AMOUNTS[name][1].unit != "processes":
        return AMOUNTS[name][1].parse(text)
    try:
        value = int(text)
    except ValueError:
        raise InputError(f'"{text}" is not a whole number') from None
    if abs(value) >= _LARGEST:
        raise InputError(f'"{text}" is too large')
    return float(value)
