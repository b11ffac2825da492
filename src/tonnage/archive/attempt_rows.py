"""Conversion between attempts and rows of the archive's tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING

from tonnage.archive.identity import number_of, task_identity
from tonnage.archive.tables import COLUMNS
from tonnage.archive.texts import clean, short
from tonnage.jobs import AMOUNTS, Amounts, Attempt, Outcome, Resource
from tonnage.units import Bytes

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

__all__ = ["INPUT", "OUTPUT", "Batch", "attempt_values"]

INPUT, OUTPUT = "input", "output"
"""The roles that files have in an attempt."""

_AMOUNTS = attrgetter(*(f"{kind}.{resource}" for kind, resource in AMOUNTS.values()))


@dataclass(slots=True)
class Batch:
    """Attempts of one source, as rows to be stored in one transaction."""

    source: int
    imported: float
    fields_of_all: Mapping[str, str] = field(default_factory=dict)
    """Fields added to every attempt."""
    attempts: list[tuple[object, ...]] = field(default_factory=list)
    """Rows of `attempts`: values in the order of its columns, without the first, `id`."""
    tasks: dict[bytes, tuple[object, ...]] = field(default_factory=dict)
    runs: dict[int, tuple[object, ...]] = field(default_factory=dict)
    fields: list[tuple[bytes, str, str]] = field(default_factory=list)
    """Identity of the attempt, key and value."""
    files: list[tuple[bytes, str, str]] = field(default_factory=list)
    """Identity of the attempt, role and name."""
    letters: int = 0
    """Approximate number of characters in the attempts' texts."""

    def __len__(self) -> int:
        return len(self.attempts)

    @classmethod
    def joined(cls, batches: "Sequence[Batch]") -> "Batch":
        """Merge several batches into one; each row keeps its own source."""
        whole = cls(batches[0].source, batches[0].imported)
        for batch in batches:
            whole.attempts += batch.attempts
            whole.tasks.update(batch.tasks)
            whole.runs.update(batch.runs)
            whole.fields += batch.fields
            whole.files += batch.files
            whole.letters += batch.letters
        return whole

    def add(self, attempt: Attempt, identity: bytes) -> None:
        """Add the rows of an attempt."""
        task = task_identity(attempt)
        if task is not None and task not in self.tasks:
            self.tasks[task] = task, short(attempt.workflow), short(attempt.task), clean(attempt.command)
        run = None
        if attempt.run is not None:
            run = number_of(attempt.run)
            facts = (short(attempt.run), short(attempt.workflow), short(attempt.workflow_checksum))
            self.runs.setdefault(run, (run, *facts))
        self.attempts.append(self._row(attempt, identity, run, task))
        self.letters += len(attempt.row)
        named = {**attempt.fields, **self.fields_of_all} if self.fields_of_all else attempt.fields
        self.fields += [(identity, str(short(key)), str(short(value))) for key, value in named.items()]
        for role, names in ((INPUT, attempt.inputs), (OUTPUT, attempt.outputs)):
            self.files += [(identity, role, str(short(name))) for name in names]

    def _row(self, attempt: Attempt, identity: bytes, run: int | None, task: bytes | None) -> tuple[object, ...]:
        return (
            identity,
            clean(attempt.native_id),
            self.source,
            self.imported,
            run,
            task,
            attempt.number,
            short(attempt.category),
            short(attempt.label),
            short(attempt.user),
            short(attempt.workflow),
            short(attempt.workflow_checksum),
            short(attempt.executable),
            clean(attempt.host),
            attempt.submitted,
            attempt.started,
            attempt.ended,
            None if attempt.outcome is None else attempt.outcome.value,
            None if attempt.exhausted is None else attempt.exhausted.value,
            attempt.exit_status,
            attempt.signal,
            *_AMOUNTS(attempt),
            attempt.input_bytes,
            clean(attempt.memory_method),
            " ".join(attempt.lower_bounds) or None,
            _json(attempt.raw) if attempt.raw else None,
        )


_PLAIN = [
    name
    for name in COLUMNS["attempts"]
    if name in Attempt.__slots__
    and name not in ("identity", "run", "task", "outcome", "exhausted", "input_bytes", "lower_bounds", "raw")
]


def attempt_values(row: "RowMapping", fields: Mapping[str, str], files: Sequence[tuple[str, str]]) -> Attempt:
    """Return the attempt in a row joined with the names of its run and task; files are pairs of role and name."""
    amounts: dict[str, dict[str, float | None]] = {"used": {}, "requested": {}, "allocated": {}}
    for name, (kind, resource) in AMOUNTS.items():
        amounts[kind][resource] = row[name]
    return Attempt(
        **{name: row[name] for name in _PLAIN},
        identity=bytes(row["identity"]),
        run=row["run_name"],
        task=row["task_name"],
        command=row["command"],
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        exhausted=None if row["exhausted"] is None else Resource(row["exhausted"]),
        **{kind: Amounts.of(**values) for kind, values in amounts.items()},  # type: ignore[arg-type]
        input_bytes=None if row["input_bytes"] is None else Bytes(row["input_bytes"]),
        lower_bounds=tuple((row["lower_bounds"] or "").split()),
        raw=row["raw"] or {},
        fields=fields,
        inputs=tuple(name for role, name in files if role == INPUT),
        outputs=tuple(name for role, name in files if role == OUTPUT),
    )


def _json(value: object) -> str:
    try:
        text = json.dumps(value, default=str)
        if "\\u0000" in text or "\\ud" in text or "NaN" in text or "Infinity" in text:
            return json.dumps(_all_clean(value), allow_nan=False, default=str)
    except RecursionError:  # nothing that deeply nested is of any use
        return "{}"
    return text


def _all_clean(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _all_clean(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_all_clean(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
