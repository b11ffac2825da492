"""Clusters of jobs are those of DBSCAN with one sample, and their scores those of scikit-learn."""

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from math import inf, nan, nextafter, sqrt

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN  # type: ignore[import-untyped]
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score  # type: ignore[import-untyped]

from tonnage import jit
from tonnage.errors import InputError
from tonnage.size.clusters import (
    Labels,
    adjusted_rand,
    calinski_harabasz,
    choose,
    components,
    default_radii,
    nested_components,
    weighted,
)
from tonnage.size.histograms import FloatArray

# The plain and the compiled kernel are the same for all examples of a test.
either_kernel = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(params=["plain", "compiled"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(jit, "COMPILE_FROM", 10**12 if request.param == "plain" else 0)
    yield request.param


def dbscan(points: FloatArray, eps: float) -> Labels:
    """Cluster with scikit-learn's tree, which compares squares of distances; its brute force rounds otherwise."""
    labels: Labels = DBSCAN(eps=eps, min_samples=1, algorithm="kd_tree").fit(points).labels_
    return labels


def by_brute_force(points: FloatArray, eps: float) -> Labels:
    """Join all pairs at most `eps` apart, computed without any rounding."""
    exact = [[Fraction(value) for value in point] for point in points.tolist()]
    square = Fraction(eps) ** 2
    labels = np.arange(len(points))
    for one, here in enumerate(exact):
        for other, there in enumerate(exact[:one]):
            if sum((a - b) ** 2 for a, b in zip(here, there, strict=True)) <= square:
                labels[labels == labels[one]] = labels[other]
    return labels


def same_partition(labels: Labels, others: Labels) -> bool:
    pairs = np.unique(np.stack([labels, others]), axis=1)
    return len(pairs.T) == len(np.unique(labels)) == len(np.unique(others))


@st.composite
def grids(draw: st.DrawFn, max_size: int = 60) -> FloatArray:
    """Points on a grid, with many duplicates and many pairs at exactly the same distance."""
    size, axes = draw(st.integers(1, max_size)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.integers(0, draw(st.integers(1, 30)), (size, axes)) / draw(st.sampled_from([1, 4, 1024]))
    return points + draw(st.sampled_from([0.0, -7.0, 1e6]))


@st.composite
def clouds(draw: st.DrawFn) -> FloatArray:
    """Points of any scale: uniform, in clumps, or with a long tail."""
    size, axes = draw(st.integers(1, 400)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.normal(size=(size, axes))
    kind = draw(st.sampled_from(["normal", "uniform", "clumps", "tail"]))
    if kind == "uniform":
        points = rng.random((size, axes))
    elif kind == "clumps":
        points = points * 0.02 + rng.random((5, axes))[rng.integers(0, 5, size)]
    elif kind == "tail":
        points = np.exp(3 * points)
    return points * draw(st.sampled_from([1e-30, 1.0, 1e5, 1e30]))


@either_kernel
@given(points=grids(), steps=st.integers(1, 20))
def test_the_clusters_are_those_of_dbscan_also_at_exactly_eps(kernel: str, points: FloatArray, steps: int) -> None:
    eps = steps / 4
    assert same_partition(components(points, eps), dbscan(points, eps))


@either_kernel
@given(points=clouds(), share=st.floats(0.001, 0.5))
def test_the_clusters_are_those_of_dbscan_on_any_scale(kernel: str, points: FloatArray, share: float) -> None:
    eps = share * float(np.ptp(points, axis=0).max()) or 1.0
    assert same_partition(components(points, eps), dbscan(points, eps))


@either_kernel
@given(points=grids(max_size=12), eps=st.sampled_from([0.0, 0.25, 1.0, 5.0, 13.0, inf]))
def test_the_clusters_are_those_of_joining_all_close_pairs(kernel: str, points: FloatArray, eps: float) -> None:
    expected = by_brute_force(points, min(eps, 1e300))
    assert same_partition(components(points, eps), expected)


@either_kernel
@given(
    points=st.lists(
        st.tuples(*[st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1.0, 1.7e308, -1.7e308])] * 2), min_size=1, max_size=8
    ).map(np.array),
    eps=st.sampled_from([0.0, 5e-324, 1e-310, 3e-300, 1e-200, 1e-5, 2.0, 1e200, 1.75e308, inf]),
)
def test_no_number_is_too_large_or_too_small(kernel: str, points: FloatArray, eps: float) -> None:
    expected = by_brute_force(points, eps) if eps < inf else np.zeros(len(points), dtype=np.int64)
    with np.errstate(all="raise", under="ignore"):
        assert same_partition(components(points, eps), expected)


@pytest.mark.parametrize("eps", [sqrt(2), sqrt(3), sqrt(5), 0.1, 0.3, 1 / 3])
def test_a_distance_of_exactly_eps_joins_and_the_next_larger_one_does_not(kernel: str, eps: float) -> None:
    assert components(np.array([[0.0], [eps]]), eps).tolist() == [0, 0]
    assert components(np.array([[0.0], [nextafter(eps, inf)]]), eps).tolist() == [0, 1]


def test_the_largest_cluster_comes_first_and_then_the_one_with_the_earliest_point(kernel: str) -> None:
    points = np.array([[50.0], [9.0], [0.0], [30.0], [1.0], [10.0], [2.0], [70.0]])
    assert components(points, 1.0).tolist() == [2, 1, 0, 3, 0, 1, 0, 4]


@either_kernel
@given(points=clouds(), share=st.floats(0.001, 0.5))
def test_labels_are_numbered_by_size(kernel: str, points: FloatArray, share: float) -> None:
    labels = components(points, share * float(np.ptp(points)))
    sizes, first = np.bincount(labels), np.unique(labels, return_index=True)[1]
    assert labels.dtype == np.int64
    assert sorted(zip(-sizes, first, strict=True)) == list(zip(-sizes, first, strict=True))


@given(points=clouds(), shares=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_trying_several_distances_gives_what_each_gives_alone(points: FloatArray, shares: list[float]) -> None:
    radii = [share * float(np.ptp(points)) for share in shares]
    found = list(nested_components(points, radii))
    assert [eps for eps, _ in found] == sorted(set(radii))
    for eps, labels in found:
        assert labels.tolist() == components(points, eps).tolist()


def many(kind: str, size: int) -> FloatArray:
    """Points that some ways to cluster are slow at."""
    rng = np.random.default_rng(7)
    points = rng.random((size, 4))
    if kind == "equal points":
        points[:] = 3.0
    elif kind == "constant axis":
        points[:, 2] = 5.0
    elif kind == "half of all in one clump":
        points[::2] = 0.5 + points[::2] * 1e-3
    elif kind == "chain":
        points = np.outer(rng.permutation(size), [1e-3, 0, 0, 0])
    elif kind == "long tail":
        points = np.exp(rng.normal(size=(size, 4)) * 2) / 100
    return points


@pytest.mark.parametrize(
    "kind", ["uniform", "equal points", "constant axis", "half of all in one clump", "chain", "long tail"]
)
@pytest.mark.parametrize("size", [5_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_many_points_are_no_trouble(kind: str, size: int) -> None:
    points = many(kind, size)
    everything = float(np.linalg.norm(np.ptp(points, axis=0))) + 1
    for eps, labels in nested_components(points, [0.0, 0.004, 0.05, everything]):
        if eps == 0:
            assert len(np.unique(points, axis=0)) == labels.max() + 1
        elif eps == everything or kind == "equal points":  # of which scikit-learn would keep all pairs
            assert not labels.any()
        else:
            assert same_partition(labels, dbscan(points, eps))


def test_no_points_have_no_clusters() -> None:
    assert components(np.empty((0, 3)), 1.0).tolist() == []
    assert default_radii(np.empty((0, 3))) == (0.0,)


@given(
    st.integers(0, 60).flatmap(
        lambda size: st.tuples(*[st.lists(st.integers(-3, 5) | st.integers(), min_size=size, max_size=size)] * 2)
    )
)
def test_the_match_with_a_structure_is_exactly_the_adjusted_rand_index(groups: tuple[list[int], list[int]]) -> None:
    labels, truth = (np.array([value % 2**40 for value in group], dtype=np.int64) for group in groups)
    assert adjusted_rand(labels, truth) == adjusted_rand_score(truth, labels)


def test_the_match_is_exact_for_many_jobs() -> None:
    rng = np.random.default_rng(3)
    labels, truth = rng.integers(0, 5, 200_000), rng.integers(0, 100_000, 200_000)
    for one, other in [(labels, truth), (truth, labels), (labels, labels), (truth, np.arange(200_000))]:
        assert adjusted_rand(one, other) == adjusted_rand_score(other, one)


@given(points=clouds(), clusters=st.integers(1, 8), seed=st.integers(0, 99))
def test_the_score_is_the_calinski_harabasz_score(points: FloatArray, clusters: int, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, clusters, len(points)) * 3 - 4
    count = len(np.unique(labels))
    score = calinski_harabasz(points, labels)
    if 1 < count < len(points):
        assert score == pytest.approx(calinski_harabasz_score(points, labels), rel=1e-6)
    else:
        assert score is None


def test_clusters_of_equal_points_have_the_score_1_whatever_is_rounded() -> None:
    points = np.array([[0.1, 0.7]] * 3 + [[0.3, 1e200]] * 3)
    assert calinski_harabasz(points, np.array([0, 0, 0, 1, 1, 1])) == 1.0
    assert calinski_harabasz(np.zeros((4, 2)), np.array([0, 0, 1, 1])) == calinski_harabasz_score(
        np.zeros((4, 2)), [0, 0, 1, 1]
    )


def three_clumps() -> tuple[FloatArray, Labels]:
    rng = np.random.default_rng(11)
    structure = np.repeat([0, 1, 2], [200, 80, 120])
    return np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 300.0]])[structure] + rng.normal(size=(400, 2)), structure


def test_the_structure_decides_where_it_is_known() -> None:
    points, structure = three_clumps()
    choice = choose(points, [0.1, 20, 30, 150, 1000], structure)
    assert (choice.eps, choice.score, choice.by) == (20, 1.0, "structure")
    assert same_partition(choice.labels, structure)
    merged = choose(points, [0.1, 20, 30, 150, 1000], np.minimum(structure, 1))
    assert merged.score is not None
    assert merged.score < 1


def test_the_highest_calinski_harabasz_score_decides_where_no_structure_is_known() -> None:
    points, structure = three_clumps()
    radii = [1000.0, 30.0, 20.0, 150.0]
    choice = choose(points, radii)
    scores = {eps: calinski_harabasz(points, labels) for eps, labels in nested_components(points, radii)}
    assert scores[1000.0] is None
    assert choice.score == max(score for score in scores.values() if score is not None)
    assert (choice.eps, choice.by) == (20.0, "calinski-harabasz")
    assert same_partition(choice.labels, structure)


def test_without_any_score_the_largest_distance_is_taken() -> None:
    choice = choose(np.ones((5, 2)), [3.0, 1.0, 2.0])
    assert (choice.eps, choice.score, choice.labels.tolist()) == (3.0, None, [0] * 5)
    apart = choose(np.array([[0.0], [10.0]]), [1.0, 2.0])
    assert (apart.eps, apart.score, apart.labels.tolist()) == (2.0, None, [0, 1])


def test_a_single_distance_is_given_and_still_scored() -> None:
    points, structure = three_clumps()
    choice = choose(points, [20.0], structure)
    assert (choice.eps, choice.score, choice.by) == (20.0, 1.0, "given")


@given(points=clouds() | grids())
def test_default_distances_reach_from_close_neighbours_to_everything(points: FloatArray) -> None:
    radii = default_radii(points)
    assert list(radii) == sorted(set(radii))
    assert len(radii) <= 20
    assert not components(points, radii[-1]).any()
    if len(points) > 1:
        alone = np.bincount(components(points, radii[0])) == 1
        assert alone.sum() <= 0.1 * len(np.unique(points, axis=0))


@given(points=clouds(), seed=st.integers(0, 99), exponent=st.integers(-60, 60))
def test_default_distances_depend_on_neither_scale_nor_order(points: FloatArray, seed: int, exponent: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(points) * 2.0**exponent
    assert default_radii(shuffled) == tuple(radius * 2.0**exponent for radius in default_radii(points))


def test_default_distances_find_clumps_on_any_scale() -> None:
    points, structure = three_clumps()
    for scale in (1e-200, 1.0, 1e200):
        assert choose(points * scale, default_radii(points * scale), structure).score == 1.0
        assert same_partition(choose(points * scale, default_radii(points * scale)).labels, structure)


def test_default_distances_of_equal_points_are_zero_and_of_extreme_ones_join_everything() -> None:
    assert default_radii(np.full((4, 2), 7.0)) == (0.0,)
    far = np.array([[1.7e308, 0.0], [-1.7e308, 5e-324], [0.0, 1.0]])
    assert not components(far, default_radii(far)[-1]).any()
    near = np.array([[0.5, 0.0], [0.5, 1e-200]])
    assert not components(near, default_radii(near)[-1]).any()


def test_weights_stretch_the_distance_as_in_the_paper() -> None:
    features = np.array([[1.0, 2000.0, 500.0, 60.0], [4.0, 1900.0, 900.0, 30.0]])
    weights = (0.1, 0.7, 0.1, 0.1)
    one, other = weighted(features, weights)
    expected = sqrt(sum(w * (a - b) ** 2 for w, a, b in zip(weights, *features.tolist(), strict=True)))
    assert float(np.linalg.norm(one - other)) == pytest.approx(expected)


def test_a_weight_of_0_drops_a_column_whatever_is_in_it() -> None:
    features = np.array([[1.0, nan, 3.0], [4.0, 5.0, inf]])
    assert weighted(features, [4.0, 0.0, 0.0]).tolist() == [[2.0], [8.0]]


@pytest.mark.parametrize(
    ("features", "weights", "message"),
    [
        ([[1.0, 2.0]], [1.0, -0.5], "a weight must be a finite number of at least 0, not -0.5"),
        ([[1.0, 2.0]], [1.0, nan], "at least 0, not nan"),
        ([[1.0, 2.0]], [inf, 1.0], "at least 0, not inf"),
        ([[1.0, 2.0]], [0.0, 0.0], "all weights are 0"),
        ([[1.0, 2.0]], [1.0], r"1 weights for features of shape \(1, 2\): expected one per column"),
        ([1.0, 2.0], [1.0, 1.0], "expected one per column"),
        ([[1.0, 2.0], [3.0, nan]], [0.0, 1.0], "row 1, column 1: nan is not a finite number"),
        ([[1e308, 2.0]], [1e10, 1.0], "row 0, column 0: inf is not a finite number"),
    ],
)
def test_features_that_cannot_be_weighted_are_refused(
    features: list[float], weights: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        weighted(np.array(features), weights)


def test_what_has_no_distance_is_refused() -> None:
    points = np.ones((3, 2))
    for eps in (-1.0, nan):
        with pytest.raises(InputError, match="must be at least 0"):
            components(points, eps)
    for wrong in (np.ones(3), np.ones((3, 0)), np.ones((3, 2, 2))):
        with pytest.raises(InputError, match="rows of at least one number"):
            components(wrong, 1.0)
    with pytest.raises(InputError, match="row 0, column 0: inf is not a finite number"):
        default_radii(np.array([[inf]]))
    with pytest.raises(InputError, match="no distances to try"):
        choose(points, [])


def test_clusters_of_other_jobs_are_refused() -> None:
    points, labels = np.ones((3, 2)), np.zeros(2, dtype=np.int64)
    with pytest.raises(InputError, match="clusters cover 3 jobs, but the structure covers 2"):
        choose(points, [1.0], labels)
    with pytest.raises(InputError, match="clusters cover 2 jobs, but there are 3 points"):
        calinski_harabasz(points, labels)


def test_a_small_workflow_never_loads_numba() -> None:
    code = (
        "import sys, numpy as np; from tonnage.size.clusters import *; p = np.random.default_rng(1).random((300, 4)); "
        "choose(p, default_radii(p)); print('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
