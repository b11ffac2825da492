"""Decoding of attempts sent between machines: turns what `record` made back into an attempt, or rejects it.

Data from a network can be anything, so each key has a rule: how its value is parsed, and a JSON Schema that says the
same to authors of clients.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, NoReturn

from tonnage.archive.exporting import record
from tonnage.errors import InputError
from tonnage.jobs import AMOUNTS, Amounts, Attempt, Outcome, Resource

__all__ = ["LONGEST", "attempt_of", "brief_record", "parsed", "schema", "text_of"]

LONGEST = 2**20
"""The maximum length of a text, in characters."""

_LARGEST = 2**63 - 1
_DEEPEST = 50  # levels of nesting in `raw`, the log's own keys and values
_SHOWN = 60
_IDENTITY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class _Rule:
    take: Callable[[object], Any]
    """Returns the value for the attempt; raises ValueError saying what was expected."""
    schema: dict[str, object]


def attempt_of(value: object) -> Attempt:
    """Return the attempt that a record describes; a missing key means unknown, like None.

    Raises InputError, which names the key, if anything is not as `record` writes it.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"an attempt must be a JSON object, not {_shown(value)}")
    taken: dict[str, Any] = {}
    amounts: dict[str, dict[str, Any]] = {"used": {}, "requested": {}, "allocated": {}}
    for key, found in value.items():
        rule = _RULES.get(key)
        if rule is None:
            raise InputError(f"{_shown(key)} is not a key of an attempt", hint=f"one of {', '.join(_RULES)}")
        if found is None:
            if key in _NEVER_NULL:
                raise InputError(f"{key}: expected {_NEVER_NULL[key]}, not null")
            continue
        try:
            known = rule.take(found)
        except ValueError as error:
            raise InputError(f"{key}: expected {error}, not {_shown(found)}") from None
        if key in AMOUNTS:
            kind, resource = AMOUNTS[key]
            amounts[kind][resource] = known
        else:
            taken[key] = known
    return Attempt(**taken, **{kind: Amounts.of(**known) for kind, known in amounts.items()})  # type: ignore[arg-type]


def brief_record(attempt: Attempt) -> dict[str, object]:
    """Return the record of an attempt without unknown values, file names and `raw`."""
    left_out = ("inputs", "outputs", "raw")
    found = record(attempt).items()
    return {key: value for key, value in found if value not in (None, [], {}) and key not in left_out}


def parsed(text: str | bytes) -> object:
    """Parse JSON; raises InputError if it is invalid, or holds NaN or an infinity."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"is not JSON: {str(error)[:_SHOWN]}") from None


def text_of(value: object) -> str:
    """Return a value as compact JSON on one line."""
    return json.dumps(value, separators=(",", ":"), default=str)


def schema() -> dict[str, object]:
    """Return the JSON Schema of a record."""
    properties = {
        key: rule.schema if key in _NEVER_NULL else {"anyOf": [rule.schema, {"type": "null"}]}
        for key, rule in _RULES.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# The rules


def _whole(low: int) -> _Rule:
    expected = "a whole number from 0 to 2^63 - 1" if low == 0 else "a whole number of at most 63 bits"

    def take(value: object) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= _LARGEST:
            raise ValueError(expected)
        return number

    return _Rule(take, {"type": "integer", "minimum": low, "maximum": _LARGEST})


def _number(low: int) -> _Rule:
    expected = "a number from 0 to 2^63 - 1" if low == 0 else "a number of at most 63 bits"

    def take(value: object) -> float:
        # Compare before converting: an integer may be too large for a float. Every comparison with NaN is false.
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= _LARGEST:
            raise ValueError(expected)
        return float(value)

    return _Rule(take, {"type": "number", "minimum": low, "maximum": _LARGEST})


def _take_text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ValueError(f"a string of at most {LONGEST:,} characters")
    return value


def _take_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of strings")
    return tuple(_take_text(one) for one in value)


def _take_words(value: object) -> tuple[str, ...]:
    """Split names at spaces: the archive stores them as one space-separated text."""
    return tuple(" ".join(_take_texts(value)).split())


def _take_pairs(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("an object whose values are strings")
    return {_take_text(key): _take_text(one) for key, one in value.items()}


def _take_identity(value: object) -> bytes:
    if not isinstance(value, str) or not _IDENTITY.fullmatch(value):
        raise ValueError("32 hexadecimal digits in lower case")
    return bytes.fromhex(value)


def _take_anything(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("an object")
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        if any(isinstance(one, float) and not isfinite(one) for one in level):
            raise ValueError("an object whose numbers are finite")
        level = [part for one in level for part in _parts(one)]
        if not level:
            return value
    raise ValueError(f"an object nested at most {_DEEPEST} levels deep")


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _one_of(names: type[StrEnum]) -> _Rule:
    known = {name.value: name for name in names}

    def take(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return known[value]

    return _Rule(take, {"type": "string", "enum": list(known)})


_A_TEXT: dict[str, object] = {"type": "string", "maxLength": LONGEST}
_TEXT = _Rule(_take_text, _A_TEXT)
_TEXTS = _Rule(_take_texts, {"type": "array", "items": _A_TEXT})
_MOMENT, _COUNT = _number(-_LARGEST), _whole(-_LARGEST)
_SPECIAL = {
    "identity": _Rule(
        _take_identity, {"type": "string", "pattern": _IDENTITY.pattern, "minLength": 32, "maxLength": 32}
    ),
    "number": _COUNT,
    "submitted": _MOMENT,
    "started": _MOMENT,
    "ended": _MOMENT,
    "outcome": _one_of(Outcome),
    "exhausted": _one_of(Resource),
    "exit_status": _COUNT,
    "signal": _COUNT,
    "input_bytes": _whole(0),
    "lower_bounds": _Rule(_take_words, _TEXTS.schema),
    "inputs": _TEXTS,
    "outputs": _TEXTS,
    "fields": _Rule(_take_pairs, {"type": "object", "additionalProperties": _A_TEXT}),
    "raw": _Rule(_take_anything, {"type": "object"}),
}
_NEVER_NULL = {
    "number": "a whole number",
    "lower_bounds": "a list",
    "inputs": "a list",
    "outputs": "a list",
    "fields": "an object",
    "raw": "an object",
}


def _rule(key: str) -> _Rule:
    if key in AMOUNTS:
        return _whole(0) if AMOUNTS[key][1].unit in ("bytes", "processes") else _number(0)
    return _SPECIAL.get(key, _TEXT)


_RULES = {key: _rule(key) for key in record(Attempt())}
