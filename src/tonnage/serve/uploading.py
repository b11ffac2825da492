"""A log that somebody uploaded, into the archive: the work itself, done as a background job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tonnage.archive import Archive, Report, import_source
from tonnage.errors import InputError
from tonnage.files import Pieces
from tonnage.logs.log import Hints
from tonnage.logs.sources import Source, open_source
from tonnage.serve.background_jobs import Tell
from tonnage.units import format_bytes

__all__ = ["Upload", "take_in"]

_EVERY = 2**20  # bytes that are read until it is said again how far it is
_AS_PACKED = 32  # times as long as a packed log is it unpacked, at most: what grows more was made to do harm,
_UNSUSPICIOUS = 2**30  # unless it stays below so many bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that somebody sent."""

    file: str
    """Where it is now."""
    name: str
    """What its user calls it."""
    hints: Hints
    format: str | None = None
    category: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


def take_in(tell: Tell, archive: str, upload: Upload) -> Mapping[str, object]:
    """Import an uploaded file; return what `tonnage archive import --json` prints."""
    reports = []
    try:
        _check_unpacked(tell, Path(upload.file))
        with Archive.open(archive, create=True) as opened:
            for source in open_source(upload.file, upload.hints, upload.format):
                named = replace(source, name=upload.name)
                told = _progress(tell, source)
                reports.append(
                    import_source(opened, named, fields=upload.fields, category=upload.category, progress=told)
                )
    except InputError as error:
        error.path = error.path and upload.name  # where it lies here is nobody's business
        raise
    return {"sources": [report.facts() for report in reports]}


def _check_unpacked(tell: Tell, file: Path) -> None:
    """Refuse what unpacks to more than anybody's log; before anything of it is stored."""
    tell(0, 0, "unpacking")
    most = max(_AS_PACKED * file.stat().st_size, _UNSUSPICIOUS)
    length = 0
    for piece in Pieces(file):
        length += len(piece)
        if length > most:
            raise InputError(f"unpacks to more than {format_bytes(most, binary=True)}", path=file)


def _progress(tell: Tell, source: Source) -> Callable[[Report], None]:
    told = 0

    def progress(report: Report) -> None:
        nonlocal told
        done, total = source.progress()
        if done - told >= _EVERY:
            told = done
            tell(done, total, f"{report.read:,} rows")

    return progress
