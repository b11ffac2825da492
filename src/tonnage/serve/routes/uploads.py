"""Uploads of logs from a browser: ``/api/uploads``, its page, and the background job that imports them."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Depends, File, Form, UploadFile
from starlette.responses import HTMLResponse

from tonnage.archive import Archive, Report, import_source
from tonnage.errors import InputError
from tonnage.files import Pieces, stem
from tonnage.logs.formats import READERS, check_format
from tonnage.logs.log import Hints
from tonnage.logs.sources import Source, open_source
from tonnage.logs.user_times import zone
from tonnage.option_values import pairs, parts
from tonnage.serve.access import token_wanted
from tonnage.serve.background_jobs import Tell
from tonnage.serve.pages import render
from tonnage.serve.responses import problems
from tonnage.serve.routes.background_jobs import Work, described
from tonnage.serve.settings import Site, site_of
from tonnage.units import format_bytes

__all__ = ["Upload", "router", "take_in"]

_EVERY = 2**20  # bytes read between two progress messages
_AS_PACKED = 32  # a log that unpacks to more than this many times its size is taken for an attack,
_UNSUSPICIOUS = 2**30  # unless it stays below this many bytes
router = APIRouter()
_Site = Annotated[Site, Depends(site_of)]
_LONGEST = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An uploaded file."""

    file: str
    """Its path on the server."""
    name: str
    """Its name on the client."""
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
                progress = _progress(tell, source)
                reports.append(
                    import_source(opened, named, fields=upload.fields, category=upload.category, progress=progress)
                )
    except InputError as error:
        error.path = error.path and upload.name  # do not reveal the server's path to clients
        raise
    return {"sources": [report.facts() for report in reports]}


def _check_unpacked(tell: Tell, file: Path) -> None:
    """Reject a file that unpacks to more than any log would, before any of it is stored."""
    tell(0, 0, "unpacking")
    most = max(_AS_PACKED * file.stat().st_size, _UNSUSPICIOUS)
    length = 0
    for piece in Pieces(file):
        length += len(piece)
        if length > most:
            raise InputError(f"unpacks to more than {format_bytes(most, binary=True)}", path=file)


def _progress(tell: Tell, source: Source) -> Callable[[Report], None]:
    reported = 0

    def progress(report: Report) -> None:
        nonlocal reported
        done, total = source.progress()
        if done - reported >= _EVERY:
            reported = done
            tell(done, total, f"{report.read:,} rows")

    return progress


def _text(description: str) -> object:
    return Form(max_length=1000, description=description)


@router.post(
    "/api/uploads",
    status_code=202,
    responses=problems(400, 401, 403, 408, 413, 422, 429, 503),
    dependencies=[token_wanted],
    summary="Upload a job log",
)
def upload(
    site: _Site,
    file: Annotated[UploadFile, File(description="A log in any format of `tonnage archive import`, plain or gzip.")],
    format: Annotated[str, _text("Its format; by default recognised by content.")] = "",
    label: Annotated[str, _text("A name for where the jobs come from; by default the file's stem.")] = "",
    category: Annotated[str, _text("A category for all jobs.")] = "",
    columns: Annotated[str, _text("Names of a table's columns: memory=rss,wall_time=seconds.")] = "",
    units: Annotated[str, _text("Units of a table's columns: memory=KiB.")] = "",
    timezone: Annotated[str, _text("The time zone of times without one; by default the server's.")] = "",
    field: Annotated[str, _text("Custom fields for all jobs: project=atlas,site=x.")] = "",
) -> Work:
    """Start importing a log; ``/api/work/ID`` returns the progress, and finally what was stored, skipped, and why."""
    if format:
        check_format(format)
    name = _shown_name(file.filename)
    hints = Hints(
        label=label or stem(Path(name)),
        columns=_pairs(columns, "columns"),
        units=_pairs(units, "units"),
        zone=zone(timezone or None),
    )
    folder = Path(tempfile.mkdtemp(prefix="tonnage-upload-"))
    try:
        kept = folder / "log"
        with kept.open("wb") as out:
            shutil.copyfileobj(file.file, out, 2**20)
        sent = Upload(
            file=str(kept),
            name=name,
            hints=hints,
            format=format or None,
            category=category or None,
            fields=_pairs(field, "field"),
        )
        piece = site.background_jobs.take(
            "upload", take_in, site.archive_url, sent, afterwards=lambda: shutil.rmtree(folder, ignore_errors=True)
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return described(piece)


def _pairs(text: str, name: str) -> dict[str, str]:
    return pairs(parts([text]), name) if text.strip() else {}


def _shown_name(name: str | None) -> str:
    """Return the name of a file on the client, for display only: its last part, in printable characters."""
    last = PurePosixPath((name or "").replace("\\", "/")).name
    return "".join(one for one in last if one.isprintable())[:_LONGEST] or "upload"


@router.get("/upload", include_in_schema=False)
def page() -> HTMLResponse:
    """Show the upload form."""
    formats = [(name, format.description) for name, format in READERS.items()]
    return HTMLResponse(render("upload.html", here="/upload", formats=formats))
