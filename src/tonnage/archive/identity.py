"""Identities of attempts, which ensure that the same job is never stored twice.

The identity of an attempt comes from its native id, wherever it is read. Without one, it comes from the row it was read
from and the label of the source; since real logs hold equal rows that are different jobs, equal rows are numbered. So a
log that has grown can be imported again without duplicates.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from tonnage.jobs import Attempt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Identities", "identity_of", "number_of", "task_identity"]

_SIZE = 16


class Identities:
    """Assigns identities to the attempts of one source, in the order in which they are read."""

    def __init__(self, label: str) -> None:
        self._label = _hash(label)
        self._seen = _Seen()

    def assign(self, attempts: Sequence[Attempt]) -> list[bytes]:
        """Return the identities of the next attempts."""
        found = [self._first(attempt) for attempt in attempts]
        rows = [place for place, one in enumerate(attempts) if one.native_id is None and one.identity is None]
        if rows:
            for place, before in zip(rows, self._seen.count([found[place] for place in rows]), strict=True):
                if before:
                    found[place] = blake2b(found[place] + before.to_bytes(8, "little"), digest_size=_SIZE).digest()
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
    return identity_of(attempt.workflow, attempt.task, attempt.command)


def identity_of(workflow: str | None, task: str | None, command: str | None) -> bytes:
    """Return the identity of a task, given by the names of its workflow and itself and by its command."""
    return _hash("\0".join((workflow or "", task or "", command or "")))


def number_of(*names: str) -> int:
    """Return the number of a run or a source: a hash of its names, so that no lookup is needed."""
    return int.from_bytes(_hash("\0".join(names))[:8], "little") >> 1  # databases have 63 bits for it


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=_SIZE).digest()


class _Seen:
    """Counts how often each hash came before, using eight bytes for each.

    The numbers are in sorted arrays, each at least twice as long as the next: adding to them costs little more than
    sorting once.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def count(self, hashes: Sequence[bytes]) -> list[int]:
        """Return how often each of the next hashes came before, in earlier calls or earlier in this one."""
        import numpy as np  # not needed by runs, whose attempts have ids

        numbers = np.frombuffer(b"".join(hashes), dtype=np.uint64)[::2]
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
        repeats: list[int] = result.tolist()
        return repeats
