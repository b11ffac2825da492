"""Which component goes first (PRIO's steps 4 to 6): the one that loses least against any other that could."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Profile", "priority"]

_Floats: TypeAlias = NDArray[np.float64]
_MOST_POINTS = 512
"""Of a profile with more bends, only so many are looked at: its priority is then a little too high."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """How many tasks of a component are eligible after each of those that run in it."""

    eligible: _Floats

    @property
    def size(self) -> int:
        """How many tasks run."""
        return len(self.eligible) - 1

    def bends(self) -> _Floats:
        """Return where it changes its slope, its ends included."""
        slopes = np.diff(self.eligible)
        inner = np.flatnonzero(slopes[1:] != slopes[:-1]) + 1
        bends = np.concatenate(([0], inner, [self.size]))
        if len(bends) > _MOST_POINTS:
            bends = bends[np.linspace(0, len(bends) - 1, _MOST_POINTS).astype(np.int64)]
        return bends.astype(np.float64)


def priority(first: Profile, second: Profile) -> float:
    """Return the part of the most eligible tasks that is always there if the first goes before the second.

    It is the least of E1(x + y) / (E1(x) + E2(y)) over all x and y, where E1 goes on with E2 at its end. Both sides are
    linear between bends, so the least is where two of the lines cross: x at a bend, y at a bend, x + y at a bend.
    """
    ours, theirs = first.bends(), second.bends()
    sums = np.concatenate((ours, first.size + theirs))
    xs, ys = np.meshgrid(ours, theirs, indexing="ij")
    points = [(xs.ravel(), ys.ravel())]
    xs, total = np.meshgrid(ours, sums, indexing="ij")
    points.append((xs.ravel(), (total - xs).ravel()))
    ys, total = np.meshgrid(theirs, sums, indexing="ij")
    points.append(((total - ys).ravel(), ys.ravel()))
    x, y = (np.concatenate([point[axis] for point in points]) for axis in (0, 1))
    inside = (x >= 0) & (x <= first.size) & (y >= 0) & (y <= second.size)
    x, y = x[inside].astype(np.int64), y[inside].astype(np.int64)
    together = first.eligible[x] + second.eligible[y]
    done = np.minimum(first.size, x + y)
    kept = first.eligible[done] + second.eligible[x + y - done]
    some = together > 0
    return float((kept[some] / together[some]).min(initial=1.0))
