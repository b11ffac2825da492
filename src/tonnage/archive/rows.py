"""Attempts as rows of the archive's tables, and back."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from operator import attrgetter

from sqlalchemy import RowMapping

from tonnage.archive.identity import task_identity
from tonnage.archive.schema import RESOURCES_OF, attempts
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.units import Bytes

__all__ = ["INPUT", "OUTPUT", "attempt_row", "attempt_values", "field_rows", "task_row"]

INPUT, OUTPUT = "input", "output"
"""The fields in which the names of files are kept."""

_LONGEST = 1024  # bytes: PostgreSQL's indexes take 2,704 for a whole row
_USED = attrgetter(*(f"used.{name}" for name in RESOURCES_OF["used"]))
_REQUESTED = attrgetter(*(f"requested.{name}" for name in RESOURCES_OF["requested"]))
_ALLOCATED = attrgetter(*(f"allocated.{name}" for name in RESOURCES_OF["allocated"]))


def attempt_row(attempt: Attempt, identity: bytes, source: int, run: int | None) -> tuple[object, ...]:
    """Return the cells of a row of `attempts`, in the order of its columns but without the first, `id`."""
    one = attempt
    return (
        identity,
        _text(one.native_id),
        source,
        run,
        task_identity(one),
        one.number,
        _short(one.category),
        _short(one.label),
        _short(one.user),
        _short(one.workflow),
        _short(one.workflow_checksum),
        _short(one.executable),
        _text(one.host),
        one.submitted,
        one.started,
        one.ended,
        None if one.outcome is None else one.outcome.value,
        None if one.exhausted is None else one.exhausted.value,
        one.exit_status,
        one.signal,
        *_USED(one),
        *_REQUESTED(one),
        *_ALLOCATED(one),
        one.input_bytes,
        _text(one.memory_method),
        " ".join(one.lower_bounds) or None,
        _json(one.raw) if one.raw else None,
    )


def task_row(attempt: Attempt) -> tuple[object, ...]:
    """Return the cells of a row of `tasks`, in the order of its columns."""
    return task_identity(attempt), _short(attempt.workflow), _short(attempt.task), _text(attempt.command)


def field_rows(attempt: Attempt) -> "list[tuple[str, str]]":
    """Return keys and values: what the user said about an attempt, and the files that it read and wrote."""
    rows = [(str(_short(key)), str(_short(value))) for key, value in attempt.fields.items()]
    rows += [(INPUT, str(_short(name))) for name in attempt.inputs]
    rows += [(OUTPUT, str(_short(name))) for name in attempt.outputs]
    return rows


def attempt_values(row: RowMapping, own: Sequence[tuple[str, str]]) -> Attempt:
    """Return the attempt that a row and its fields hold; the row has the names of its run and task."""
    cells = {name: row[name] for name in _PLAIN}
    return Attempt(
        **cells,
        identity=bytes(row["identity"]),
        run=row["run_name"],
        task=row["task_name"],
        command=row["command"],
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        exhausted=None if row["exhausted"] is None else Resource(row["exhausted"]),
        used=Amounts.of(**{name: row[name] for name in RESOURCES_OF["used"]}),
        requested=Amounts.of(**{name: row[f"requested_{name}"] for name in RESOURCES_OF["requested"]}),
        allocated=Amounts.of(**{name: row[f"allocated_{name}"] for name in RESOURCES_OF["allocated"]}),
        input_bytes=None if row["input_bytes"] is None else Bytes(row["input_bytes"]),
        lower_bounds=tuple((row["lower_bounds"] or "").split()),
        raw=row["raw"] or {},
        fields={key: value for key, value in own if key not in (INPUT, OUTPUT)},
        inputs=tuple(value for key, value in own if key == INPUT),
        outputs=tuple(value for key, value in own if key == OUTPUT),
    )


_PLAIN = [
    name
    for name in (column.name for column in attempts.columns)
    if name in Attempt.__slots__
    and name not in ("identity", "run", "task", "outcome", "exhausted", "input_bytes", "lower_bounds", "raw")
]


def _short(value: str | None) -> str | None:
    """Return a text that every database can have in an index: cut where it is far longer than any name."""
    text = _text(value)
    if text is None or len(text) < _LONGEST // 4:
        return text
    return text.encode("utf-8")[:_LONGEST].decode("utf-8", "ignore")


def _text(value: str | None) -> str | None:
    """Return a text that every database takes: without NUL, and without halves of letters."""
    if value is None or (value.isascii() and "\0" not in value):
        return value
    return value.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _json(value: object) -> str:
    text = json.dumps(value, default=str)
    if "\\u0000" in text or "\\ud" in text or "NaN" in text or "Infinity" in text:
        return json.dumps(_clean(value), allow_nan=False, default=str)
    return text


def _clean(value: object) -> object:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(str(key)): _clean(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
