"""A run's session with its archive: read once at the start, written once at the end, wherever it is."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from tonnage.archive.history import Past, Wanted, past_of
from tonnage.archive.store import Archive
from tonnage.archive.url import is_remote

if TYPE_CHECKING:
    from tonnage.logs.sources import Source

__all__ = ["ArchiveSession", "archive_session"]


class ArchiveSession:
    """A session with an archive that is a database: nothing is downloaded or uploaded."""

    def __init__(self, url: str | None = None) -> None:
        """Open an archive, by default the user's own; it is created if necessary."""
        self.archive = Archive.open(url, create=True)
        """The database that is read and written."""

    def __enter__(self) -> "ArchiveSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.archive.close()

    def past(self, wanted: Wanted) -> Past:
        """Return what the archive knows about the tasks of a workflow."""
        return past_of(self.archive, wanted)

    def ask(self, wanted: Wanted) -> list[str]:  # noqa: ARG002
        """Fetch the history for a run; return messages for the user."""
        return []

    def kept(self, source: "Source", fields: Mapping[str, str]) -> "Source":  # noqa: ARG002
        """Return a source that keeps what is read from it for `tell`; everything is safe once it is exhausted."""
        return source

    def tell(self, *, patient: bool = True) -> list[str]:  # noqa: ARG002
        """Upload what was kept; return messages for the user."""
        return []


def archive_session(url: str | None = None) -> ArchiveSession:
    """Return a session with the archive at a URL or in a file, by default the user's own; created if necessary."""
    if not is_remote(url):
        return ArchiveSession(url)
    from tonnage.archive.remote.server import Server
    from tonnage.archive.remote.session import RemoteSession

    return RemoteSession(Server.of(url))
