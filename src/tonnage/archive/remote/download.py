"""Streaming downloads of attempts from a server: the history for a run, or the results of a search."""

from collections.abc import Iterator, Sequence

from tonnage.archive.codec import attempt_of, parsed, text_of
from tonnage.archive.history import Wanted
from tonnage.archive.reading import find
from tonnage.archive.remote.server import Server, call, read
from tonnage.archive.search import EVERYTHING, Search, written
from tonnage.archive.store import Archive
from tonnage.archive.url import is_remote
from tonnage.errors import InputError, ServerRejectedError, TonnageError
from tonnage.jobs import Attempt

__all__ = ["download_past", "find_at", "find_there"]

_LONGEST_LINE = 64 * 2**20


def download_past(server: Server, wanted: Wanted, *, seconds: float) -> Iterator[Attempt]:
    """Yield the attempts that a run can learn from."""
    with call(server, "POST", "/api/past", text_of(wanted.body()).encode(), seconds=seconds) as response:
        yield from _attempts(server, read(server, response))


def find_there(
    server: Server,
    search: Search = EVERYTHING,
    *,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
) -> Iterator[Attempt]:
    """Yield the attempts in a server's archive that match a search, in the order of their import or sorted."""
    query = list(written(search))
    query += [("sort", sort)] if sort else []
    query += [("reverse", "true")] if reverse else []
    query += [("limit", str(limit))] if limit else []
    try:
        with call(server, "GET", "/api/attempts.jsonl", query=query, seconds=86_400.0) as response:
            yield from _attempts(server, read(server, response))
    except ServerRejectedError as error:  # the search is invalid, as it would be locally
        raise InputError(str(error), hint=error.hint) from None


def find_at(
    url: str | None,
    search: Search = EVERYTHING,
    *,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
) -> Iterator[Attempt]:
    """Yield the attempts in an archive, local or on a server, that match a search."""
    if is_remote(url):
        yield from find_there(Server.of(url), search, sort=sort, reverse=reverse, limit=limit)
        return
    with Archive.open(url) as archive:
        yield from find(archive, search, sort=sort, reverse=reverse, limit=limit)


def _attempts(server: Server, pieces: Iterator[bytes]) -> Iterator[Attempt]:
    for line in _lines(server, pieces):
        try:
            yield attempt_of(parsed(line))
        except InputError as error:
            hint = error.hint or "is it tonnage serve, and of this version?"
            raise TonnageError(f"{server}: invalid response: {error}", hint=hint) from None


def _lines(server: Server, pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest: Sequence[bytes] = [b""]
    for piece in pieces:
        *lines, last = piece.split(b"\n")
        if not lines:
            rest = [*rest, last]
            if sum(map(len, rest)) > _LONGEST_LINE:
                raise TonnageError(f"{server}: invalid response: a line is too long")
            continue
        yield b"".join((*rest, lines[0]))
        yield from lines[1:]
        rest = [last]
    final = b"".join(rest)
    if final.strip():
        yield final
