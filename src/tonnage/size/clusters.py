"""Similar jobs: density-based clusters, as found by Zhang et al., without comparing all pairs.

With a minimum of one sample, DBSCAN's clusters are the connected components of the graph of all pairs of points that
are at most `eps` apart. The points are put into a balanced tree of boxes. Two boxes farther apart than eps need no
search; two boxes whose points are known to be in one cluster are done; others are split. There is no grid to overflow,
time hardly depends on eps, and if several eps are tried, each starts from the clusters of the previous one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import frexp, hypot, inf, ldexp, nextafter
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jit import compiled
from tonnage.size.histograms import FloatArray

__all__ = [
    "Choice",
    "Labels",
    "adjusted_rand",
    "calinski_harabasz",
    "choose",
    "components",
    "default_radii",
    "nested_components",
    "weighted",
]

Labels: TypeAlias = NDArray[np.int64]
_Criterion: TypeAlias = Literal["structure", "calinski-harabasz", "given"]
_Numbers: TypeAlias = Any  # a list if small, an array if compiled

_LEAF = 4  # boxes with at most this many points are not split
_POINT_IN_TASKS = 30  # how much longer kernels take for a point than for a task
_RADII = 20
_SAMPLE = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The clusters at the best of the distances tried."""

    eps: float
    labels: Labels
    score: float | None
    """The adjusted Rand index if the structure is known, else the Calinski-Harabasz score; None if undefined."""
    by: _Criterion
    """How the distance was chosen; a single distance is "given", and its score plays no role."""


def weighted(features: FloatArray, weights: Sequence[float]) -> FloatArray:
    """Scale each column by the square root of its weight, so that plain distances are the paper's weighted ones.

    A weight of 0 drops its column, whatever it contains.
    """
    features, factors = np.asarray(features, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if features.ndim != 2 or factors.shape != features.shape[1:]:
        raise InputError(f"{len(weights)} weights for features of shape {features.shape}: expected one per column")
    for weight in weights:
        if not 0 <= weight < inf:
            raise InputError(f"a weight must be a finite number of at least 0, not {weight}")
    counts = factors > 0
    if not counts.any():
        raise InputError("all weights are 0: at least one feature needs a positive weight")
    features = _checked(np.where(counts, features, 0.0))[:, counts]
    with np.errstate(over="ignore"):
        return _checked(features * np.sqrt(factors[counts]))


def components(points: FloatArray, eps: float) -> Labels:
    """Return the cluster of each point: points at most `eps` apart share one, directly or through others.

    The largest cluster is 0; among clusters of the same size, the one with the earliest point comes first.
    """
    return next(nested_components(points, (eps,)))[1]


def nested_components(points: FloatArray, radii: Sequence[float]) -> Iterator[tuple[float, Labels]]:
    """Return each radius, smallest first, with its `components`: cheaper than computing them one by one."""
    points = _checked(points)
    for eps in radii:
        if not eps >= 0:
            raise InputError(f"a distance between points must be at least 0, not {eps}")
    ascending = sorted({float(eps) for eps in radii})
    if not len(points):
        return ((eps, np.empty(0, dtype=np.int64)) for eps in ascending)
    return zip(ascending, map(_by_size, _joined(_Tree.of(points), ascending)), strict=True)


def choose(points: FloatArray, radii: Sequence[float], structure: Labels | None = None) -> Choice:
    """Return the clusters at the best of several distances.

    The best is the one closest to the structure (for example, the number of each job's rule) by the adjusted Rand
    index; without a structure, the one with the highest Calinski-Harabasz score. Among equally good distances the
    smallest wins; if none has a score, for example because all points are equal, the largest.
    """
    if not len(radii):
        raise InputError("no distances to try")
    by: _Criterion = "calinski-harabasz" if structure is None else "structure"
    if len(set(radii)) == 1:
        by = "given"
    tried = nested_components(points, radii)
    best = _scored(points, *next(tried), structure, by)
    for eps, labels in tried:
        choice = _scored(points, eps, labels, structure, by)
        if best.score is None or (choice.score is not None and choice.score > best.score):
            best = choice
    return best


def _scored(points: FloatArray, eps: float, labels: Labels, structure: Labels | None, by: _Criterion) -> Choice:
    score = calinski_harabasz(points, labels) if structure is None else adjusted_rand(labels, structure)
    return Choice(eps, labels, score, by)


def default_radii(points: FloatArray) -> tuple[float, ...]:
    """Return the default distances to try: up to 20, ascending, independent of the scale of the data.

    The paper tries 60 to 220 in steps of 20, which suits its own workflows and units. Here the data determine what is
    near and far. At the smallest distance, nine of ten distinct points have a neighbour: below it, more and more jobs
    are isolated, and the Calinski-Harabasz score of such dust is often higher than that of clusters. (More than 2000
    points are represented by 2000 of them, spread evenly over the sorted list.) At the largest distance there is only
    one cluster. The distances form a geometric series, since clusters can be of any width.
    """
    points = _checked(points)
    different = np.unique(points, axis=0)
    if len(different) < 2:
        return (0.0,)
    different, exponent = _near_one(different)
    # Rounded up, here and below: otherwise a point at exactly this distance may be left out.
    diameter = nextafter(hypot(*np.ptp(different, axis=0)), inf)
    gaps = _gaps(different[np.linspace(0, len(different) - 1, min(_SAMPLE, len(different))).astype(np.int64)])
    smallest = nextafter(float(np.quantile(gaps, 0.9, method="higher")), inf) if len(gaps) else diameter
    radii = [smallest * (diameter / smallest) ** (step / (_RADII - 1)) for step in range(_RADII - 1)]
    with np.errstate(over="ignore"):  # an infinite distance joins everything too
        return tuple(np.unique(np.ldexp([*radii, diameter], exponent)).tolist())


def _gaps(points: FloatArray) -> FloatArray:
    """Return the distance of each point from its nearest neighbour, leaving out distances that round to 0."""
    squares = np.zeros((len(points), len(points)))
    for column in points.T:
        squares += np.square(column[:, np.newaxis] - column)
    np.fill_diagonal(squares, inf)
    nearest: FloatArray = np.sqrt(squares.min(axis=1))
    return nearest[nearest > 0]


def adjusted_rand(labels: Labels, truth: Labels) -> float:
    """Return how similar two groupings of the same jobs are: 1 for identical, 0 for what chance would give."""
    if len(labels) != len(truth):
        raise InputError(f"the clusters cover {len(labels)} jobs, but the structure covers {len(truth)}")
    size = len(labels)
    first, second = np.unique_inverse(labels).inverse_indices, np.unique_inverse(truth).inverse_indices
    both = np.unique_counts(first * (second.max(initial=0) + 1) + second).counts
    # Numbers of ordered pairs, in Python's integers since their products exceed 64 bits.
    in_both, in_first, in_second = (
        int(np.square(counts).sum()) for counts in (both, np.bincount(first), np.bincount(second))
    )
    together, apart = in_both - size, size * size - in_first - in_second + in_both
    only_first, only_second = in_first - in_both, in_second - in_both
    if only_first == only_second == 0:
        return 1.0
    agreement = 2.0 * (together * apart - only_first * only_second)
    return agreement / (
        (together + only_first) * (only_first + apart) + (together + only_second) * (only_second + apart)
    )


def calinski_harabasz(points: FloatArray, labels: Labels) -> float | None:
    """Return how far apart clusters are, relative to how wide they are; higher is better.

    It is undefined for one cluster, and if every point is its own cluster. Clusters without any width score 1.
    """
    points, _ = _near_one(_checked(points))
    if len(labels) != len(points):
        raise InputError(f"the clusters cover {len(labels)} jobs, but there are {len(points)} points")
    clusters = np.unique_all(labels)
    number, size, count = clusters.inverse_indices, len(points), len(clusters.values)
    if not 1 < count < size:
        return None
    # Measured from a cluster's first point, equal points have no width at all: their mean would be rounded.
    first = points[clusters.indices]
    offsets = points - first[number]
    middle = np.stack([np.bincount(number, column) for column in offsets.T], axis=1) / clusters.counts[:, np.newaxis]
    within = float(np.square(offsets - middle[number]).sum())
    between = float(clusters.counts @ np.square(first + middle - points.mean(axis=0)).sum(axis=1))
    return between * (size - count) / (within * (count - 1)) if within else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """Points in the boxes of a perfect binary tree.

    The nodes are the boxes, level by level from the root, followed by the points, each a child of a leaf. All leaves
    have the same number of points.
    """

    order: NDArray[np.int64]
    """Which point is at each position; the points of a node are adjacent."""
    children: NDArray[np.int64]
    """The first child of each box; its last child precedes the first child of the next box."""
    begin: NDArray[np.int64]
    """The first position of each node."""
    lows: FloatArray
    """The smallest coordinates in each node."""
    highs: FloatArray
    """The largest."""

    @classmethod
    def of(cls, points: FloatArray) -> "_Tree":
        """Halve the points at the median of the widest axis until each part has only a few."""
        depth = 0
        while len(points) > _LEAF << depth:
            depth += 1
        leaf = -(-len(points) >> depth)
        # Copies of the first point fill the remaining positions: they coincide with it, so they join nothing else.
        order = np.zeros(leaf << depth, dtype=np.int64)
        order[: len(points)] = np.arange(len(points))
        order = order[_halved([column[order] for column in points.T], depth)]
        lows, highs = [points[order]], [points[order]]
        for parts in (leaf, *[2] * depth):
            lows.append(lows[-1].reshape(-1, parts, points.shape[1]).min(axis=1))
            highs.append(highs[-1].reshape(-1, parts, points.shape[1]).max(axis=1))
        boxes = (2 << depth) - 1
        children = np.concatenate((np.arange(1, boxes, 2), np.arange(boxes, boxes + len(order) + 1, leaf)))
        begin = np.concatenate([np.arange(0, len(order), len(order) // len(level)) for level in lows[::-1]])
        return cls(order, children, begin, np.concatenate(lows[::-1]), np.concatenate(highs[::-1]))


def _halved(columns: list[FloatArray], depth: int) -> NDArray[np.int64]:
    """Order the positions so that they are halved at the median of the widest axis, then each half, and so on."""
    order = np.arange(len(columns[0]))
    for level in range(depth):
        begin = np.arange(0, len(order), len(order) >> level)
        with np.errstate(over="ignore"):  # a width that overflows is the widest
            widths = [np.maximum.reduceat(column, begin) - np.minimum.reduceat(column, begin) for column in columns]
        widest = np.argmax(widths, axis=0)[:, np.newaxis]
        keys = columns[0].reshape(len(begin), -1)
        for axis, column in enumerate(columns):
            keys = np.where(widest == axis, column.reshape(len(begin), -1), keys)
        places = (np.argpartition(keys, keys.shape[1] // 2, axis=1) + begin[:, np.newaxis]).ravel()
        order = order[places]
        columns = [column[places] for column in columns]
    return order


def _joined(tree: _Tree, radii: Sequence[float]) -> Iterator[NDArray[np.int64]]:
    """Yield a representative of each point's cluster, for each of the ascending radii."""
    parent, together = np.arange(len(tree.order)), np.arange(len(tree.begin)) >= len(tree.children) - 1
    stack = np.empty(8 * _LEAF * len(tree.begin).bit_length(), dtype=np.int64)
    boxes = (tree.children, tree.begin, tree.lows.ravel(), tree.highs.ravel())
    arrays: tuple[_Numbers, ...] = (*boxes, parent, together, stack)
    size = int(tree.order.max()) + 1
    join: Callable[..., None] = compiled(_join, _POINT_IN_TASKS * size)
    if join is _join:  # plain Python is fastest on lists
        arrays = tuple(array.tolist() for array in arrays)
    for eps in radii:
        # In units of a power of two near eps, no square overflows or underflows, and nothing is rounded.
        unit = ldexp(1.0, min(-frexp(eps)[1], 1023) if eps else 1023)
        join(*arrays, unit, eps * unit * (eps * unit))
        clusters = np.empty(size, dtype=np.int64)
        clusters[tree.order] = arrays[4]
        yield clusters


def _join(
    children: _Numbers,
    begin: _Numbers,
    lows: _Numbers,
    highs: _Numbers,
    parent: _Numbers,
    together: _Numbers,
    stack: _Numbers,
    unit: float,
    square: float,
) -> None:
    """Join all points whose distance, times `unit`, has at most this square.

    `parent` leads from each position to the first one of its cluster. `together` marks nodes whose points are all in
    one cluster. Both carry over from a smaller distance. `stack` holds the pairs of nodes that remain to be compared.

    Boxes and points are measured the same way, and rounding is monotonic: no point is nearer than its box.
    """

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    axes = len(lows) // len(begin)
    for node in range(len(children) - 2, -1, -1):  # children before their parent
        first, end = children[node], children[node + 1]
        waiting = 0
        for one in range(first, end):
            for other in range(one + 1, end):
                stack[waiting], stack[waiting + 1] = one, other
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
                gap, span = max(ahead, behind, 0.0) * unit, min(ahead, behind) * unit
                nearest += gap * gap
                farthest += span * span
            if nearest > square:
                continue
            if whole and farthest <= square:
                here, there = root(begin[one]), root(begin[other])
                parent[max(here, there)] = min(here, there)
                continue
            # Split the node that is not one cluster, else the larger one: an outlier is compared with a whole clump.
            if (together[one], one) > (together[other], other):
                one, other = other, one
            for child in range(children[one], children[one + 1]):
                stack[waiting], stack[waiting + 1] = child, other
                waiting += 2
        same = True
        for child in range(first, end):
            same = same and together[child] and root(begin[child]) == root(begin[first])
        together[node] = same
    for place in range(len(parent)):
        parent[place] = parent[parent[place]]  # an earlier position, which already leads to the first


def _by_size(clusters: NDArray[np.int64]) -> Labels:
    """Number clusters from 0, largest first; among equals, the one with the earliest point comes first."""
    found = np.unique_all(clusters)
    ranks = np.empty(len(found.values), dtype=np.int64)
    ranks[np.lexsort((found.indices, -found.counts))] = np.arange(len(ranks))
    return ranks[found.inverse_indices]


def _checked(points: FloatArray) -> FloatArray:
    """Return points as an array of finite numbers, or raise InputError."""
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or not points.shape[1]:
        raise InputError(f"points must be rows of at least one number, not an array of shape {points.shape}")
    finite = np.isfinite(points)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(f"row {row}, column {column}: {points[row, column]} is not a finite number")
    return points


def _near_one(points: FloatArray) -> tuple[FloatArray, int]:
    """Scale points by a power of two so that no square overflows; also return the exponent of that power."""
    exponent = frexp(float(np.abs(points).max(initial=0.0)))[1]
    return np.ldexp(points, -exponent), exponent
