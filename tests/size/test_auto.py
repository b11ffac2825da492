"""`auto`: it learns from the first job, uses an input that tells something, and bears one that tells nothing."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.size.histories import fed, paid
from tonnage.size import Objective, Settings, Sizer, sizer
from tonnage.size.auto import RECORD_SHARES, Mixture, guarantee, with_record

NAN = math.nan
Numbers = NDArray[np.float64]


def wasted(made: Sizer, peaks: Numbers, seconds: Numbers, inputs: Numbers) -> float:
    """What a sizer wastes job by job, as a multiple of what is used."""
    paid = 0.0
    for peak, time, known in zip(peaks.tolist(), seconds.tolist(), inputs.tolist(), strict=True):
        for rung in made.ladder(known):
            paid += rung * time
            if rung >= peak:
                break
        made.observe(peak, time, known)
    return paid / float(peaks @ seconds) - 1


def auto(capacity: float = 1e12) -> Mixture:
    made = sizer("auto", Settings(capacity=capacity))
    assert isinstance(made, Mixture)
    return made


def test_it_learns_from_the_first_job() -> None:
    made = auto()
    assert made.ladder() == (1e12,)
    made.observe(1e9, 60.0)
    assert 1e9 <= made.ladder()[0] <= 1.2e9


def test_the_more_jobs_were_alike_the_less_is_added() -> None:
    firsts = [fed("auto", [(1e9, 60.0)] * count, Settings(capacity=1e12)).ladder()[0] for count in (1, 2, 5, 50)]
    assert firsts == sorted(firsts, reverse=True)
    assert 1e9 <= firsts[-1] <= 1.01e9


def test_jobs_with_unknown_inputs_feed_the_constant_model_only() -> None:
    known = [(100.0 * size, 10.0, float(size)) for size in range(1, 40)]
    one, other = auto(1e6), auto(1e6)
    for place, (peak, seconds, size) in enumerate(known):
        for made in (one, other):
            made.observe(peak, seconds, size)
        other.observe(1000.0 + place, 10.0)
    assert one.weights() == pytest.approx(other.weights(), rel=0.2)
    assert other.ladder(20.0)[0] == pytest.approx(2000, rel=0.02)
    assert one.ladder() != other.ladder()


@pytest.mark.parametrize("unknown", [NAN, 0.0, -1.0, math.inf])
def test_a_job_whose_input_is_not_known_is_sized_without_it(unknown: float) -> None:
    past = [(100.0 * size, 10.0) for size in range(1, 40)]
    with_inputs = fed("auto", past, Settings(capacity=1e6), [float(size) for size in range(1, 40)])
    without = fed("auto", past, Settings(capacity=1e6))
    assert with_inputs.ladder(unknown) == without.ladder() == without.ladder(5.0)


def test_fewer_than_four_inputs_say_nothing() -> None:
    made = auto(1e6)
    for size in (1.0, 2.0, 3.0):
        made.observe(100 * size, 10.0, size)
    assert made.ladder(1.0) == made.ladder()
    made.observe(400.0, 10.0, 4.0)
    assert made.ladder(1.0) != made.ladder()


@pytest.mark.parametrize("seed", range(4))
def test_an_exactly_linear_input_leaves_hardly_any_waste(seed: int) -> None:
    random = np.random.default_rng(seed)
    inputs, seconds = random.lognormal(20, 1, 150), random.exponential(100, 150)
    peaks = 5e8 + 3 * inputs
    made, capacity = auto(float(3 * peaks.max())), float(3 * peaks.max())
    for job in zip(peaks[:75].tolist(), seconds[:75].tolist(), inputs[:75].tolist(), strict=True):
        made.observe(*job)
    assert wasted(made, peaks[75:], seconds[75:], inputs[75:]) < 0.02
    blind = np.full(150, NAN)
    assert wasted(auto(capacity), peaks, seconds, inputs) < 0.5 * wasted(auto(capacity), peaks, seconds, blind)


@pytest.mark.parametrize("seed", range(8))
def test_a_useless_input_costs_little(seed: int) -> None:
    random = np.random.default_rng(seed)
    peaks, seconds, inputs = random.lognormal(21, 0.6, 150), random.exponential(100, 150), random.lognormal(20, 1, 150)
    capacity = float(3 * peaks.max())
    blind = wasted(auto(capacity), peaks, seconds, np.full(150, NAN))
    assert wasted(auto(capacity), peaks, seconds, inputs) <= 1.15 * blind


def test_one_misleading_input_does_not_silence_all_models() -> None:
    # The input tells the peak of 79 jobs exactly; that of one job is far off.
    made = auto(1e6)
    for number in range(80):
        size = 1 + number % 4
        made.observe(100.0 * min(size, 3), 10.0, 300.0 if number == 3 else float(min(size, 3)))
    assert sum(made.weights().values()) == pytest.approx(1, abs=0.01)
    assert made.ladder(1.0)[0] == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("seed", range(10))
def test_weights_are_parts_of_one_whatever_the_inputs(seed: int) -> None:
    random = np.random.default_rng(seed)
    made = auto()
    for peak, size in zip(random.lognormal(5, 1, 70), random.lognormal(5, 3, 70), strict=True):
        made.observe(float(peak), float(1 + size % 7), float(size))
    assert sum(made.weights().values()) == pytest.approx(1, abs=0.01)


def test_the_models_that_fit_count_most() -> None:
    random = np.random.default_rng(5)
    inputs = random.lognormal(5, 1, 100)
    for peaks, best in ((1e3 + 5 * inputs, "linear"), (7 * inputs, "proportional"), (10 * inputs**0.5, "power")):
        made = auto()
        for peak, size in zip(peaks.tolist(), inputs.tolist(), strict=True):
            made.observe(peak, 10.0, size)
        weights = made.weights()
        assert weights[best] == max(weights.values())
        assert weights.get("constant", 0.0) < 0.01


def test_a_record_is_one_more_job_beyond_the_largest() -> None:
    values = np.array([1.0, 2.0, 5.0, 9.0])
    reached = with_record(values, 9.0)
    assert reached[:4].tolist() == values.tolist()
    # The two largest are 7 on average, 5 above the third.
    assert reached[4:].tolist() == [9 + 5 * step for step in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)]
    assert RECORD_SHARES.sum() == pytest.approx(1)
    assert np.all(RECORD_SHARES > 0)


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [5.0], [5.0] * 100, [1.0, 2.0]])
def test_a_guarantee_is_never_below_the_largest_where_jobs_are_few(values: list[float]) -> None:
    assert guarantee(np.array(values))[0] >= max(values)


def test_a_guarantee_is_hardly_ever_exceeded() -> None:
    random = np.random.default_rng(3)
    late = [float((random.exponential(1, 2000) > guarantee(random.exponential(1, 200))[0]).mean()) for _ in range(20)]
    assert float(np.mean(late)) < 0.003


@pytest.mark.parametrize("objective", ["waste", "throughput"])
def test_jobs_of_a_few_kinds_are_not_all_given_the_largest(objective: Objective) -> None:
    past = [(1.0, 10.0)] * 30 + [(40.0, 10.0)] * 60 + [(100.0, 10.0)] * 10
    ladder = fed("auto", past, Settings(capacity=200.0, objective=objective)).ladder()
    assert paid(ladder, past) <= 1.2 * paid((1.0, 40.0, 100.0), past)


def test_it_comes_near_the_optimal_ladder_however_few_different_peaks_there_are() -> None:
    random = np.random.default_rng(1)
    for _ in range(40):
        kinds = random.choice(np.arange(1.0, 65.0), size=int(random.integers(2, 5)), replace=False)
        past = [(float(kind), 10.0) for kind in kinds for _ in range(int(random.integers(5, 60)))]
        capacity = 2 * max(kinds)
        terms, per_attempt = Settings(capacity=capacity, attempt_cost=0.1), 0.1 * max(kinds)
        best = paid(fed("ladder", past, terms).ladder(), past, per_attempt)
        assert paid(fed("auto", past, terms).ladder(), past, per_attempt) <= 1.05 * best
