"""The report of a run as an HTML file, made by a background job.

Separate from the routes, so that the job's process starts without loading FastAPI: a user is waiting for it.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tonnage.archive import Archive, Search, find
from tonnage.errors import InputError, ReportTimeoutError
from tonnage.report.attempt_table import AttemptTable, Gathering
from tonnage.report.model import report_on
from tonnage.report.page import made_by, write_page
from tonnage.report.source import ReportSource, gather_run
from tonnage.run.folders import RunFolder
from tonnage.serve.background_jobs import BackgroundJob, BackgroundJobs, State, Tell
from tonnage.size import Plan

__all__ = ["made"]

_MOST_ATTEMPTS = 200_000
"""How many attempts of an archived run are read at most."""
_REPORT_TIMEOUT = 120.0  # seconds
_PAUSE = 0.05


async def made(background_jobs: BackgroundJobs, run: Path | None, archive: str, id: str) -> bytes:
    """Return the report of a run, from its folder or else from the archive; raises ReportTimeoutError or InputError."""
    with TemporaryDirectory(prefix="tonnage-report-") as folder:
        path = Path(folder, "report.html")
        piece = background_jobs.take("report", _write_report, run, archive, id, path)
        try:
            async with asyncio.timeout(_REPORT_TIMEOUT):
                found = await _ended(background_jobs, piece.id)
        except TimeoutError:
            hint = "run tonnage report RUN on the machine of the run, which has no time limit"
            raise ReportTimeoutError("the report of this run takes too long", hint=hint) from None
        finally:
            background_jobs.stop(piece.id)
        if found is None or found.state is not State.DONE:
            error = found.error if found is not None else None
            raise InputError(error or "the report could not be made", hint=found.hint if found is not None else None)
        return path.read_bytes()


async def _ended(background_jobs: BackgroundJobs, id: str) -> BackgroundJob | None:
    while (piece := background_jobs.piece(id)) is not None and not piece.ended:
        await asyncio.sleep(_PAUSE)
    return piece


def _write_report(tell: Tell, run: Path | None, archive: str, id: str, path: Path) -> Mapping[str, object]:
    """Write the same as `tonnage report`, from the run's folder or else from the archive."""
    tell(0, 0, "reading attempts")
    subject, material = gather_run(RunFolder(run)) if run is not None else _from_archive(archive, id)
    found = report_on(subject, material, Plan(machine=subject.machine))
    return {"bytes": write_page(found, path, made_by("serve"))}


def _from_archive(url: str, id: str) -> tuple[ReportSource, AttemptTable]:
    with Archive.open(url) as archive:
        attempts = list(find(archive, Search(run=id), limit=_MOST_ATTEMPTS + 1))
    if not attempts:
        raise InputError("the archive no longer has any jobs of this run")
    notes = ["Made from the archive, which knows neither dependencies nor tasks that are not done."]
    if len(attempts) > _MOST_ATTEMPTS:
        notes.append(f"Only {_MOST_ATTEMPTS:,} of its attempts are included.")
    return ReportSource(kind="run", title=id, notes=tuple(notes)), Gathering().gather(attempts[:_MOST_ATTEMPTS])
