"""Where logs come from: a file, standard input, or a folder of files."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

from tonnage.errors import InputError
from tonnage.logs.formats import READERS, reader_of, recognise
from tonnage.logs.log import Entry, Hints, Log, Reader, Skipped

__all__ = ["Source", "open_source"]

_STANDARD_INPUT = Path("/dev/stdin")


@dataclass(frozen=True, slots=True)
class Source:
    """One log, or all the logs of one format below a folder."""

    name: str
    label: str
    format: str
    entries: Iterator[Entry]
    """What a reader yields: attempts, skipped rows, and assumptions."""
    progress: Callable[[], tuple[int, int]] = field(default=lambda: (0, 0))
    """How much has been read, and the total: in bytes, or in files of a folder; (0, 0) if unknown."""


def open_source(text: str, hints: Hints, format: str | None = None) -> Iterator[Source]:
    """Open what a user's SOURCE names: a file, ``-`` for standard input, or a folder and everything below it."""
    path = _STANDARD_INPUT if text == "-" else Path(text)
    format = format or ("csv" if hints.columns else None)  # only tables can have columns with any name
    if os.path.isdir(path):  # noqa: PTH112 (unlike that of a Path, it never raises)
        yield from _folder(path, hints, format)
        return
    log = Log.open(path)
    name, read = _reader(log, hints, format)
    label = hints.label or ("stdin" if text == "-" else log.stem)
    yield Source(text, label, name, read(log, hints), lambda: log.progress)


def _folder(folder: Path, hints: Hints, format: str | None) -> Iterator[Source]:
    """Yield a source for each format found below a folder; other files form one more, of skipped entries."""
    by_format: dict[str, list[Path]] = defaultdict(list)
    others: list[Skipped] = []
    for path in _files(folder):
        try:
            log = Log.open(path)
            log.close()
            name = format or recognise(log)
        except InputError as error:
            others.append(_unreadable(error))
            continue
        if name is None:
            others.append(Skipped(None, "not a job log", str(path), healthy=True))
        else:
            by_format[name].append(path)
    if not by_format:
        raise InputError("this folder contains no job logs", path=folder)
    label = hints.label or folder.resolve().name
    for name, paths in sorted(by_format.items()):
        files = _Files(paths, hints, name)
        yield Source(str(folder), label, name, files.entries(), lambda files=files: files.progress)  # type: ignore[misc]
    if others:
        yield Source(str(folder), label, "other", iter(others))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order, except hidden ones, and links, which may lead out of it.

    A folder that cannot be opened is yielded as if it were a file: opening it will report the reason.
    """
    folders = [folder]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as found:
                inside = sorted((entry for entry in found if not entry.name.startswith(".")), key=attrgetter("name"))
        except OSError:
            yield folder
            continue
        yield from (Path(entry) for entry in inside if entry.is_file(follow_symlinks=False))
        folders += [Path(entry) for entry in reversed(inside) if entry.is_dir(follow_symlinks=False)]


def _in(path: Path, found: str) -> str:
    return f"{path}: {found}" if found else str(path)


def _unreadable(error: InputError) -> Skipped:
    return Skipped(error.line, "the file cannot be read", str(error))


def _reader(log: Log, hints: Hints, format: str | None) -> tuple[str, Reader]:
    name, read = reader_of(log, format)
    if hints.units and not READERS[name].takes_units:
        raise log.error(f"--units cannot be used for {name} logs: their units are fixed")
    return name, read


class _Files:
    """Many files read as one log."""

    def __init__(self, paths: list[Path], hints: Hints, format: str) -> None:
        self.progress = (0, len(paths))
        self._paths = paths
        self._hints = hints
        self._format = format

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all files; a file that cannot be read is skipped."""
        for number, path in enumerate(self._paths, start=1):
            try:
                log = Log.open(path)
                _, read = _reader(log, self._hints, self._format)
                for entry in read(log, self._hints):
                    yield replace(entry, found=_in(path, entry.found)) if isinstance(entry, Skipped) else entry
            except InputError as error:
                yield _unreadable(error)
            self.progress = (number, len(self._paths))
