"""The operators of JX: arithmetic as in C on 64-bit integers and doubles, texts, comparisons, logic."""

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from tonnage.workflow.jx.values import Budget, JXError, Value, as_text, kind

__all__ = ["applied", "prefixed"]

Number: TypeAlias = int | float

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LARGEST = 2**63


def prefixed(sign: str, value: Value) -> Value:
    """Return the result of an operator that stands before its operand."""
    if sign == "not" and isinstance(value, bool):
        return not value
    if sign in "+-" and _is_number(value):
        return -value if sign == "-" else value
    if sign == "+" and isinstance(value, str):
        return value
    raise JXError(f'"{sign}" cannot be applied to {kind(value)}')


def applied(sign: str, left: Value, right: Value, budget: Budget) -> Value:
    """Return the result of an operator between its operands."""
    if sign in ("==", "!="):
        return _equal(left, right, budget) == (sign == "==")
    if sign in ("and", "or"):
        if isinstance(left, bool) and isinstance(right, bool):
            return (left and right) if sign == "and" else (left or right)
    elif sign in _COMPARISONS:
        if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return _COMPARISONS[sign](left, right)
    elif _is_number(left) and _is_number(right):
        return _in_range(_computed(sign, left, right), sign)
    elif sign == "+":
        return _joined(left, right, budget)
    raise _mismatch(sign, left, right)


def _joined(left: Value, right: Value, budget: Budget) -> Value:
    if isinstance(left, list) and isinstance(right, list):
        budget.spend(len(left) + len(right))
        return left + right
    simple = bool | int | float | str
    if isinstance(left, simple) and isinstance(right, simple) and (isinstance(left, str) or isinstance(right, str)):
        return budget.text((as_text(left), as_text(right)))
    raise _mismatch("+", left, right)


def _computed(sign: str, left: Number, right: Number) -> Number:
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return _quotient(left, right)
        case _:
            return _remainder(left, right)


def _quotient(left: Number, right: Number) -> Number:
    if right == 0:
        raise JXError("division by zero")
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return _towards_zero(left, right)


def _remainder(left: Number, right: Number) -> Number:
    """Return the remainder with the sign of `left`; as in the real tool, doubles lose their fraction first."""
    first, second = int(left), int(right)
    if second == 0:
        raise JXError("division by zero")
    remainder = first - second * _towards_zero(first, second)
    return remainder if isinstance(left, int) and isinstance(right, int) else float(remainder)


def _towards_zero(left: int, right: int) -> int:
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def _in_range(number: Number, sign: str) -> Number:
    """Return a result that a 64-bit integer or a double can hold; the real tool goes on with a wrong one."""
    if not (math.isfinite(number) if isinstance(number, float) else -_LARGEST <= number < _LARGEST):
        raise JXError(f'the result of "{sign}" is too large')
    return number


def _equal(left: Value, right: Value, budget: Budget) -> bool:
    """Compare to any depth; 1 equals 1.0 on its own, not inside an array, as in the real tool."""
    if _is_number(left) and _is_number(right):
        return left == right
    waiting: list[tuple[Value, Value]] = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        budget.spend(1)
        if one is other:
            continue
        if type(one) is not type(other):
            return False
        if isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            waiting += zip(one, other, strict=True)
        elif isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            waiting += ((value, other[key]) for key, value in one.items())
        elif one != other:
            return False
    return True


def _is_number(value: Value) -> TypeGuard[Number]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mismatch(sign: str, left: Value, right: Value) -> JXError:
    return JXError(f'"{sign}" cannot be applied to {kind(left)} and {kind(right)}')
