"""Import of logs into the archive, batch by batch: this takes little memory, and an interruption loses little."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import sleep, time

from tonnage.archive.attempt_rows import Batch
from tonnage.archive.identity import Identities, number_of
from tonnage.archive.store import Archive
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Attempt, Resource
from tonnage.logs.log import Assumed, Entry, Skipped
from tonnage.logs.sources import Source

__all__ = ["Report", "import_source"]

# Each commit writes every page that it touched, and identities are spread all over their index, so commits should be
# rare. Nothing is read during one, since a log that arrives slowly through a pipe would keep other writers waiting.
_FIRST_BATCH, _LARGEST_BATCH = 10_000, 100_000
_LETTERS = 2**26  # characters in the rows of a batch
_READ_AT_ONCE = 5_000
_RETRY_DELAYS = (1, 2, 4, 8, 16)  # seconds between retries after the connection to a server is lost
_EXAMPLES = 3
_LARGEST = 2**63


@dataclass
class Report:
    """What an import did with one source."""

    source: str
    format: str
    read: int = 0
    stored: int = 0
    duplicates: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """How many rows were skipped, by reason."""
    examples: dict[str, list[Skipped]] = field(default_factory=dict)
    known: Counter[Resource] = field(default_factory=Counter)
    """For how many attempts the use of each resource is known."""
    assumed: list[str] = field(default_factory=list)
    bad: int = 0
    """How many of the skipped rows are invalid."""

    @property
    def skipped(self) -> int:
        """How many rows were skipped in total."""
        return self.reasons.total()

    def facts(self) -> dict[str, object]:
        """Return all of it as plain values."""
        attempts = self.stored + self.duplicates
        return {
            "source": self.source,
            "format": self.format,
            "read": self.read,
            "stored": self.stored,
            "duplicates": self.duplicates,
            "skipped": self.skipped,
            "reasons": dict(self.reasons),
            "examples": {
                reason: [{"line": example.line, "found": example.found} for example in examples]
                for reason, examples in self.examples.items()
            },
            "known": {str(name): count / attempts if attempts else 0.0 for name, count in self.known.items()},
            "assumed": self.assumed,
        }

    def note(self, entry: Entry) -> None:
        """Count an entry that a reader yielded."""
        if isinstance(entry, Assumed):
            if entry.what not in self.assumed:
                self.assumed.append(entry.what)
            return
        self.read += 1
        if isinstance(entry, Skipped):
            self.reasons[entry.reason] += 1
            self.bad += not entry.healthy
            examples = self.examples.setdefault(entry.reason, [])
            if len(examples) < _EXAMPLES:
                examples.append(entry)


def import_source(
    archive: Archive,
    source: Source,
    *,
    fields: Mapping[str, str] | None = None,
    category: str | None = None,
    strict: bool = False,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Store the attempts of a source, and return a report.

    `fields` are added to every attempt, and `category`, if given, replaces its category. With `strict`, the first
    invalid row ends the import; batches before it are kept.
    """
    return _Import(archive, source, fields or {}, category, strict, progress).run()


class _Import:
    def __init__(
        self,
        archive: Archive,
        source: Source,
        fields: Mapping[str, str],
        category: str | None,
        strict: bool,
        progress: Callable[[Report], None] | None,
    ) -> None:
        self._archive = archive
        self._source = source
        self._fields = fields
        self._category = category
        self._strict = strict
        self._progress = progress
        self._problem: InputError | None = None
        self._report = Report(source.name, source.format)
        self._identities = Identities(source.label)
        self._number = number_of(source.label, source.format)
        self._batch_size = _FIRST_BATCH  # the first batches are small, so that interrupting a short import loses little

    def run(self) -> Report:
        """Read and store the source, batch by batch."""
        batch = self._new_batch()
        for entries in self._entries():
            self._take(entries, batch)
            if len(batch) >= self._batch_size or batch.letters >= _LETTERS:
                self._store(batch)
                batch = self._new_batch()
                self._batch_size = min(2 * self._batch_size, _LARGEST_BATCH)
            if self._progress:
                self._progress(self._report)
        self._store(batch)
        if self._problem:
            self._problem.hint = self._problem.hint or f"new jobs stored before the error: {self._report.stored:,}"
            raise self._problem
        return self._report

    def _entries(self) -> Iterator[list[Entry]]:
        """Yield lists of entries; if a log is damaged, what comes before the damage is not lost."""
        entries: list[Entry] = []
        try:
            for entry in self._source.entries:
                entries.append(entry)
                if len(entries) == _READ_AT_ONCE:
                    yield entries
                    entries = []
        except InputError as problem:
            self._problem = problem
        yield entries

    def _new_batch(self) -> Batch:
        return Batch(self._number, time(), self._fields)

    def _take(self, entries: list[Entry], batch: Batch) -> None:
        entries = [_storable(entry) for entry in entries]
        for entry in entries:
            self._report.note(entry)
            if self._strict and isinstance(entry, Skipped) and not entry.healthy:
                raise InputError(_message(entry), path=self._source.name, line=entry.line)
        attempts = [entry for entry in entries if isinstance(entry, Attempt)]
        for attempt, identity in zip(attempts, self._identities.assign(attempts), strict=True):
            batch.add(attempt if self._category is None else replace(attempt, category=self._category), identity)
        for resource in Resource:
            self._report.known[resource] += sum(getattr(attempt.used, resource) is not None for attempt in attempts)

    def _store(self, batch: Batch) -> None:
        if not batch:
            return
        source = self._source
        assumed = "; ".join(self._report.assumed) or None
        stored = self._add(batch, (source.label, source.format, source.name, assumed))
        self._report.stored += stored
        self._report.duplicates += len(batch) - stored

    def _add(self, batch: Batch, cells: tuple[str | None, ...]) -> int:
        """Store a batch, retrying if the connection is lost; identities prevent duplicates."""
        for pause in _RETRY_DELAYS:
            try:
                return self._archive.add(batch, cells)
            except TonnageError as error:
                if not self._archive.lost_connection(error):
                    raise
                self._archive.close()
                sleep(pause)
        return self._archive.add(batch, cells)


def _storable(entry: Entry) -> Entry:
    """Return the entry, or Skipped if one of its numbers is too large for a database."""
    if not isinstance(entry, Attempt):
        return entry
    for number in (entry.exit_status, entry.signal, entry.number, entry.input_bytes):
        if number is not None and not -_LARGEST <= number < _LARGEST:
            return Skipped(None, "a number is too large", str(number)[:40])
    return entry


def _message(entry: Skipped) -> str:
    return f"{entry.reason}: {entry.found}" if entry.found else entry.reason
