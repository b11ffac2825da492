"""Identities of attempts, which ensure that the same job is never stored twice.

The identity of an attempt comes from its native id, wherever it is read. Without one, it comes from the row it was read
from and the label of the source; since real logs hold equal rows that are different jobs, equal rows are numbered. So a
log that has grown can be imported again without duplicates.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tonnage.jobs import Attempt

__all__ = ["Identities", "number_of", "task_identity"]

_SIZE = 16


class Identities:
    """Assigns identities to the attempts of one source, in the order in which they are read."""

    def __init__(self, label: str) -> None:
        self._label = _hash(label)
        self._seen = _Seen()

    def of(self, attempts: Sequence[Attempt]) -> list[bytes]:
        """Return the identities of the next attempts."""
        found = [self._first(attempt) for attempt in attempts]
        repeats = self._seen.count(np.frombuffer(b"".join(found), dtype=np.uint64)[::2])
        for place in np.flatnonzero(repeats).tolist():
            if attempts[place].native_id is None and attempts[place].identity is None:
                again = int(repeats[place]).to_bytes(8, "little")
                found[place] = blake2b(found[place] + again, digest_size=_SIZE).digest()
        return found

    def _first(self, attempt: Attempt) -> bytes:
        if attempt.identity is not None:
            return attempt.identity
        if attempt.native_id is not None:
            return _hash(attempt.native_id)
        return blake2b(attempt.row.encode("utf-8", "replace"), digest_size=_SIZE, key=self._label).digest()


def task_identity(attempt: Attempt) -> bytes | None:
    """Return the identity of an attempt's task, the same in all runs; None if nothing is known about the task."""
    if attempt.task is None and attempt.command is None:
        return None
    return _hash("\0".join((attempt.workflow or "", attempt.task or "", attempt.command or "")))


def number_of(*names: str) -> int:
    """Return the number of a run or a source: a hash of its names, so that no lookup is needed."""
    return int.from_bytes(_hash("\0".join(names))[:8], "little") >> 1  # databases have 63 bits for it


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=_SIZE).digest()


class _Seen:
    """Counts how often each number came before, using eight bytes per number.

    The numbers are in sorted arrays, each at least twice as long as the next: adding to them costs little more than
    sorting once.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def count(self, numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return how often each of the next numbers came before, in earlier calls or earlier in this one."""
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        counts = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, side="left")
        for run in self._runs:
            counts += np.searchsorted(run, ordered, side="right") - np.searchsorted(run, ordered, side="left")
        self._runs.append(ordered)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate((self._runs.pop(), self._runs.pop()))
            merged.sort(kind="stable")
            self._runs.append(merged)
        result = np.empty(len(numbers), dtype=np.int64)
        result[order] = counts
        return result
