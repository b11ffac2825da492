"""A run's session with its archive: read once at the start, written once at the end, wherever it is.

An archive on a server has a mirror here, an ordinary archive that all decisions are based on: what the server knows
about a workflow is copied into it when a run begins. What a run measured goes into the mirror and into the outbox, and
from there to the server. So a server that is away costs a warning, and nothing else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from types import TracebackType

from tonnage.archive.exporting import record
from tonnage.archive.history import Wanted
from tonnage.archive.identity import Identities
from tonnage.archive.importing import import_source
from tonnage.archive.remote.download import past_of
from tonnage.archive.remote.outbox import BusyError, Outbox, Sent
from tonnage.archive.remote.server import AwayError, Server
from tonnage.archive.remote.upload import MOST
from tonnage.archive.store import Archive
from tonnage.archive.url import is_remote
from tonnage.errors import TonnageError
from tonnage.jobs import Attempt
from tonnage.logs.log import Entry
from tonnage.logs.sources import Source

__all__ = ["ArchiveSession", "archive_session", "said_of"]

_AT_ONCE = 10.0  # seconds that a run waits at its start for what waits here to be sent
_PATIENT = 10.0  # seconds that a server which does not answer at a run's end is tried again: it may be restarting
_ANSWER = 120.0  # seconds in which a server must have said what it knows


class ArchiveSession:
    """A run's archive that is a database: there is no server to ask or tell."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        """What is read from, and written to."""

    def __enter__(self) -> "ArchiveSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.archive.close()

    def ask(self, wanted: Wanted) -> list[str]:  # noqa: ARG002
        """Learn what is known; return messages for the user."""
        return []

    def kept(self, source: Source, fields: Mapping[str, str]) -> Source:  # noqa: ARG002
        """Return a source that keeps for `tell` what is read from it; all of that is safe when it is at its end."""
        return source

    def tell(self, *, patient: bool = True) -> list[str]:  # noqa: ARG002
        """Send what was kept; return messages for the user."""
        return []


class _Remote(ArchiveSession):
    """A run's archive on a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._outbox = Outbox(server)
        self._away = self._token_said = False
        super().__init__(Archive.open(str(server.folder / "archive.db"), create=True))

    def ask(self, wanted: Wanted) -> list[str]:
        """Put what the server knows into the mirror."""
        if self._away:
            return []
        said = self._about_token()
        try:
            found = past_of(self._server, wanted, seconds=_ANSWER)
            import_source(self.archive, Source(self._server.url, self._server.host, "tonnage", found))
        except TonnageError as problem:
            self._away = True
            said.append(f"{_said(problem)}; sizes go by what is known here from earlier runs")
        return said

    def _about_token(self) -> list[str]:
        """Return a warning, once, if the token travels unencrypted."""
        here = self._server.is_here or self._server.url.startswith("https://") or self._token_said
        self._token_said = True
        if here or self._server.token() is None:
            return []
        return [f"the token goes to {self._server} as it is, and who listens on the way reads it: https:// is safer"]

    def kept(self, source: Source, fields: Mapping[str, str]) -> Source:
        """Return a source whose attempts go into the outbox when they are read."""
        return replace(source, entries=self._posted(source, fields))

    def _posted(self, source: Source, fields: Mapping[str, str]) -> Iterator[Entry]:
        identities = Identities(source.label)
        origin = {"label": source.label, "format": source.format, "path": source.name}
        while some := list(islice(source.entries, MOST)):
            attempts = [one for one in some if isinstance(one, Attempt)]
            known = zip(attempts, identities.of(attempts), strict=True)
            self._outbox.put(origin, fields, [record(replace(one, identity=name)) for one, name in known])
            yield from some

    def tell(self, *, patient: bool = True) -> list[str]:
        """Send what waits; one that is not patient tries once, and goes on."""
        if not patient and not self._outbox.files():
            return []
        seconds = _PATIENT if patient and not self._away else 0.0  # a server that was away is not just restarting
        sent = self._outbox.send(seconds, most_seconds=None if patient else _AT_ONCE)
        self._away = isinstance(sent.problem, AwayError)
        if not patient and isinstance(sent.problem, BusyError):
            return []
        return said_of(self._server, self._outbox, sent)


def archive_session(url: str | None = None) -> ArchiveSession:
    """Return a session with the archive at a URL or in a file, by default the user's own; made if necessary."""
    return _Remote(Server.of(url)) if is_remote(url) else ArchiveSession(Archive.open(url, create=True))


def said_of(server: Server, outbox: Outbox, sent: Sent) -> list[str]:
    """Return what a user should know about what was sent, and what was not."""
    found = []
    if sent.waiting and sent.problem is not None:
        found.append(
            f"{_said(sent.problem)}; attempts that wait for it in {outbox.folder}: {sent.waiting:,}; "
            f"the next run with this archive sends them, or tonnage archive send --archive {server}"
        )
    for why, count in sent.reasons.items():
        found.append(f"{server} will never take some attempts, which are now in {outbox.refused}: {why} ({count:,})")
    return found


def _said(problem: TonnageError) -> str:
    return f"{problem} ({problem.hint})" if problem.hint else str(problem)
