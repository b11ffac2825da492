"""The ladder: as many steps as pay, and no other choice of steps costs less."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.size.histories import Job, histogram, jobs, paid
from tonnage.size import Histogram, Ladder, cost
from tonnage.size.optimal import ladder
from tonnage.size.rules import max_throughput, min_waste

costs = st.sampled_from([0.0, 0.02, 0.1, 3.0])


def every_ladder(past: list[Job], largest: float) -> list[Ladder]:
    """All choices among the peaks that end at the largest amount."""
    peaks = sorted({peak for peak, _ in past if 0 < peak < largest})
    return [(*some, largest) for size in range(len(peaks) + 1) for some in combinations(peaks, size)]


@given(past=jobs(max_size=9), more=st.sampled_from([0.0, 1.0, 25.0]), attempt_cost=costs)
def test_no_other_choice_of_peaks_costs_less(past: list[Job], more: float, attempt_cost: float) -> None:
    largest = max(peak for peak, _ in past) + more
    assume(largest > 0)
    chosen = ladder(histogram(past, largest=largest), attempt_cost=attempt_cost)
    per_attempt = attempt_cost * largest
    best = min(paid(other, past, per_attempt) for other in every_ladder(past, largest))
    assert paid(chosen, past, per_attempt) == pytest.approx(best)
    assert chosen[-1] == largest


@given(past=jobs(max_size=9, most=10), attempt_cost=costs)
def test_without_run_times_all_jobs_count_alike(past: list[Job], attempt_cost: float) -> None:
    alike = [(peak, 1.0) for peak, _ in past]
    untimed = [(peak, 0.0) for peak, _ in past]
    assert ladder(histogram(untimed), attempt_cost=attempt_cost) == ladder(histogram(alike), attempt_cost=attempt_cost)


@given(past=jobs(max_size=60, most=1000))
def test_it_never_wastes_more_than_the_best_two_steps(past: list[Job]) -> None:
    assume(any(peak for peak, _ in past))
    seen = histogram(past)
    assert cost(ladder(seen), seen).paid <= cost(min_waste(seen), seen).paid * (1 + 1e-12)


@given(past=jobs(max_size=30), ladder_of=st.lists(st.floats(0.5, 50), min_size=1, max_size=5))
def test_a_cost_is_what_climbing_step_by_step_costs(past: list[Job], ladder_of: list[float]) -> None:
    rungs = tuple(sorted({*ladder_of, 60.0}))
    found = cost(rungs, histogram(past))
    assert found.paid == pytest.approx(paid(rungs, past))
    assert found.waste == pytest.approx(paid(rungs, past) - sum(peak * seconds for peak, seconds in past))
    assert found.jobs == len(past)
    assert found.retried == sum(peak > rungs[0] for peak, _ in past)
    assert found.failures == sum(sum(rung < peak for rung in rungs) for peak, _ in past)
    assert 0 <= found.waste_fraction <= 1
    assert 0 <= found.retried_fraction <= 1


def test_a_long_tail_gets_more_than_two_steps() -> None:
    past = [(float(2**step), 1.0) for step in range(8) for _ in range(4 ** (8 - step))]
    rungs = ladder(histogram(past))
    assert len(rungs) > 3
    assert paid(rungs, past) < 0.9 * paid(min_waste(histogram(past)), past)


def test_what_an_attempt_costs_limits_the_steps() -> None:
    past = [(float(2**step), 1.0) for step in range(8) for _ in range(4 ** (8 - step))]
    steps = [len(ladder(histogram(past), attempt_cost=part)) for part in (0.0, 0.02, 0.2, 1e6)]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] == 1


@given(past=jobs(max_size=9, least_seconds=1), more=st.sampled_from([0.0, 7.0]))
def test_for_throughput_the_first_step_is_that_of_equation_3_and_the_others_waste_least(
    past: list[Job], more: float
) -> None:
    largest = max(peak for peak, _ in past) + more
    assume(largest > 0)
    chosen = ladder(histogram(past, largest=largest), objective="throughput")
    first = max_throughput(histogram(past, largest=largest))[0]
    assert chosen[0] == first
    late = [job for job in past if job[0] > first]
    if late:
        assert paid(chosen[1:], late) == pytest.approx(min(paid(other, late) for other in every_ladder(late, largest)))


def random_histogram(seed: int, size: int) -> Histogram:
    random = np.random.default_rng(seed)
    peaks = random.lognormal(3, 1.5, size).round(int(random.integers(0, 4)))
    seconds = np.maximum(random.exponential(100, size) - 10, 0)
    return Histogram.of(peaks, seconds)


@pytest.mark.parametrize("part", [0.0, 0.05])
def test_the_compiled_kernel_chooses_as_the_plain_one(monkeypatch: pytest.MonkeyPatch, part: float) -> None:
    made = [random_histogram(seed, size) for seed, size in enumerate([1, 2, 3, 10, 50, 400, 400, 20_000])]
    monkeypatch.setattr("tonnage.jit.COMPILE_FROM", 10**9)
    plain = [ladder(one, attempt_cost=part) for one in made]
    monkeypatch.setattr("tonnage.jit.COMPILE_FROM", 0)
    assert [ladder(one, attempt_cost=part) for one in made] == plain


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ([(5.0, 10.0)] * 4, (5.0,)),
        ([(5.0, 0.0)] * 4, (5.0,)),
        ([(0.0, 10.0)] * 4, (1.0,)),
        ([(0.0, 10.0), (5.0, 0.0)], (5.0,)),
        ([(1.0, 100.0), (5.0, 0.0)], (1.0, 5.0)),
    ],
)
def test_odd_histories_have_sensible_ladders(past: list[Job], expected: Ladder) -> None:
    assert ladder(histogram(past)) == expected
