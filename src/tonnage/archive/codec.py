"""Attempts on their way between machines: what `record` made of one becomes an attempt again, or is refused.

What comes over a network may be anything. So each key has a rule: how its value is taken, and, for those who write
clients, the same as JSON Schema.
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
"""Letters that a text may have."""

_LARGEST = 2**63 - 1
_DEEPEST = 50  # levels of what a log says under its own names
_SHOWN = 60
_IDENTITY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class _Rule:
    take: Callable[[object], Any]
    """Returns what an attempt holds; raises ValueError with what was expected."""
    schema: dict[str, object]


def attempt_of(value: object) -> Attempt:
    """Return the attempt that a record describes; a key that is missing is unknown, as None is.

    Raises InputError, which names the key, where anything is not as `record` writes it.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"an attempt is an object with names and values, not {_shown(value)}")
    taken: dict[str, Any] = {}
    amounts: dict[str, dict[str, Any]] = {"used": {}, "requested": {}, "allocated": {}}
    for key, found in value.items():
        rule = _RULES.get(key)
        if rule is None:
            raise InputError(f"{_shown(key)} is not a key of an attempt", hint=f"one of {', '.join(_RULES)}")
        if found is None:
            if key in _NEVER_NULL:
                raise InputError(f"{key}: {_NEVER_NULL[key]} is expected, not null")
            continue
        try:
            known = rule.take(found)
        except ValueError as error:
            raise InputError(f"{key}: {error} is expected, not {_shown(found)}") from None
        if key in AMOUNTS:
            kind, resource = AMOUNTS[key]
            amounts[kind][resource] = known
        else:
            taken[key] = known
    return Attempt(**taken, **{kind: Amounts.of(**known) for kind, known in amounts.items()})  # type: ignore[arg-type]


def brief_record(attempt: Attempt) -> dict[str, object]:
    """Return the record of an attempt without what is unknown, the names of files and what only its log says."""
    left_out = ("inputs", "outputs", "raw")
    found = record(attempt).items()
    return {key: value for key, value in found if value not in (None, [], {}) and key not in left_out}


def parsed(text: str | bytes) -> object:
    """Return what a JSON text says; raises InputError where it is none, or says what a number cannot be."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"is not JSON: {str(error)[:_SHOWN]}") from None


def text_of(value: object) -> str:
    """Return a value as JSON on one line, short."""
    return json.dumps(value, separators=(",", ":"), default=str)


def schema() -> dict[str, object]:
    """Return what a record may be, as JSON Schema."""
    properties = {
        key: rule.schema if key in _NEVER_NULL else {"anyOf": [rule.schema, {"type": "null"}]}
        for key, rule in _RULES.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):
        text = f"something ({type(value).__name__})"
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
        # In this order: a whole number may be too large to be made a fraction; nothing compares with NaN.
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= _LARGEST:
            raise ValueError(expected)
        return float(value)

    return _Rule(take, {"type": "number", "minimum": low, "maximum": _LARGEST})


def _take_text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ValueError(f"a text of at most {LONGEST:,} letters")
    return value


def _take_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of texts")
    return tuple(_take_text(one) for one in value)


def _take_words(value: object) -> tuple[str, ...]:
    """Take names without spaces: the archive keeps them as the words of one text."""
    return tuple(" ".join(_take_texts(value)).split())


def _take_pairs(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("an object whose values are texts")
    return {_take_text(key): _take_text(one) for key, one in value.items()}


def _take_identity(value: object) -> bytes:
    if not isinstance(value, str) or not _IDENTITY.fullmatch(value):
        raise ValueError("32 digits from 0 to f")
    return bytes.fromhex(value)


def _take_anything(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("an object")
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        if any(isinstance(one, float) and not isfinite(one) for one in level):
            raise ValueError("an object with numbers that are finite")
        level = [part for one in level for part in _parts(one)]
        if not level:
            return value
    raise ValueError(f"an object of at most {_DEEPEST} levels")


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
