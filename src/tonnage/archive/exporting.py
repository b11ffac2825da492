"""Export of attempts to CSV, JSON lines and Parquet, in bytes, seconds and cores."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.archive.registry import EXPORTERS
from tonnage.archive.schema import attempts as attempts_table
from tonnage.atomic import AtomicFile
from tonnage.errors import InputError
from tonnage.jobs import AMOUNTS, Attempt

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["csv_lines", "export", "json_lines", "parquet", "record"]

_BATCH = 10_000
_LINES = 1_000
_BYTES = [*(name for name, (_, resource) in AMOUNTS.items() if resource.unit == "bytes"), "input_bytes"]


def record(attempt: Attempt) -> dict[str, object]:
    """Return an attempt as plain values, keyed by the names of the archive's columns."""
    return {
        "identity": attempt.identity.hex() if attempt.identity else None,
        "native_id": attempt.native_id,
        "run": attempt.run,
        "workflow": attempt.workflow,
        "workflow_checksum": attempt.workflow_checksum,
        "task": attempt.task,
        "number": attempt.number,
        "category": attempt.category,
        "label": attempt.label,
        "command": attempt.command,
        "executable": attempt.executable,
        "user": attempt.user,
        "host": attempt.host,
        "submitted": attempt.submitted,
        "started": attempt.started,
        "ended": attempt.ended,
        "outcome": attempt.outcome and attempt.outcome.value,
        "exhausted": attempt.exhausted and attempt.exhausted.value,
        "exit_status": attempt.exit_status,
        "signal": attempt.signal,
        **{name: getattr(getattr(attempt, kind), resource) for name, (kind, resource) in AMOUNTS.items()},
        "input_bytes": attempt.input_bytes,
        "memory_method": attempt.memory_method,
        "lower_bounds": list(attempt.lower_bounds),
        "inputs": list(attempt.inputs),
        "outputs": list(attempt.outputs),
        "fields": dict(attempt.fields),
        "raw": dict(attempt.raw),
    }


def export(attempts: Iterable[Attempt], path: Path, format: str) -> int:
    """Write attempts to a file atomically; return how many there were."""
    counted = _Counted(attempts)
    if format == "parquet":
        _need_parquet()
    with AtomicFile(path) as file:
        for data in EXPORTERS[format](counted):
            file.write(data)
    return counted.count


class _Counted:
    def __init__(self, attempts: Iterable[Attempt]) -> None:
        self.count = 0
        self._attempts = attempts

    def __iter__(self) -> Iterator[Attempt]:
        for attempt in self._attempts:
            self.count += 1
            yield attempt


def csv_lines(attempts: Iterable[Attempt]) -> Iterator[bytes]:
    """Yield a table as CSV; the header names the unit of sizes, so that the file can be imported again."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = list(record(Attempt()))
    writer.writerow(f"{name} (B)" if name in _BYTES else name for name in names)
    for number, attempt in enumerate(attempts, start=1):
        writer.writerow(map(_cell, record(attempt).values()))
        if number % _BATCH == 0:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, list | dict):
        return json.dumps(value) if value else None
    return value


def json_lines(attempts: Iterable[Attempt]) -> Iterator[bytes]:
    """Yield the pieces of a file with one JSON object per line."""
    remaining = iter(attempts)
    while batch := list(islice(remaining, _LINES)):
        yield "".join(f"{json.dumps(record(one))}\n" for one in batch).encode()


def parquet(attempts: Iterable[Attempt]) -> Iterator[bytes]:
    """Yield the pieces of a Parquet file."""
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    schema = arrow.schema([(name, _arrow_type(name)) for name in record(Attempt())])
    sink = _Sink()
    remaining = iter(attempts)
    with ParquetWriter(sink, schema) as writer:
        while batch := list(islice(remaining, _BATCH)):
            rows = [{name: _json_text(value) for name, value in record(one).items()} for one in batch]
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file object that keeps what is written until it is fetched piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: "ReadableBuffer") -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._length += len(piece)
        return len(piece)

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _arrow_type(name: str) -> object:
    import pyarrow as arrow

    if name in ("lower_bounds", "inputs", "outputs"):
        return arrow.list_(arrow.string())
    column = attempts_table.c.get(name)
    if name in ("run", "task") or column is None:
        return arrow.string()
    return {int: arrow.int64(), float: arrow.float64()}.get(column.type.python_type, arrow.string())


def _json_text(value: object) -> object:
    """Return objects as JSON: Parquet has no type for objects of arbitrary shape."""
    return json.dumps(value) if isinstance(value, dict) else value


def _need_parquet() -> None:
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        hint = "pip install 'tonnage[parquet]'"
        raise InputError("Parquet needs the package pyarrow", hint=hint) from None
