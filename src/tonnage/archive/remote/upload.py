"""Uploads of attempts to a server: in batches, with retries, leaving out those that it refuses."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tonnage.archive.codec import text_of
from tonnage.archive.remote.server import Server, ask
from tonnage.errors import ServerRejectedError, ServerUnreachableError

__all__ = ["MOST", "Parcel", "Patience", "Posted", "parcels", "post"]

MOST = 1_000
"""The most attempts that a server accepts in one request."""
_MOST_LETTERS = 4 * 2**20  # characters in their records; a server accepts twice as much
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between retries

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Parcel:
    """Attempts that are sent together, as records, with their common source and fields."""

    source: Mapping[str, str | None]
    """Where they come from: label, format and path."""
    fields: Mapping[str, str]
    attempts: Sequence[Record]

    def body(self, attempts: Sequence[Record] | None = None) -> dict[str, object]:
        """Return the body to post, with all attempts or only some of them."""
        chosen = self.attempts if attempts is None else attempts
        return {"source": self.source, "fields": self.fields, "attempts": chosen}


def parcels(source: Mapping[str, str | None], fields: Mapping[str, str], records: Sequence[Record]) -> Iterator[Parcel]:
    """Split records into parcels that are small enough for a server."""
    chosen: list[Record] = []
    letters = 0
    for one in records:
        length = len(text_of(one))
        if chosen and (len(chosen) == MOST or letters + length > _MOST_LETTERS):
            yield Parcel(source, fields, chosen)
            chosen, letters = [], 0
        chosen.append(one)
        letters += length
    if chosen:
        yield Parcel(source, fields, chosen)


class Patience:
    """How long to retry a server that does not answer: `seconds` since it last did."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Start over: the server has answered."""
        self._tries = 0
        self._until = time.monotonic() + self._seconds

    def pause(self, problem: ServerUnreachableError) -> bool:
        """Wait before the next retry; False at once if there is no time for one."""
        pause = _PAUSES[min(self._tries, len(_PAUSES) - 1)] * random.uniform(0.75, 1.25)  # noqa: S311 (not all at once)
        pause = max(pause, problem.wait or 0.0)
        self._tries += 1
        if time.monotonic() + pause > self._until:
            return False
        time.sleep(pause)
        return True


@dataclass(slots=True)
class Posted:
    """The result of posting attempts."""

    stored: int = 0
    duplicates: int = 0
    refused: list[tuple[Record, str]] = field(default_factory=list)
    """The attempts that the server will never accept, and why."""


def post(server: Server, parcel: Parcel, patience: Patience) -> Posted:
    """Post attempts until the server has all that it accepts; raises TonnageError if it does not answer."""
    done = Posted()
    _post(server, parcel, parcel.attempts, patience, done)
    return done


def _post(server: Server, parcel: Parcel, attempts: Sequence[Record], patience: Patience, done: Posted) -> None:
    if not attempts:
        return
    try:
        stored, duplicates = _tried(server, parcel.body(attempts), len(attempts), patience)
    except ServerRejectedError as error:
        patience.renew()
        places = {place: why for place, why in (error.places or {}).items() if 0 <= place < len(attempts)}
        if len(attempts) == 1:
            places = places or {0: str(error)}
        if places:
            done.refused += [(attempts[place], why) for place, why in places.items()]
            rest = [one for place, one in enumerate(attempts) if place not in places]
            _post(server, parcel, rest, patience, done)
            return
        half = len(attempts) // 2
        for part in (attempts[:half], attempts[half:]):
            _post(server, parcel, part, patience, done)
        return
    patience.renew()
    done.stored += stored
    done.duplicates += duplicates


def _tried(server: Server, body: object, count: int, patience: Patience) -> tuple[int, int]:
    """Post a body, with retries."""
    while True:
        try:
            return _acknowledged(server, ask(server, "/api/attempts", body), count)
        except ServerUnreachableError as problem:
            if not patience.pause(problem):
                raise


def _acknowledged(server: Server, answer: object, count: int) -> tuple[int, int]:
    """Return the counts in a server's response; a response without them acknowledges nothing."""
    if isinstance(answer, dict):
        stored, duplicates = answer.get("stored"), answer.get("duplicates")
        if type(stored) is int and type(duplicates) is int and 0 <= stored <= count == stored + duplicates:
            return stored, duplicates
    raise ServerUnreachableError(f"{server}: did not acknowledge the attempts", hint="is it tonnage serve?")
