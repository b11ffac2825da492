"""Each equation of Tovar et al. chooses what brute force of its own objective chooses."""

from collections.abc import Callable, Sequence
from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.size.histories import Job, histogram, jobs, paid
from tonnage.size import Histogram, Ladder
from tonnage.size.rules import (
    brute_force_throughput,
    brute_force_waste,
    max_throughput,
    max_throughput_slots,
    min_waste,
    min_waste_independent,
    min_waste_slots,
    throughput,
)

Strategy = Callable[[Histogram], Ladder]

# What a job gets that exceeds its first allocation: the largest peak, or more.
beyond = st.sampled_from([0.0, 1.0, 17.0, 40.0])


def waste(first: float, largest: float, past: Sequence[Job]) -> float:
    """Equation 1: all pay for the first allocation, and those that exceed it for the largest too."""
    total = 0.0
    for peak, seconds in past:
        total += first * seconds
        if peak > first:
            total += largest * seconds
        total -= peak * seconds
    return total


def waste_independent(first: float, largest: float, past: Sequence[Job]) -> float:
    """Equation 2: as if every job ran for the mean time."""
    mean = 1.0
    return waste(first, largest, [(peak, mean) for peak, _ in past])


def jobs_a_second(first: float, largest: float, past: Sequence[Job], *, slots: bool = False) -> float:
    """Equation 3: jobs that succeed run beside each other, the others alone, after an attempt that failed."""
    beside = largest // first if slots else largest / first
    finished, busy = 0.0, 0.0
    for peak, seconds in past:
        finished += beside if peak <= first else 1
        busy += seconds if peak <= first else 2 * seconds
    return finished / busy if busy else inf


def candidates(past: Sequence[Job]) -> list[float]:
    return [peak for peak, _ in past if peak > 0]


def most(past: Sequence[Job], more: float) -> float:
    return max(peak for peak, _ in past) + more


@pytest.mark.parametrize(
    ("strategy", "objective"),
    [(min_waste, waste), (brute_force_waste, waste), (min_waste_independent, waste_independent)],
)
@given(past=jobs(), more=beyond)
def test_min_waste_is_the_least_of_its_objective_over_all_peaks(
    strategy: Strategy, objective: Callable[[float, float, Sequence[Job]], float], past: list[Job], more: float
) -> None:
    largest = most(past, more)
    assume(candidates(past))
    ladder = strategy(histogram(past, largest=largest))
    best = min(objective(first, largest, past) for first in candidates(past))
    assert objective(ladder[0], largest, past) == pytest.approx(best)
    assert ladder[-1] == largest
    assert len(ladder) <= 2


@given(past=jobs(), more=beyond)
def test_equation_1_is_true_waste(past: list[Job], more: float) -> None:
    """What is reckoned by the equation is what jobs pay for that climb the ladder one by one."""
    largest = most(past, more)
    assume(candidates(past))
    ladder = min_waste(histogram(past, largest=largest))
    used = sum(peak * seconds for peak, seconds in past)
    tried = [paid(tuple(sorted({first, largest})), past) for first in candidates(past)]
    assert paid(ladder, past) == pytest.approx(min(tried))
    assert paid(ladder, past) - used == pytest.approx(
        waste(ladder[0], largest, past) if len(ladder) > 1 else min(tried) - used
    )


def test_equation_2_is_true_waste_only_where_peaks_and_times_are_independent() -> None:
    # Nine small jobs are over at once, and the large one runs for long: to try it with little first is dear.
    past = [(2.0, 1.0)] * 9 + [(10.0, 1000.0)]
    assert min_waste_independent(histogram(past)) == (2.0, 10.0)
    assert min_waste(histogram(past)) == (10.0,)
    alike = [(peak, 7.0) for peak, _ in past]
    assert min_waste(histogram(alike)) == min_waste_independent(histogram(alike)) == (2.0, 10.0)


@pytest.mark.parametrize("strategy", [max_throughput, brute_force_throughput])
@given(past=jobs(least_seconds=1), more=beyond)
def test_max_throughput_finishes_most_jobs_of_all_peaks(strategy: Strategy, past: list[Job], more: float) -> None:
    largest = most(past, more)
    assume(candidates(past))
    ladder = strategy(histogram(past, largest=largest))
    best = max(jobs_a_second(first, largest, past) for first in candidates(past))
    assert jobs_a_second(ladder[0], largest, past) == pytest.approx(best)
    assert throughput(ladder[0], histogram(past, largest=largest)) == pytest.approx(best)
    assert ladder[-1] == largest


@given(past=jobs(least_seconds=1), more=beyond)
def test_max_throughput_in_slots_counts_whole_jobs_only(past: list[Job], more: float) -> None:
    largest = most(past, more)
    assume(candidates(past))
    ladder = max_throughput_slots(histogram(past, largest=largest))
    best = max(jobs_a_second(first, largest, past, slots=True) for first in candidates(past))
    assert jobs_a_second(ladder[0], largest, past, slots=True) == pytest.approx(best)


def test_whole_slots_change_the_choice() -> None:
    # 6 of 10 leaves room for no second job: only then is it useless to try it first.
    past = [(6.0, 10.0)] * 9 + [(10.0, 10.0)]
    assert max_throughput(histogram(past)) == (6.0, 10.0)
    assert max_throughput_slots(histogram(past)) == (10.0,)
    assert min_waste(histogram(past)) == (6.0, 10.0)
    assert min_waste_slots(histogram(past)) == (10.0,)


@given(past=jobs(), more=beyond)
def test_min_waste_in_slots_is_the_best_equal_share_of_the_largest(past: list[Job], more: float) -> None:
    largest = most(past, more)
    assume(candidates(past))
    ladder = min_waste_slots(histogram(past, largest=largest))
    parts = round(largest / ladder[0])
    assert ladder[0] == pytest.approx(largest / parts, rel=1e-12)
    assert not largest / 2 < ladder[0] < largest

    def share(parts: int) -> float:  # amounts are whole, so that whether a job fits is exact
        total = 0.0
        for peak, seconds in past:
            total += largest / parts * seconds + (largest * seconds if peak * parts > largest else 0.0)
        return total

    most_parts = int(largest // min(candidates(past)))  # in more, none but jobs that use nothing would fit
    assert share(parts) == pytest.approx(min(share(number) for number in range(1, most_parts + 1)))


def test_the_two_objectives_can_differ() -> None:
    # Jobs of a few MB beside some of 100: waste looks at the sum, throughput at how many fit beside each other.
    past = [(1.0, 1.0)] * 30 + [(40.0, 1.0)] * 60 + [(100.0, 1.0)] * 10
    assert min_waste(histogram(past))[0] == 40.0
    assert max_throughput(histogram(past))[0] == 1.0


@pytest.mark.parametrize(
    "strategy",
    [min_waste, min_waste_independent, min_waste_slots, max_throughput, max_throughput_slots, brute_force_waste],
)
@pytest.mark.parametrize("past", [[(0.0, 1.0)], [(0.0, 0.0)] * 3, [(0.0, 5.0)] * 4])
def test_nobody_is_given_nothing(strategy: Strategy, past: list[Job]) -> None:
    assert strategy(histogram(past)) == (1.0,)


@pytest.mark.parametrize("strategy", [min_waste, max_throughput, min_waste_slots, brute_force_waste])
def test_without_run_times_all_jobs_count_alike(strategy: Strategy) -> None:
    untimed = [(5.0, 0.0), *[(9.0, 0.0)] * 18, (10.0, 0.0)]
    timed = [(peak, 1.0) for peak, _ in untimed]
    assert strategy(histogram(untimed)) == strategy(histogram(timed))
