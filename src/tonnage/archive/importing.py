"""Logs into the archive: a batch at a time, so that memory stays small and an interruption costs little."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from time import sleep

from tonnage.archive.engine import lost_connection
from tonnage.archive.identity import Identities
from tonnage.archive.store import Archive
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Attempt, Resource
from tonnage.logs.log import Assumed, Entry, Skipped

__all__ = ["Report", "import_entries"]

_BATCH = 10_000
_PATIENCE = (1, 2, 4, 8, 16)  # seconds until a lost server is tried again
_EXAMPLES = 3


@dataclass
class Report:
    """What an import did with one source."""

    source: str
    format: str
    read: int = 0
    stored: int = 0
    duplicates: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """How many rows were skipped, by the reason."""
    examples: dict[str, list[Skipped]] = field(default_factory=dict)
    known: Counter[str] = field(default_factory=Counter)
    """Of how many attempts each resource's use is known."""
    assumed: list[str] = field(default_factory=list)

    @property
    def skipped(self) -> int:
        """How many rows could not be used."""
        return self.reasons.total()

    def note(self, entry: Entry) -> None:
        """Count what a reader yielded."""
        if isinstance(entry, Assumed):
            if entry.what not in self.assumed:
                self.assumed.append(entry.what)
            return
        self.read += 1
        if isinstance(entry, Skipped):
            self.reasons[entry.reason] += 1
            examples = self.examples.setdefault(entry.reason, [])
            if len(examples) < _EXAMPLES:
                examples.append(entry)


def import_entries(
    archive: Archive,
    entries: Iterator[Entry],
    report: Report,
    *,
    label: str,
    path: str | None = None,
    fields: Mapping[str, str] | None = None,
    strict: bool = False,
    progress: Callable[[Report], None] | None = None,
) -> None:
    """Store what a reader yields, noting in the report what becomes of it.

    With `strict`, the first row that cannot be used ends the import; batches before it stay.
    """
    source = archive.source(label, report.format, path)
    identities = Identities(label)
    while batch := list(islice(entries, _BATCH)):
        attempts = []
        for entry in batch:
            report.note(entry)
            if isinstance(entry, Attempt):
                attempts.append(replace(entry, fields={**entry.fields, **fields}) if fields else entry)
            elif strict and isinstance(entry, Skipped):
                raise InputError(_said(entry), path=path, line=entry.line)
        stored = _stored(archive, attempts, identities.of(attempts), source)
        report.stored += stored
        report.duplicates += len(attempts) - stored
        for resource in Resource:
            report.known[resource] += sum(getattr(attempt.used, resource) is not None for attempt in attempts)
        if progress:
            progress(report)


def _stored(archive: Archive, attempts: list[Attempt], identities: list[bytes], source: int) -> int:
    """Store a batch; a server that went away may come back, and what was stored twice is there once."""
    for pause in _PATIENCE:
        try:
            return archive.add(attempts, identities, source)
        except TonnageError as error:
            if not lost_connection(error):
                raise
            archive.engine.dispose()
            sleep(pause)
    return archive.add(attempts, identities, source)


def _said(entry: Skipped) -> str:
    return f"{entry.reason}: {entry.found}" if entry.found else entry.reason
