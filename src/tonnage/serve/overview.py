"""Statistics of all categories, counted once and again whenever the archive has changed.

Counting a million jobs takes seconds, so a large archive is counted in a background job; until that is done, requests
get the previous count and its time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic, sleep, time
from typing import Any

from tonnage.archive import Archive, stats
from tonnage.errors import TonnageError
from tonnage.serve.background_jobs import BackgroundJobs, Tell

__all__ = ["Counted", "Overview"]

_SMALL = 20_000  # attempts that are counted while the request waits
_REST = 5.0  # the pause before the next count, as a multiple of the duration of the last one
_LOOK = 0.05  # seconds between checks of a job in progress


@dataclass(frozen=True, slots=True)
class Counted:
    """The use of each category at one moment, as `tonnage archive stats --json` prints it."""

    categories: Sequence[Mapping[str, Any]]
    state: tuple[object, ...]
    at: float
    """In seconds since 1970."""

    @property
    def jobs(self) -> int:
        """How many jobs there are in total."""
        return sum(one["jobs"] for one in self.categories)


@dataclass(slots=True)
class _Counting:
    """A count in progress in another process."""

    piece: str
    state: tuple[object, ...]
    begun: float = field(default_factory=monotonic)
    at: float = field(default_factory=time)


@dataclass(slots=True)
class Overview:
    """The newest count, renewed when the archive has changed."""

    archive: Archive
    _known: Counted | None = None
    _counting: _Counting | None = None
    _not_before: float = 0.0
    _lock: Lock = field(default_factory=Lock)
    _background_jobs: BackgroundJobs = field(default_factory=BackgroundJobs)

    def now(self, patience: float) -> Counted:
        """Return the newest count; for a large archive that was never counted, wait up to `patience` seconds."""
        end = monotonic() + patience
        while True:
            known = self.begun()
            if known is not None:
                return known
            if monotonic() > end:
                hint = "this takes a few seconds: try again"
                raise TonnageError("the jobs of this archive are being counted for the first time", hint=hint)
            sleep(_LOOK)

    def begun(self) -> Counted | None:
        """Return the newest count, if any; if it is out of date, count now or start a background job."""
        state = self.archive.state()
        with self._lock:
            self._take_in()
            if self._known is None or self._known.state != state:
                if _newest(state) <= _SMALL:
                    self._known = Counted([one.facts() for one in stats(self.archive)], state, time())
                elif self._counting is None and monotonic() >= self._not_before:
                    url = self.archive.engine.url.render_as_string(hide_password=False)
                    self._counting = _Counting(self._background_jobs.take("count", _count, url).id, state)
            return self._known

    def close(self) -> None:
        """Stop the count in progress."""
        self._background_jobs.close()

    def _take_in(self) -> None:
        """Collect the result of the background job."""
        counting = self._counting
        piece = self._background_jobs.piece(counting.piece) if counting else None
        if counting is None or (piece is not None and not piece.ended):
            return
        self._counting = None
        self._not_before = monotonic() + _REST * (monotonic() - counting.begun)
        if piece is None or piece.result is None:
            raise TonnageError("the jobs of this archive cannot be counted", hint=piece.error if piece else None)
        found: Any = piece.result["categories"]
        self._known = Counted(found, counting.state, counting.at)


def _newest(state: tuple[object, ...]) -> int:
    return state[0] if isinstance(state[0], int) else 0


def _count(tell: Tell, url: str) -> Mapping[str, object]:
    """Count the jobs of each category, as a background job."""
    tell(0, 0, "counting")
    with Archive.open(url) as archive:
        return {"categories": [one.facts() for one in stats(archive)]}
