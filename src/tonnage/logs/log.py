"""Logs and readers: the text of a log, hints from the user, and what readers yield."""

import codecs
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TypeAlias

from tonnage.errors import InputError
from tonnage.files import MAX_LINE, Pieces, refuse_other_encodings, stem
from tonnage.jobs import Attempt

__all__ = ["Assumed", "Entry", "Hints", "Log", "Reader", "Skipped", "UnusableError"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that cannot be used, and why."""

    line: int | None
    reason: str
    """The same text for the same kind of problem, so that rows can be counted by it."""
    found: str = ""
    """What was found instead."""
    healthy: bool = False
    """Whether the row is valid but does not describe a job that ran, for example one that is still waiting."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """What the log does not specify and the reader had to assume: units, a time zone."""

    what: str


Entry: TypeAlias = Attempt | Skipped | Assumed


class UnusableError(Exception):
    """A row cannot be used: readers raise it internally and yield Skipped."""

    def __init__(self, reason: str, found: str = "", *, healthy: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.found = found
        self.healthy = healthy

    def at(self, line: int | None) -> Skipped:
        """Return a Skipped entry for the row at this line."""
        return Skipped(line, self.reason, self.found, self.healthy)


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user knows about a log but the log does not say."""

    label: str | None = None
    """A name for its origin; by default the file's stem, or nothing for the log of a cluster."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The log's columns by Tonnage's names for them: ``{"memory": "peak_mem"}``."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units by Tonnage's names of the columns: ``{"memory": "KiB"}``."""
    zone: tzinfo = UTC
    """The time zone of times that have none."""


Reader: TypeAlias = "Callable[[Log, Hints], Iterator[Entry]]"


class Log:
    """The text of one log: read once, from its beginning, a piece at a time."""

    def __init__(self, pieces: Iterable[bytes], path: Path) -> None:
        self.path = path
        self._pieces = pieces
        self._texts = self._decoded()
        self.head = next(self._texts, "")
        """The first piece of the text: a megabyte, or all of it."""

    @classmethod
    def open(cls, path: Path) -> "Log":
        """Open a file; gzip is recognised by its content."""
        return cls(Pieces(path), path)

    @classmethod
    def of(cls, text: str, path: Path | str = "log") -> "Log":
        """Create a log from text."""
        return cls([text.encode("utf-8", "surrogatepass")], Path(path))

    def close(self) -> None:
        """Stop reading, and close the file."""
        self._texts.close()

    @property
    def stem(self) -> str:
        """The file's name without its extensions."""
        return stem(self.path)

    @property
    def progress(self) -> tuple[int, int]:
        """The number of bytes read and the size of the file; (0, 0) if unknown."""
        if isinstance(self._pieces, Pieces):
            return self._pieces.position, self._pieces.size
        return 0, 0

    def texts(self) -> Iterator[str]:
        """Yield the text in pieces."""
        head, self.head = self.head, ""
        yield head
        yield from self._texts

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends (LF or CR LF); raises an error for one longer than MAX_LINE."""
        rest = ""
        for text in self.texts():
            first, *others = text.split("\n")
            if not others:
                rest += first
                self._check(rest)
                continue
            yield (rest + first).removesuffix("\r")
            *whole, rest = others
            yield from (line.removesuffix("\r") for line in whole) if "\r" in text else whole
            self._check(rest)
        if rest:
            yield rest.removesuffix("\r")

    def error(self, message: str, line: int | None = None, *, hint: str | None = None) -> InputError:
        """Return an error about this log, to be raised by the caller."""
        return InputError(message, path=self.path, line=line, hint=hint)

    def _check(self, line: str) -> None:
        if len(line) > MAX_LINE:
            raise self.error(f"a line is longer than {MAX_LINE // 2**20} MiB")

    def _decoded(self) -> Generator[str]:
        """Decode UTF-8; a name in another encoding loses only its undecodable characters, not the job."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        first = True
        for piece in self._pieces:
            if first:
                refuse_other_encodings(self.path, piece)
                first = False
            yield decoder.decode(piece)
        if end := decoder.decode(b"", final=True):
            yield end
