"""Evaluate JX: from a syntax tree to plain values.

Operators work as in C, on 64-bit integers and doubles; they also join strings and arrays, compare, and negate.
"""

import difflib
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias, TypeGuard

from tonnage.workflow.jx.functions import FUNCTIONS, OUTSIDE, checked, filled
from tonnage.workflow.jx.syntax import (
    Call,
    Chain,
    Constant,
    Entry,
    Listing,
    Lookup,
    Node,
    Prefix,
    Record,
    Slice,
    Symbol,
    parse,
)
from tonnage.workflow.jx.values import Budget, JXError, Value, as_text, kind

__all__ = ["evaluate"]

_Number: TypeAlias = int | float

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LARGEST = 2**63


def _prefixed(sign: str, value: Value) -> Value:
    """Return the result of a prefix operator."""
    if sign == "not" and isinstance(value, bool):
        return not value
    if sign in "+-" and _is_number(value):
        return -value if sign == "-" else value
    if sign == "+" and isinstance(value, str):
        return value
    raise JXError(f'"{sign}" cannot be applied to {kind(value)}')


def _applied(sign: str, left: Value, right: Value, budget: Budget) -> Value:
    """Return the result of a binary operator."""
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


def _computed(sign: str, left: _Number, right: _Number) -> _Number:
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


def _quotient(left: _Number, right: _Number) -> _Number:
    if right == 0:
        raise JXError("division by zero")
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return _towards_zero(left, right)


def _remainder(left: _Number, right: _Number) -> _Number:
    """Return the remainder with the sign of `left`; as in the real tool, doubles are truncated first."""
    first, second = int(left), int(right)
    if second == 0:
        raise JXError("division by zero")
    remainder = first - second * _towards_zero(first, second)
    return remainder if isinstance(left, int) and isinstance(right, int) else float(remainder)


def _towards_zero(left: int, right: int) -> int:
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def _in_range(number: _Number, sign: str) -> _Number:
    """Check that a result fits into a 64-bit integer or a double; the real tool continues with a wrong one."""
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


def _is_number(value: Value) -> TypeGuard[_Number]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mismatch(sign: str, left: Value, right: Value) -> JXError:
    return JXError(f'"{sign}" cannot be applied to {kind(left)} and {kind(right)}')


Names: TypeAlias = Mapping[str, Value]

_FILTERS = frozenset(("project", "select", "where"))
_IN_CONTEXT = _FILTERS | {"template"}

# The cost of evaluating a definition once more: definitions of definitions double the work with each step.
_DEFINITION = 20
# Each takes two of the 1000 nested calls that Python allows.
_DEEPEST = 250


def evaluate(text: str) -> Value:
    """Return the value of a JX text; its top-level ``define`` names values for the rest of the text.

    Raises JXError, with a line, if the text is not JX, cannot be evaluated or would generate too much.
    """
    tree = parse(text)
    evaluator = _Evaluator(dict(_definitions(tree)))
    return evaluator.result(tree)


def _definitions(tree: Node) -> Iterator[tuple[str, Node]]:
    """Yield the definitions in the top-level ``define`` of a workflow."""
    for key, value in tree.entries if isinstance(tree, Record) else ():
        if isinstance(key, Constant) and key.value == "define" and isinstance(value, Record):
            yield from ((str(name.value), node) for name, node in value.entries if isinstance(name, Constant))


class _Evaluator:
    """Evaluates one tree; local names (of loops and objects) are passed down, definitions are valid everywhere.

    As in the real tool a definition is an expression, evaluated where it is used: in ``[y for x in range(3)]`` with
    ``y`` defined as ``x + 1``, each ``y`` differs. Definitions that do not depend on local names are evaluated once.
    """

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._known: dict[str, tuple[Value, frozenset[str]]] = {}
        self._asked: set[str] = set()
        self._pending: list[str] = []
        self._budget = Budget()
        self._depth = 0

    def result(self, tree: Node) -> Value:
        for name, node in self._definitions.items():
            self._value(Symbol(node.line, name), {})
        return self._value(tree, {})

    def _value(self, node: Node, names: Names) -> Value:
        if isinstance(node, Constant):
            return node.value
        self._depth += 1
        if self._depth > _DEEPEST:
            raise JXError(f"is nested more than {_DEEPEST} deep, definitions included", node.line)
        try:
            self._budget.spend(1)
            value = _MEANING[type(node)](self, node, names)
        except JXError as error:
            error.line = error.line or node.line
            raise
        self._depth -= 1
        return value

    def _symbol(self, node: Symbol, names: Names) -> Value:
        return self._named(node.name, names)

    def _named(self, name: str, names: Names) -> Value:
        self._asked.add(name)
        if name in names:
            return names[name]
        if name in self._known:
            value, asked = self._known[name]
            if asked.isdisjoint(names):
                self._asked |= asked
                return value
        if name not in self._definitions:
            known = list(islice((*names, *self._definitions), 1000))
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            hint = f'did you mean "{close[0]}"?' if close else None
            raise JXError(f'"{name}" is not defined', hint=hint)
        return self._defined(name, names)

    def _defined(self, name: str, names: Names) -> Value:
        """Evaluate a definition, and remember its value if it does not depend on local names."""
        if name in self._pending:
            circle = " -> ".join([*self._pending[self._pending.index(name) :], name])
            raise JXError(f"the definition of {name} depends on itself: {circle}")
        self._pending.append(name)
        before, self._asked = self._asked, {name}
        value = self._value(self._definitions[name], names)
        asked = frozenset(self._asked)
        self._budget.spend(_DEFINITION + len(asked))
        if asked.isdisjoint(names):
            self._known[name] = value, asked
        self._asked |= before
        self._pending.pop()
        return value

    def _prefix(self, node: Prefix, names: Names) -> Value:
        return _prefixed(node.operator, self._value(node.operand, names))

    def _chain(self, node: Chain, names: Names) -> Value:
        value = self._value(node.first, names)
        for sign, operand in node.rest:
            value = _applied(sign, value, self._value(operand, names), self._budget)
        return value

    def _lookup(self, node: Lookup, names: Names) -> Value:
        container, index = self._value(node.container, names), self._value(node.index, names)
        if isinstance(container, dict) and isinstance(index, str):
            if index not in container:
                raise JXError(f'the object has no key "{index}"')
            return container[index]
        if not isinstance(container, list) or not isinstance(index, int) or isinstance(index, bool):
            raise JXError(f"cannot look up {kind(index)} in {kind(container)}: arrays take integers, objects strings")
        if not -len(container) <= index < len(container):
            raise JXError(f"index {index} is out of range for an array of {len(container)}")
        return container[index]

    def _slice(self, node: Slice, names: Names) -> Value:
        container = self._value(node.container, names)
        start, stop = self._bound(node.start, names), self._bound(node.stop, names)
        if not isinstance(container, list):
            raise JXError(f"only arrays can be sliced with [n:m], not {kind(container)}")
        found = container[start:stop]
        self._budget.spend(len(found))
        return found

    def _bound(self, node: Node | None, names: Names) -> int | None:
        if node is None:
            return None
        bound = self._value(node, names)
        if isinstance(bound, int) and not isinstance(bound, bool):
            return bound
        raise JXError(f"the bounds of a slice [n:m] must be integers, not {kind(bound)}")

    def _listing(self, node: Listing, names: Names) -> Value:
        found: list[Value] = []
        for entry in node.entries:
            self._depth += len(entry.loops)
            self._repeat(entry, 0, names, found)
            self._depth -= len(entry.loops)
        return found

    def _repeat(self, entry: Entry, number: int, names: Names, found: list[Value]) -> None:
        """Append an entry's value once for each iteration of its loops, from the loop of this number inwards."""
        if number == len(entry.loops):
            found.append(self._value(entry.value, names))
            return
        loop = entry.loops[number]
        array = self._value(loop.array, names)
        if not isinstance(array, list):
            raise JXError(f'"for {loop.name} in" needs an array, found {kind(array)}', loop.array.line)
        for item in array:
            inner = {**names, loop.name: item}
            self._budget.spend(len(inner))
            if loop.condition is None or self._holds(loop.condition, inner):
                self._repeat(entry, number + 1, inner, found)

    def _holds(self, condition: Node, names: Names) -> bool:
        value = self._value(condition, names)
        if not isinstance(value, bool):
            raise JXError(f"a condition must be true or false, found {kind(value)}", condition.line)
        return value

    def _record(self, node: Record, names: Names) -> Value:
        found: dict[str, Value] = {}
        for key_node, value_node in node.entries:
            key = self._value(key_node, names)
            if not isinstance(key, str):
                raise JXError(f"a key must be a string, found {kind(key)}", key_node.line)
            if key in found:
                raise JXError(f'the key "{key}" is given twice', key_node.line)
            found[key] = self._value(value_node, names)
        return found

    def _call(self, node: Call, names: Names) -> Value:
        if node.name in OUTSIDE:
            raise JXError(f"{node.name}() reads data from outside the file, which Tonnage does not allow")
        if node.name in _IN_CONTEXT:
            return self._call_in_context(node, names)
        function = FUNCTIONS.get(node.name)
        if function is None:
            close = difflib.get_close_matches(node.name, [*FUNCTIONS, *_IN_CONTEXT], n=1, cutoff=0.7)
            hint = f"did you mean {close[0]}()?" if close else None
            raise JXError(f"there is no function {node.name}()", hint=hint)
        arguments = [self._value(argument, names) for argument in node.arguments]
        if not function.least <= len(arguments) <= function.most:
            raise JXError(f"{node.name}() takes {function.takes}, found {len(arguments)}")
        return function.result(arguments, self._budget)

    def _call_in_context(self, node: Call, names: Names) -> Value:
        if node.name in _FILTERS:
            return self._filtered(node, names)
        if not 1 <= len(node.arguments) <= 2:
            raise JXError("template() takes a string and, optionally, an object")
        template, *more = (self._value(argument, names) for argument in node.arguments)
        inner = self._inside(names, checked("template", more[0], dict)) if more else names
        return filled(checked("template", template, str), lambda name: self._named(name, inner), self._budget)

    def _filtered(self, node: Call, names: Names) -> Value:
        """Evaluate an expression for each object of an array, with the object's keys as names."""
        if len(node.arguments) != 2:
            raise JXError(f"{node.name}() takes an array of objects and an expression")
        objects = checked(node.name, self._value(node.arguments[0], names), list)
        found: list[Value] = []
        for one in objects:
            inner = self._inside(names, checked(node.name, one, dict))
            if node.name == "project":
                found.append(self._value(node.arguments[1], inner))
            elif self._holds(node.arguments[1], inner):
                found.append(one)
        return found

    def _inside(self, names: Names, more: Names) -> Names:
        self._budget.spend(len(names) + len(more))
        return {**names, **more}


_MEANING: dict[type[Node], Callable[[_Evaluator, Any, Names], Value]] = {
    Symbol: _Evaluator._symbol,
    Prefix: _Evaluator._prefix,
    Chain: _Evaluator._chain,
    Lookup: _Evaluator._lookup,
    Slice: _Evaluator._slice,
    Call: _Evaluator._call,
    Listing: _Evaluator._listing,
    Record: _Evaluator._record,
}
