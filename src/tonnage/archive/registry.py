"""What can be chosen about the archive, by the names that the command line has for it."""

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
"""What writes attempts as a file, piece by piece."""
ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
"""Which of EXPORTERS the ending of a file names."""
GROUPS = ("category", "label", "user", "workflow", "executable", "source")
"""What attempts can be grouped by."""
