"""Histograms: exact where they can be, small where they must be, and forgetful where they should be."""

from collections import Counter
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.size.histories import Job, histogram, jobs
from tonnage.errors import InputError
from tonnage.size import Histogram, Tally


def tallied(past: list[Job], *, width: float = 0.0, half_life: float | None = None) -> Tally:
    tally = Tally(width=width, half_life=half_life)
    for job in past:
        tally.observe(*job)
    return tally


@given(past=jobs(max_size=40), width=st.sampled_from([0.0, 1.0, 3.0, 50.0]))
def test_job_by_job_or_all_at_once_is_the_same(past: list[Job], width: float) -> None:
    one, other = tallied(past, width=width).histogram(), histogram(past, width=width)
    for name in ("peaks", "jobs", "seconds", "used"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))
    assert one.largest == other.largest == max(peak for peak, _ in past)


@given(past=jobs(max_size=40), width=st.sampled_from([0.0, 7.0]))
def test_a_bucket_holds_the_jobs_up_to_its_amount(past: list[Job], width: float) -> None:
    largest = max(peak for peak, _ in past)
    buckets = [min(ceil(peak / width) * width, largest) if width else peak for peak, _ in past]
    seen = histogram(past, width=width)
    assert dict(zip(seen.peaks.tolist(), seen.jobs.tolist(), strict=True)) == Counter(buckets)
    assert seen.used.sum() == pytest.approx(sum(peak * seconds for peak, seconds in past))
    assert seen.seconds.sum() == sum(seconds for _, seconds in past)


def test_buckets_of_50_mb_are_those_of_the_paper() -> None:
    seen = histogram([(1.0, 1), (50e6, 1), (50e6 + 1, 1), (321e6, 1)], width=50e6)
    assert seen.peaks.tolist() == [50e6, 100e6, 321e6]  # an allocation is never above the largest peak
    assert seen.jobs.tolist() == [2, 1, 1]


@pytest.mark.parametrize("width", [0.0, 1.0])
@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
def test_many_different_peaks_take_little_room_and_are_never_understated(width: float, order: str) -> None:
    random = np.random.default_rng(1)
    peaks, seconds = random.lognormal(20, 1, 100_000), random.exponential(100, 100_000)
    peaks = {"random": peaks, "ascending": np.sort(peaks), "descending": -np.sort(-peaks)}[order]
    tally = Tally(width=width)
    for peak, time in zip(peaks.tolist(), seconds.tolist(), strict=True):
        tally.observe(peak, time)
    seen = tally.histogram()
    assert len(seen) <= 4096
    assert seen.jobs.sum() == len(peaks)
    assert seen.seconds.sum() == pytest.approx(seconds.sum())
    assert seen.used.sum() == pytest.approx(peaks @ seconds)
    assert seen.largest == peaks.max()
    # Never are more jobs said to need so little than really do, nor are amounts much too large.
    really = np.searchsorted(np.sort(peaks), seen.peaks, side="right")
    assert np.all(np.cumsum(seen.jobs) <= really)
    slack = peaks.max() / 256
    surely = np.searchsorted(np.sort(peaks), seen.peaks - slack, side="right")
    assert np.all(np.cumsum(seen.jobs) >= surely)


def test_a_job_counts_half_as_much_after_its_half_life() -> None:
    seen = tallied([(1.0, 8.0)] + [(2.0, 1.0)] * 10, half_life=10).histogram()
    assert seen.jobs[0] == pytest.approx(0.5)
    assert seen.seconds[0] == pytest.approx(4)
    assert seen.used[0] == pytest.approx(4)


@given(half_life=st.integers(1, 30), count=st.integers(1, 400))
def test_the_newest_job_counts_one_and_all_together_as_many_as_the_half_life_says(half_life: int, count: int) -> None:
    seen = tallied([(2.0, 1.0)] * (count - 1) + [(7.0, 3.0)], half_life=half_life).histogram()
    assert seen.jobs[-1] == pytest.approx(1)
    assert seen.seconds[-1] == pytest.approx(3)
    weights = sum(0.5 ** (age / half_life) for age in range(count))
    assert seen.jobs.sum() == pytest.approx(weights, abs=0.02 * half_life + 0.02)


@pytest.mark.parametrize("half_life", [1, 7, 40])
def test_after_many_half_lives_an_old_record_is_forgotten(half_life: int) -> None:
    tally = tallied([(1000.0, 1.0)] * 50 + [(5.0, 1.0)] * (20 * half_life), half_life=half_life)
    assert tally.histogram().largest == 5
    assert tally.histogram().peaks.tolist() == [5]
    forever = tallied([(1000.0, 1.0)] * 50 + [(5.0, 1.0)] * (20 * half_life))
    assert forever.largest == 1000


def test_jobs_beyond_an_amount() -> None:
    late = histogram([(1, 1), (2, 2), (2, 3), (9, 4)]).beyond(1.5)
    assert (late.peaks.tolist(), late.jobs.tolist(), late.seconds.tolist(), late.largest) == ([2, 9], [2, 1], [5, 4], 9)


def test_nothing_seen_is_an_empty_histogram() -> None:
    for empty in (Tally().histogram(), Histogram.of(np.empty(0), np.empty(0))):
        assert len(empty) == 0
        assert empty.largest == 0


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), -float("inf")])
def test_impossible_amounts_are_refused(wrong: float) -> None:
    for job in ((wrong, 1.0), (1.0, wrong)):
        with pytest.raises(InputError, match="cannot be"):
            Tally().observe(*job)
        with pytest.raises(InputError, match="cannot be"):
            histogram([(1.0, 1.0), job])


@pytest.mark.parametrize(
    "wrong",
    [
        1e-4,
        -1.0,
        float("nan"),
    ],
)
def test_an_impossible_half_life_is_refused_and_a_short_one_is_none(wrong: float) -> None:
    try:
        seen = tallied([(1.0, 1.0), (5.0, 1.0), (2.0, 1.0)], half_life=wrong).histogram()
    except InputError:
        return
    assert wrong > 0
    assert seen.jobs[seen.peaks == 2.0] == pytest.approx(1)
    assert seen.jobs.sum() == pytest.approx(1)
