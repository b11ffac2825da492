"""A queue as seen by a job that might be submitted: a value that answers "what if" questions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tonnage.batch.simulator.backfill import FOREVER, change, earliest, earliest_block, earliest_of_many
from tonnage.errors import InputError
from tonnage.jit import compiled

__all__ = ["Snapshot"]

IntArray: TypeAlias = NDArray[np.int64]
T = TypeVar("T")

_QUESTIONS = 500
"""A decision asks about this many questions, so a plan of ten breakpoints is worth a compiled kernel."""
_NO_PLACES = np.empty((0, 0), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """How many nodes are free at which times, after everything promised to the jobs in the queue.

    It answers for a job that queues behind all of them, and does not consider caps on a user's jobs.
    """

    now: int
    nodes: int
    times: IntArray
    """Breakpoints, ascending, the first at or before now; the last lasts forever, with all nodes free."""
    free: IntArray
    """The number of free nodes from each breakpoint on."""
    busy: NDArray[np.uint8] = field(default_factory=lambda: _NO_PLACES, repr=False)
    """If jobs get contiguous nodes: which nodes (columns) are in use from each breakpoint (rows) on."""
    effort: int = field(default=0, repr=False)
    """How much is simulated around it, in jobs: if much, compiled kernels are available anyway."""

    def earliest(self, nodes: int, seconds: int, after: int | None = None) -> int:
        """Return when a job of this many nodes and seconds would start, at or after `after` (default: now)."""
        if len(self.busy):
            return self._place(nodes, seconds, after)[0]
        self._check(nodes, seconds)
        return int(self._kernel(earliest)(self.times, self.free, nodes, seconds, self._from(after), FOREVER))

    def earliest_many(self, nodes: ArrayLike, seconds: ArrayLike, after: int | None = None) -> IntArray:
        """Return when each of many jobs would start if it were the only one submitted."""
        sizes, lengths = np.broadcast_arrays(np.asarray(nodes, np.int64), np.asarray(seconds, np.int64))
        if len(self.busy):
            each = zip(sizes.ravel().tolist(), lengths.ravel().tolist(), strict=True)
            return np.array([self.earliest(*one, after) for one in each], np.int64).reshape(sizes.shape)
        if sizes.size:
            self._check(int(sizes.min()), int(lengths.min()))
            self._check(int(sizes.max()), int(lengths.max()))
        found = np.empty(sizes.size, np.int64)
        asked = (np.ascontiguousarray(sizes).ravel(), np.ascontiguousarray(lengths).ravel(), self._from(after))
        self._kernel(earliest_of_many)(self.times, self.free, *asked, found)
        return found.reshape(sizes.shape)

    def with_job(self, nodes: int, seconds: int, after: int | None = None) -> "Snapshot":
        """Return a snapshot in which such a job holds the place that it would get."""
        start, first = self._place(nodes, seconds, after)
        size = len(self.times)
        times, free = np.full(size + 3, FOREVER, np.int64), np.full(size + 3, self.nodes, np.int64)
        times[:size], free[:size] = self.times, self.free
        busy = np.concatenate([self.busy, np.zeros((3, self.nodes), np.uint8)]) if len(self.busy) else self.busy
        self._kernel(change)(times, free, busy, start, start + seconds, -nodes, first)
        return Snapshot.cut(self.now, self.nodes, times, free, busy, self.effort)

    @classmethod
    def cut(
        cls, now: int, nodes: int, times: IntArray, free: IntArray, busy: NDArray[np.uint8], effort: int
    ) -> "Snapshot":
        """Return an independent snapshot from arrays padded with FOREVER."""
        size = int(times.searchsorted(FOREVER))
        return cls(now, nodes, times[:size].copy(), free[:size].copy(), busy[:size].copy(), effort)

    def _place(self, nodes: int, seconds: int, after: int | None) -> tuple[int, int]:
        """Return when a job would start, and its first node if nodes must be contiguous."""
        if not len(self.busy):
            return self.earliest(nodes, seconds, after), 0
        self._check(nodes, seconds)
        kernel = self._kernel(earliest_block)
        start, first = kernel(self.times, self.free, self.busy, nodes, seconds, self._from(after))
        return int(start), int(first)

    def _kernel(self, function: Callable[..., T]) -> Callable[..., T]:
        return compiled(function, max(self.effort, len(self.times) * _QUESTIONS), allocates=False)

    def _from(self, after: int | None) -> int:
        return self.now if after is None or after < self.now else after

    def _check(self, nodes: int, seconds: int) -> None:
        if not 1 <= nodes <= self.nodes:
            raise InputError(f"a job on this cluster has 1 to {self.nodes} nodes, not {nodes}")
        if seconds < 1:
            raise InputError(f"a job must request at least 1 second, not {seconds}")
