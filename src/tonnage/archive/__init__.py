"""The archive: a store of what past attempts used, in SQLite, PostgreSQL or on a server."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.archive.exporting import export, record
    from tonnage.archive.importing import Report, import_source
    from tonnage.archive.maintenance import check, count_forgettable, forget
    from tonnage.archive.reading import count_up_to, find, histories, peaks_by_task, run_fraction
    from tonnage.archive.search import EVERYTHING, Search
    from tonnage.archive.statistics import stats
    from tonnage.archive.store import Archive
else:
    __getattr__ = exports(__name__)

__all__ = [
    "EVERYTHING",
    "Archive",
    "Report",
    "Search",
    "check",
    "count_forgettable",
    "count_up_to",
    "export",
    "find",
    "forget",
    "histories",
    "import_source",
    "peaks_by_task",
    "record",
    "run_fraction",
    "stats",
]
