"""The application: all routes and middleware."""

from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from tonnage import __version__
from tonnage.archive import Archive
from tonnage.archive.query_timeout import shared
from tonnage.serve.access import Guard, token_wanted
from tonnage.serve.limits import Bounded
from tonnage.serve.overview import Overview
from tonnage.serve.responses import add_handlers
from tonnage.serve.routes import (
    background_jobs,
    categories,
    docs,
    health,
    ingest,
    jobs,
    login,
    replays,
    runs,
    sizes,
    uploads,
)
from tonnage.serve.settings import Settings, Site

__all__ = ["make_app"]

_ABOUT = "Sizes, searches and stores the jobs of an archive. Amounts are bytes, seconds and cores; unknown is null."


def make_app(settings: Settings, archive: Archive) -> FastAPI:
    """Return the application for an archive."""
    shared(archive.engine)
    app = FastAPI(
        title="Tonnage",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[] if settings.public else [token_wanted],
    )
    app.state.site = Site(settings, archive, Overview(archive))
    add_handlers(app)
    app.include_router(ingest.make_router())  # first, since routes are tried in order, and most requests come from runs
    for module in (categories, sizes, jobs, replays, uploads, background_jobs, runs, health, login, docs):
        app.include_router(module.router)
    app.mount(
        "/static",
        StaticFiles(directory=Path(str(files("tonnage.serve") / "static")), packages=[("tonnage.report", "static")]),
    )
    # The middleware added last sees a request first.
    app.add_middleware(Bounded, settings=settings)
    app.add_middleware(Guard, settings=settings)
    return app
