"""A run's session with an archive on a server.

An archive on a server has a local mirror, an ordinary archive that all decisions are based on: what the server knows
about a workflow is copied into it when a run begins. What a run measured goes into the mirror and into the outbox, and
from there to the server. If the server is unavailable, this causes a warning and nothing else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from tonnage.archive.exporting import record
from tonnage.archive.history import Wanted
from tonnage.archive.identity import Identities
from tonnage.archive.importing import import_source
from tonnage.archive.remote.download import download_past
from tonnage.archive.remote.outbox import Outbox, Sent
from tonnage.archive.remote.server import Server
from tonnage.archive.remote.upload import MOST
from tonnage.archive.session import ArchiveSession
from tonnage.errors import OutboxBusyError, ServerUnreachableError, TonnageError
from tonnage.jobs import Attempt
from tonnage.logs.log import Entry
from tonnage.logs.sources import Source

__all__ = ["RemoteSession", "messages_about"]

_AT_ONCE = 10.0  # seconds that a run spends at its start on sending the outbox
_PATIENT = 10.0  # seconds of retries at a run's end if the server does not answer: it may be restarting
_ANSWER = 120.0  # seconds in which a server must have sent its history


class RemoteSession(ArchiveSession):
    """A session with an archive on a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._outbox = Outbox(server)
        self._away = self._warned_of_token = False
        super().__init__(str(server.folder / "archive.db"))

    def ask(self, wanted: Wanted) -> list[str]:
        """Copy the history from the server into the mirror."""
        if self._away:
            return []
        messages = self._about_token()
        try:
            found = download_past(self._server, wanted, seconds=_ANSWER)
            import_source(self.archive, Source(self._server.url, self._server.host, "tonnage", found))
        except TonnageError as problem:
            self._away = True
            messages.append(f"{_with_hint(problem)}; sizes are based on earlier runs from this machine")
        return messages

    def _about_token(self) -> list[str]:
        """Return a warning, once, if the token is sent unencrypted."""
        here = self._server.is_here or self._server.url.startswith("https://") or self._warned_of_token
        self._warned_of_token = True
        if here or self._server.token() is None:
            return []
        return [f"the token is sent to {self._server} unencrypted, and others on the network can read it: use https://"]

    def kept(self, source: Source, fields: Mapping[str, str]) -> Source:
        """Return a source that puts attempts into the outbox when they are read."""
        return replace(source, entries=self._posted(source, fields))

    def _posted(self, source: Source, fields: Mapping[str, str]) -> Iterator[Entry]:
        identities = Identities(source.label)
        origin = {"label": source.label, "format": source.format, "path": source.name}
        while some := list(islice(source.entries, MOST)):
            attempts = [one for one in some if isinstance(one, Attempt)]
            known = zip(attempts, identities.assign(attempts), strict=True)
            self._outbox.put(origin, fields, [record(replace(one, identity=name)) for one, name in known])
            yield from some

    def tell(self, *, patient: bool = True) -> list[str]:
        """Send the outbox; unless `patient`, try only once."""
        if not patient and not self._outbox.files():
            return []
        seconds = _PATIENT if patient and not self._away else 0.0  # if it was away before, it is not just restarting
        sent = self._outbox.send(seconds, most_seconds=None if patient else _AT_ONCE)
        self._away = isinstance(sent.problem, ServerUnreachableError)
        if not patient and isinstance(sent.problem, OutboxBusyError):
            return []
        return messages_about(self._server, self._outbox, sent)


def messages_about(server: Server, outbox: Outbox, sent: Sent) -> list[str]:
    """Return messages for the user about attempts that could not be sent."""
    found = []
    if sent.waiting and sent.problem is not None:
        found.append(
            f"{_with_hint(sent.problem)}; attempts waiting for it in {outbox.folder}: {sent.waiting:,}; "
            f"the next run with this archive sends them, or tonnage archive send --archive {server}"
        )
    for why, count in sent.reasons.items():
        found.append(f"{server} refused some attempts, which are now in {outbox.refused}: {why} ({count:,})")
    return found


def _with_hint(problem: TonnageError) -> str:
    return f"{problem} ({problem.hint})" if problem.hint else str(problem)
