"""What ran and what it held over time, beside brute force."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.jobs import Resource
from tonnage.report.figures import Bar, Palette, committed_and_used, lanes, running_by_category
from tonnage.report.figures.over_time import mean_over_time, packed

SPANS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 50), st.integers(1, 9)).map(
        lambda one: (one[0], one[0] + one[1], one[2])
    ),
    min_size=1,
    max_size=20,
)
EPOCH = 1.7e9


def arrays(spans: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(spans, float)
    return table[:, 0] + EPOCH, table[:, 1] + EPOCH, table[:, 2]


def held(spans: list[tuple[int, int, int]], begin: float, end: float) -> float:
    """Return amounts times seconds between two moments, attempt by attempt."""
    return sum(amount * max(0.0, min(end, last) - max(begin, first)) for first, last, amount in spans)


@given(SPANS, st.integers(1, 40))
def test_each_span_holds_on_average_what_attempts_held_in_it(spans: list[tuple[int, int, int]], many: int) -> None:
    started, ended, amounts = arrays(spans)
    edges = np.linspace(EPOCH, EPOCH + 160, many + 1)
    mean = mean_over_time(started, ended, amounts, edges)
    wanted = [held(spans, low - EPOCH, high - EPOCH) / (high - low) for low, high in pairwise(edges)]
    assert mean == pytest.approx(wanted, abs=1e-6)


@given(SPANS)
def test_the_areas_in_a_picture_are_what_was_committed_and_used(spans: list[tuple[int, int, int]]) -> None:
    started, ended, amounts = arrays(spans)
    if (ended == started).all():
        return
    figure = committed_and_used(started, ended, 3 * amounts, amounts, Resource.CORES)
    assert figure is not None
    total = sum(amount * (last - first) for first, last, amount in spans)
    for one, factor in zip(figure["data"], (1, 3), strict=True):
        seconds = (one["x"][-1] - one["x"][0]) * (60 if "minutes" in figure["layout"]["xaxis"]["title"]["text"] else 1)
        area = np.mean(one["y"][:-1]) * seconds
        assert area == pytest.approx(factor * total, rel=1e-3)
    assert [one["name"] for one in figure["data"]] == ["used", "committed"]


@given(SPANS)
def test_tasks_by_category_add_up_to_all(spans: list[tuple[int, int, int]]) -> None:
    started, ended, amounts = arrays(spans)
    category = amounts.astype(np.int64) - 1
    names = [f"category {number}" for number in range(9)]
    figure = running_by_category(started, ended, category, names, Palette.of(names))
    assert figure is not None
    together = np.sum([np.array(one["y"], float) for one in figure["data"]], axis=0)
    edges = np.linspace(started.min(), max(ended.max(), started.min() + (ended.max() == started.min())), 301)
    assert together[:-1] == pytest.approx(mean_over_time(started, ended, np.ones(len(started)), edges), abs=1e-3)
    assert len(figure["data"]) <= 8  # seven have a colour, the others are one


@given(SPANS)
def test_bars_in_a_lane_do_not_overlap_and_there_are_as_few_lanes_as_can_be(spans: list[tuple[int, int, int]]) -> None:
    found = packed([(first, last) for first, last, _ in spans])
    for lane in set(found):
        own = sorted(span[:2] for span, place in zip(spans, found, strict=True) if place == lane)
        assert all(before[1] <= after[0] for before, after in pairwise(own))
    moments = {first for first, _, _ in spans}
    at_once = max(sum(first <= one < last or first == last == one for first, last, _ in spans) for one in moments)
    assert max(found) + 1 <= max(at_once, 1)


def test_attempts_that_did_not_succeed_are_hatched() -> None:
    bars = [Bar(0, 1, "a", "one", True), Bar(1, 2, "a", "two", False)]
    figure = lanes(bars, Palette.of(["a"]))
    assert figure is not None
    assert figure["data"][0]["marker"]["pattern"]["shape"] == ["", "x"]


def test_what_ran_nobody_knows_when_is_not_drawn() -> None:
    unknown = np.full(3, np.nan)
    assert running_by_category(unknown, unknown, np.zeros(3, np.int64), ["a"], Palette.of(["a"])) is None
    assert committed_and_used(unknown, unknown, np.ones(3), np.ones(3), Resource.MEMORY) is None
    assert lanes([], Palette.of([])) is None


def test_all_pictures_over_time_begin_and_end_at_the_same_moments() -> None:
    started, ended = np.array([100.0, 150.0]), np.array([200.0, 400.0])
    one = running_by_category(started, ended, np.zeros(2, np.int64), ["a"], Palette.of(["a"]))
    other = committed_and_used(started, ended, np.ones(2), np.ones(2), Resource.MEMORY)
    third = lanes([Bar(100, 200, "a", "", True), Bar(150, 400, "a", "", True)], Palette.of(["a"]))
    assert one is not None
    assert other is not None
    assert third is not None
    assert one["layout"]["xaxis"]["range"] == other["layout"]["xaxis"]["range"] == third["layout"]["xaxis"]["range"]
