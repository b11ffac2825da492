"""Jobs that look alike: clusters by density, as Zhang et al. find them, without comparing all pairs.

With a minimum of one sample, DBSCAN's clusters are the connected components of the graph of all pairs of points that
are at most `eps` apart. The points are put into the leaves of a balanced tree of boxes. Two boxes farther apart than
eps have no pair to look for; two boxes whose points are known to belong together are done; all others are split. So
the work hardly depends on eps, and where one eps after the other is tried, each starts from the clusters of the last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import frexp, hypot, inf, isfinite, ldexp, nextafter, sqrt
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.kernels import fast
from tonnage.size.histograms import FloatArray

__all__ = [
    "Choice",
    "adjusted_rand",
    "calinski_harabasz",
    "choose",
    "components",
    "default_radii",
    "nested_components",
    "weighted",
]

Labels: TypeAlias = NDArray[np.int64]
_Numbers: TypeAlias = Any  # a list where it is small, an array where it is compiled

_LEAF = 8
_POINT_IN_TASKS = 30  # comparing points takes so much longer than what kernels do for a task
_RADII = 20
_SAMPLE = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The clusters of the distance that suits the jobs best."""

    eps: float
    labels: Labels
    score: float | None
    """How well they match the structure where one is known, else their Calinski-Harabasz score; None: no score."""
    by: Literal["structure", "calinski-harabasz", "given"]
    """What decided; with a single distance nothing had to: it was given."""


def weighted(features: FloatArray, weights: Sequence[float]) -> FloatArray:
    """Stretch each column by its weight, so that plain distances are the paper's weighted ones.

    A weight of 0 drops its column, whatever is in it.
    """
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2 or features.shape[1] != len(weights):
        raise InputError(f"{len(weights)} weights for features of shape {features.shape}: expected one a column")
    for weight in weights:
        if not 0 <= weight < inf:
            raise InputError(f"a weight must be a finite number of at least 0, not {weight}")
    kept = np.flatnonzero(weights)
    if not len(kept):
        raise InputError("all weights are 0: at least one feature must count")
    return _checked(features[:, kept] * np.sqrt(np.asarray(weights, dtype=np.float64)[kept]))


def components(points: FloatArray, eps: float) -> Labels:
    """Return the cluster of each point: points at most `eps` apart are together, directly or through others.

    The largest cluster is 0; of clusters of the same size, the one with the earliest point comes first.
    """
    return next(nested_components(points, (eps,)))[1]


def nested_components(points: FloatArray, radii: Sequence[float]) -> Iterator[tuple[float, Labels]]:
    """Yield each radius, the smallest first, with its `components`; clusters only grow from one to the next."""
    points = _checked(points)
    for eps in radii:
        if not eps >= 0:
            raise InputError(f"a distance must be at least 0, not {eps}")
    distinct = sorted({float(eps) for eps in radii})
    for eps, clusters in zip(distinct, _Tree.of(points).joined(distinct), strict=True):
        yield eps, _by_size(clusters)


def choose(points: FloatArray, radii: Sequence[float], structure: Labels | None = None) -> Choice:
    """Return the clusters of the best of some radii.

    The best is the one most like the structure (say, the number of each job's rule) by the adjusted Rand index; without
    a structure, the one with the highest Calinski-Harabasz score. The smallest of equally good radii wins; where none
    has a score, as when all points are equal, the largest.
    """
    if not len(radii):
        raise InputError("no distance to try")
    if structure is not None and len(structure) != len(points):
        raise InputError(f"the structure has {len(structure)} jobs, the points are {len(points)}")
    by: Literal["structure", "calinski-harabasz", "given"] = "calinski-harabasz" if structure is None else "structure"
    if len(set(radii)) == 1:
        by = "given"
    best: Choice | None = None
    for eps, labels in nested_components(points, radii):
        score = calinski_harabasz(points, labels) if structure is None else adjusted_rand(labels, structure)
        if best is None or best.score is None or (score is not None and score > best.score):
            best = Choice(eps, labels, score, by)
    assert best is not None  # there is a radius
    return best


def default_radii(points: FloatArray) -> tuple[float, ...]:
    """Return the distances to try where nobody names any: 20, from close neighbours to all points together.

    The paper tries 60 to 220 in steps of 20, which suits the megabytes of its workflows only. Here the data says what
    is near and far: the smallest distance leaves three of four points without a neighbour (the lower quartile of the
    distances to the nearest different point, among at most 2000 points that are drawn in the same way each time), the
    largest joins everything. Steps in between grow by a constant factor, since clusters may be of any scale.
    """
    points = _checked(points)
    if not len(points):
        return (0.0,)
    points, exponent = _near_one(points)
    # Rounded up: else the root of a square may keep the two farthest corners apart.
    diameter = nextafter(hypot(*np.ptp(points, axis=0)), inf)
    gaps = _nearest(_sample(points))
    if not len(gaps):
        return (0.0,)
    smallest = float(np.quantile(gaps, 0.25, method="lower"))
    growth = diameter / smallest
    radii = [smallest * growth ** (step / (_RADII - 1)) for step in range(_RADII - 1)]
    return tuple(ldexp(radius, exponent) for radius in [*radii, diameter])


def adjusted_rand(labels: Labels, truth: Labels) -> float:
    """Return how alike two ways to group the same jobs are: 1 is the same, 0 is what chance would give."""
    if len(labels) != len(truth):
        raise InputError(f"{len(labels)} labels cannot be compared with {len(truth)}")
    first, second = _numbered(labels), _numbered(truth)
    both = np.unique_counts(first * (second.max(initial=0) + 1) + second).counts
    # Python's integers, since products of numbers of pairs exceed 64 bits.
    total = len(labels) ** 2
    in_both, in_first, in_second = (
        int((counts**2).sum()) for counts in (both, np.bincount(first), np.bincount(second))
    )
    together = in_both - len(labels)
    only_first, only_second = in_first - in_both, in_second - in_both
    apart = total - in_first - in_second + in_both
    if only_first == only_second == 0:
        return 1.0
    agreement = 2.0 * (together * apart - only_first * only_second)
    return agreement / (
        (together + only_first) * (only_first + apart) + (together + only_second) * (only_second + apart)
    )


def calinski_harabasz(points: FloatArray, labels: Labels) -> float | None:
    """Return how far clusters are from each other against how wide they are; higher is better.

    It is not defined for one cluster, nor where every point is its own. Clusters without any width have the score 1.
    """
    points, _ = _near_one(_checked(points))
    groups = np.unique_all(labels)
    size, count = len(points), len(groups.values)
    if len(labels) != size:
        raise InputError(f"{len(labels)} labels for {size} points")
    if not 1 < count < size:
        return None
    # Counted from a cluster's first point, equal points have no width at all, whatever is lost in rounding means.
    first = points[groups.indices]
    offsets = points - first[groups.inverse_indices]
    shift = np.stack([np.bincount(groups.inverse_indices, column) for column in offsets.T], axis=1)
    shift /= groups.counts[:, np.newaxis]
    within = float(np.square(offsets - shift[groups.inverse_indices]).sum())
    centres = first + shift
    between = float((np.square(centres - points.mean(axis=0)).sum(axis=1) * groups.counts).sum())
    return between * (size - count) / (within * (count - 1)) if within else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """Points in the boxes of a perfect binary tree: node n has the children 2n + 1 and 2n + 2.

    Every leaf has as many places as any other, side by side, and there is one point at each place.
    """

    order: NDArray[np.int64]
    """Which point stands at each place."""
    points: FloatArray
    """The points in this order."""
    leaf: int
    """How many places a leaf has."""
    begin: NDArray[np.int64]
    """The first place of each node."""
    lows: FloatArray
    """The corner of each node's box with the smallest numbers."""
    highs: FloatArray
    """The corner with the largest."""

    @classmethod
    def of(cls, points: FloatArray) -> "_Tree":
        """Halve the points at the middle of the widest axis until few are left in each part."""
        depth = 0
        while len(points) > _LEAF << depth:
            depth += 1
        leaf = -(-len(points) // (1 << depth))
        # Copies of the first point fill the places that are left: they are where it is, so they join nothing else.
        order = np.zeros(leaf << depth, dtype=np.int64)
        order[: len(points)] = np.arange(len(points))
        order = order[_halved([column[order] for column in points.T], depth)]
        points = points[order]
        lows, highs = (
            [points.reshape(1 << depth, leaf, -1).min(axis=1)],
            [points.reshape(1 << depth, leaf, -1).max(axis=1)],
        )
        for _ in range(depth):
            lows.append(np.minimum(lows[-1][::2], lows[-1][1::2]))
            highs.append(np.maximum(highs[-1][::2], highs[-1][1::2]))
        begin = [np.arange(0, len(order), len(order) >> level) for level in range(depth + 1)]
        return cls(order, points, leaf, np.concatenate(begin), np.concatenate(lows[::-1]), np.concatenate(highs[::-1]))

    def joined(self, radii: Sequence[float]) -> Iterator[Labels]:
        """Yield, for one radius after the other, each larger than the last, a place that stands for each point's cluster."""
        join = fast(_join, _POINT_IN_TASKS * len(self.order))
        places = len(self.order)
        arrays = (
            np.concatenate((self.begin, np.arange(places))),
            np.concatenate((self.lows, self.points)).ravel(),
            np.concatenate((self.highs, self.points)).ravel(),
            np.arange(places),
            np.arange(len(self.begin) + places) >= len(self.begin),
            np.empty(2000, dtype=np.int64),
        )
        room: tuple[_Numbers, ...] = arrays
        if join is _join:  # plain Python is fastest on lists
            room = tuple(array.tolist() for array in arrays)
        clusters = np.empty(self.order.max() + 1, dtype=np.int64)
        for eps in radii:
            # Measured in a power of two near eps, no square is too large or too small; and that rounds nothing.
            unit = ldexp(1.0, min(-frexp(eps)[1], 1023)) if eps else ldexp(1.0, 1023)
            join(*room, self.leaf, unit, (eps * unit) * (eps * unit))
            clusters[self.order] = room[3]
            yield clusters


def _halved(columns: list[FloatArray], depth: int) -> NDArray[np.int64]:
    """Return the places in an order that halves them, and each half, and so on, at the middle of the widest axis."""
    order = np.arange(len(columns[0]))
    for level in range(depth):
        parts = 1 << level
        begin = np.arange(0, len(order), len(order) // parts)
        widths = [np.maximum.reduceat(column, begin) - np.minimum.reduceat(column, begin) for column in columns]
        widest = np.argmax(widths, axis=0)[:, np.newaxis]
        keys = columns[0].reshape(parts, -1)
        for axis, column in enumerate(columns):
            keys = np.where(widest == axis, column.reshape(parts, -1), keys)
        places = (np.argpartition(keys, keys.shape[1] // 2, axis=1) + begin[:, np.newaxis]).ravel()
        order = order[places]
        columns = [column[places] for column in columns]
    return order


def _join(
    begin: _Numbers,
    lows: _Numbers,
    highs: _Numbers,
    parent: _Numbers,
    together: _Numbers,
    stack: _Numbers,
    leaf: int,
    unit: float,
    square: float,
) -> None:
    """Join all points whose distance, times `unit`, has at most this square.

    `parent` leads from each place to one that stands for its cluster; `together` tells which nodes have all their
    points in one cluster. Both go on from where they are. All arrays are flat.
    """

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    axes = len(lows) // len(begin)
    nodes = len(begin) - len(parent)
    for node in range(nodes - 1, -1, -1):  # children come before their parent
        if together[node]:
            continue
        inner = 2 * node + 1 < nodes
        children, count = (2 * node + 1, 2) if inner else (nodes + begin[node], leaf)
        waiting = 0
        for child in range(children, children + count):
            for other in range(child + 1, children + count):
                stack[waiting], stack[waiting + 1] = child, other
                waiting += 2
        while waiting:
            waiting -= 2
            one, other = stack[waiting], stack[waiting + 1]
            whole = together[one] and together[other]
            if whole and root(begin[one]) == root(begin[other]):
                continue
            nearest, farthest = 0.0, 0.0
            for axis in range(axes):
                ahead = lows[one * axes + axis] - highs[other * axes + axis]
                behind = lows[other * axes + axis] - highs[one * axes + axis]
                gap = max(ahead, behind, 0.0) * unit
                nearest += gap * gap
                span = min(ahead, behind) * unit
                farthest += span * span
            if nearest > square:
                continue
            if whole and farthest <= square:
                first, second = root(begin[one]), root(begin[other])
                parent[max(first, second)] = min(first, second)
                continue
            if together[one] > together[other] or (together[one] == together[other] and one > other):
                one, other = other, one
            if other >= nodes and 2 * one + 1 >= nodes:
                for place in range(begin[one], begin[one] + leaf):
                    distance = 0.0
                    for axis in range(axes):
                        gap = (lows[other * axes + axis] - lows[(nodes + place) * axes + axis]) * unit
                        distance += gap * gap
                    if distance <= square:
                        first, second = root(place), root(begin[other])
                        parent[max(first, second)] = min(first, second)
                continue
            first, size = (2 * one + 1, 2) if 2 * one + 1 < nodes else (nodes + begin[one], leaf)
            for child in range(first, first + size):
                stack[waiting], stack[waiting + 1] = child, other
                waiting += 2
        first = root(begin[node])
        same = True
        for child in range(children, children + count):
            same = same and together[child] and root(begin[child]) == first
        together[node] = same
    for place in range(len(parent)):
        parent[place] = parent[parent[place]]  # what stands for a cluster is its first place


def _by_size(clusters: NDArray[np.int64]) -> Labels:
    """Number clusters from 0, the largest first, and the one with the earliest point first among equals."""
    groups = np.unique_all(clusters)
    ranks = np.empty(len(groups.values), dtype=np.int64)
    ranks[np.lexsort((groups.indices, -groups.counts))] = np.arange(len(ranks))
    return ranks[groups.inverse_indices]


def _numbered(labels: Labels) -> NDArray[np.int64]:
    return np.unique_inverse(labels).inverse_indices


def _checked(points: FloatArray) -> FloatArray:
    """Return points as numbers that have distances."""
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or not points.shape[1]:
        raise InputError(f"points must be rows of at least one number, not an array of shape {points.shape}")
    finite = np.isfinite(points)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(f"row {row}, column {column}: {points[row, column]} is not a finite number")
    return points


def _near_one(points: FloatArray) -> tuple[FloatArray, int]:
    """Return the points divided by a power of two, so that squares neither overflow nor vanish, and its exponent."""
    exponent = frexp(float(np.abs(points).max(initial=0.0)))[1]
    return np.ldexp(points, -exponent), exponent
