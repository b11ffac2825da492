"""Choices for the archive's options, by their names on the command line."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from tonnage.jobs import Attempt

__all__ = ["ENDINGS", "EXPORTERS", "GROUPS"]

EXPORTERS: "dict[str, Callable[[Iterable[Attempt]], Iterator[bytes]]]" = {
    "csv": Deferred("tonnage.archive.exporting:csv_lines"),
    "jsonl": Deferred("tonnage.archive.exporting:json_lines"),
    "parquet": Deferred("tonnage.archive.exporting:parquet"),
}
"""Functions that turn attempts into the pieces of a file, by format."""
ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
"""Keys of EXPORTERS by file name extension."""
GROUPS = ("category", "label", "user", "workflow", "executable", "source")
"""What attempts can be grouped by."""
