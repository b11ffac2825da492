"""What the jobs of each category use: counted once, and again when the archive has changed.

To count a million jobs takes seconds. So a large archive is counted in a process of its own, and whoever asks
meanwhile sees what was counted last, and when that was.
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

_SMALL = 20_000  # attempts that are counted while somebody waits
_REST = 5.0  # times as long as it took to count is nothing counted again
_LOOK = 0.05  # seconds between looks at work under way


@dataclass(frozen=True, slots=True)
class Counted:
    """What the jobs of each category used at some moment; each as `tonnage archive stats --json` prints it."""

    categories: Sequence[Mapping[str, Any]]
    state: tuple[object, ...]
    at: float
    """Since 1970."""

    @property
    def jobs(self) -> int:
        """How many jobs there are in all."""
        return sum(one["jobs"] for one in self.categories)


@dataclass(slots=True)
class _Counting:
    """A count that is under way in another process."""

    piece: str
    state: tuple[object, ...]
    begun: float = field(default_factory=monotonic)
    at: float = field(default_factory=time)


@dataclass(slots=True)
class Overview:
    """Counts when it must."""

    archive: Archive
    _known: Counted | None = None
    _counting: _Counting | None = None
    _not_before: float = 0.0
    _lock: Lock = field(default_factory=Lock)
    _background_jobs: BackgroundJobs = field(default_factory=BackgroundJobs)

    def now(self, patience: float) -> Counted:
        """Return what is known; of a large archive that was never counted, after so many seconds at most."""
        end = monotonic() + patience
        while True:
            known = self.begun()
            if known is not None:
                return known
            if monotonic() > end:
                hint = "it takes some seconds: try again"
                raise TonnageError("the jobs of this archive are being counted for the first time", hint=hint)
            sleep(_LOOK)

    def begun(self) -> Counted | None:
        """Return what is known; where that is out of date, count here or begin to."""
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
        """Stop what is under way."""
        self._background_jobs.close()

    def _take_in(self) -> None:
        """Take over what another process has counted."""
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
    """Count in a process of its own, as a background job."""
    tell(0, 0, "counting")
    with Archive.open(url) as archive:
        return {"categories": [one.facts() for one in stats(archive)]}
