"""Logs from a browser into the archive: ``/api/uploads``, and the page that sends them."""

import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Depends, File, Form, UploadFile
from starlette.responses import HTMLResponse

from tonnage.files import stem
from tonnage.logs.formats import READERS, check_format
from tonnage.logs.log import Hints
from tonnage.logs.user_times import zone
from tonnage.option_values import pairs, parts
from tonnage.serve.access import token_wanted
from tonnage.serve.background_jobs_api import Work, described
from tonnage.serve.pages import render
from tonnage.serve.problems import problems
from tonnage.serve.site import Site, site_of
from tonnage.serve.uploading import Upload, take_in

__all__ = ["router"]

router = APIRouter()
_Site = Annotated[Site, Depends(site_of)]
_LONGEST = 255


def _text(description: str) -> object:
    return Form(max_length=1000, description=description)


@router.post(
    "/api/uploads",
    status_code=202,
    responses=problems(400, 401, 403, 408, 413, 422, 429, 503),
    dependencies=[token_wanted],
    summary="Send a job log",
)
def upload(
    site: _Site,
    file: Annotated[UploadFile, File(description="A log in any format that `tonnage archive import` reads; gzip too.")],
    format: Annotated[str, _text("Its format, where it is not to be recognised.")] = "",
    label: Annotated[str, _text("A name for where the jobs come from; by default the file's stem.")] = "",
    category: Annotated[str, _text("A category for all jobs.")] = "",
    columns: Annotated[str, _text("What a table's columns are called: memory=rss,wall_time=seconds.")] = "",
    units: Annotated[str, _text("Units of a table's columns: memory=KiB.")] = "",
    timezone: Annotated[str, _text("The zone of times that have none; by default the server's.")] = "",
    field: Annotated[str, _text("Custom fields for all jobs: project=atlas,site=x.")] = "",
) -> Work:
    """Begin to import a log; ``/api/work/ID`` says how far it is, and in the end what was stored, skipped, and why."""
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
    """Return what the user calls a file: only its last part, and only as words. Nothing here is named like that."""
    last = PurePosixPath((name or "").replace("\\", "/")).name
    return "".join(one for one in last if one.isprintable())[:_LONGEST] or "upload"


@router.get("/upload", include_in_schema=False)
def page() -> HTMLResponse:
    """Show the form."""
    formats = [(name, format.description) for name, format in READERS.items()]
    return HTMLResponse(render("upload.html", here="/upload", formats=formats))
