"""What every strategy promises, however it works inside."""

import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.size.histories import Job, fed, jobs
from tonnage.errors import DoesNotFitError, InputError
from tonnage.size import STRATEGIES, Ladder, Settings, WholeMachineFirst, cost, sizer
from tonnage.size.histograms import Histogram

CAPACITY = 1000.0
NAMES = sorted(STRATEGIES)
KNOW_AT_ONCE = ("declared", "doubling", "whole-machine")
LEARNERS = [name for name in NAMES if name not in KNOW_AT_ONCE]
BY_INPUT = ("auto", "regression")
SCALE = ("auto", "ladder", "min-waste", "min-waste-independent", "max-throughput", "max-seen", "percentile", "k-means")
NAN, INF = math.nan, math.inf


def settings(**others: object) -> Settings:
    return Settings(**{"capacity": CAPACITY, "declared": 10.0, "steps": INF, "patience": 0.0, **others})  # type: ignore[arg-type]


def is_a_ladder(ladder: Ladder, capacity: float = CAPACITY) -> bool:
    """Strictly increasing, positive amounts up to all there is."""
    numbers = all(isinstance(rung, float) and 0 < rung < INF for rung in ladder)
    return numbers and ladder[-1] == capacity and all(low < high for low, high in pairwise(ladder))


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InputError, match='"magic" is not a strategy'):
        sizer("magic", settings())


def test_declared_must_know_what_was_declared() -> None:
    with pytest.raises(InputError, match="needs declared amounts"):
        sizer("declared", Settings(capacity=10.0))


@pytest.mark.parametrize("name", NAMES)
@given(past=jobs(max_size=12), buckets=st.integers(1, 5), inputs=st.lists(st.integers(0, 9).map(float), min_size=12))
def test_a_ladder_is_positive_rises_covers_all_and_ends_at_the_machine(
    name: str, past: list[Job], buckets: int, inputs: list[float]
) -> None:
    made = sizer(name, settings(buckets=buckets))
    for place, (peak, seconds) in enumerate(past):
        made.observe(peak, seconds, inputs[place])
        for ladder in (made.ladder(inputs[place]), made.ladder()):
            assert is_a_ladder(ladder)
            assert ladder[-1] >= peak
        assert made.samples == place + 1


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {*BY_INPUT, "density"}))
@given(past=jobs(max_size=20), width=st.sampled_from([0.0, 5.0]))
def test_the_largest_peak_that_was_seen_is_a_rung(name: str, past: list[Job], width: float) -> None:
    largest = max(peak for peak, _ in past)
    assert max(largest, 1.0) in fed(name, past, settings(width=width)).ladder()


@pytest.mark.parametrize("name", ["quantized", "k-means"])
@given(
    past=jobs(max_size=20).map(lambda past: [(peak + 1, seconds) for peak, seconds in past]), buckets=st.integers(1, 5)
)
def test_aligned_buckets_are_a_rung_each_even_if_they_end_alike(name: str, past: list[Job], buckets: int) -> None:
    ladder = fed(name, past, settings(buckets=buckets, aligned=True, growth=INF)).ladder()
    assert len(ladder) == buckets + 1
    assert ladder[-1] == CAPACITY
    assert ladder[-2] == max(peak for peak, _ in past)
    assert all(low <= high for low, high in pairwise(ladder))


@pytest.mark.parametrize("name", LEARNERS)
def test_the_first_job_gets_the_whole_machine_and_the_second_learns_from_it(name: str) -> None:
    made = sizer(name, settings())
    assert made.ladder() == (CAPACITY,)
    made.observe(20.0, 5.0)
    assert 20 <= made.ladder()[0] <= 30


@pytest.mark.parametrize(
    ("name", "ladder"),
    [("whole-machine", (1000,)), ("doubling", (125, 250, 500, 1000)), ("declared", (10, 1000))],
)
def test_plain_strategies_need_no_past(name: str, ladder: Ladder) -> None:
    assert sizer(name, settings()).ladder() == ladder
    assert fed(name, [(3.0, 1.0)] * 9, settings()).ladder() == ladder


def test_what_is_declared_is_at_most_the_machine() -> None:
    assert sizer("declared", settings(declared=5000.0)).ladder() == (CAPACITY,)


def test_the_strategies_on_a_history_that_is_easy_to_follow() -> None:
    past = [(float(peak), 10.0) for peak in range(1, 101)]
    names = ("max-seen", "percentile", "quantized", "declared")
    assert {name: fed(name, past, settings(buckets=4, growth=INF)).ladder() for name in names} == {
        "max-seen": (100, 1000),
        "percentile": (95, 100, 1000),
        "quantized": (25, 50, 75, 100, 1000),
        "declared": (10, 1000),
    }


@given(past=jobs(max_size=30), share=st.floats(0.01, 1))
def test_a_percentile_covers_its_share_of_the_jobs_and_no_more_than_that(past: list[Job], share: float) -> None:
    past = [(peak + 1, seconds) for peak, seconds in past]
    first = fed("percentile", past, settings(share=share, growth=INF)).ladder()[0]
    needed = share * len(past) * (1 - 1e-9)
    assert sum(peak <= first for peak, _ in past) >= needed
    assert sum(peak < first for peak, _ in past) < needed


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, NAN])
def test_a_percentile_that_is_no_part_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="share of the jobs"):
        fed("percentile", [(1.0, 1.0)], settings(share=share)).ladder()


@pytest.mark.parametrize("name", ["quantized", "k-means"])
@pytest.mark.parametrize("buckets", [0, -3])
def test_no_buckets_are_refused(name: str, buckets: int) -> None:
    with pytest.raises(InputError, match="buckets"):
        fed(name, [(1.0, 1.0)], settings(buckets=buckets)).ladder()


@pytest.mark.parametrize("name", NAMES)
def test_two_that_saw_the_same_say_the_same(name: str) -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        past = [(float(random.integers(0, 40)), float(random.integers(0, 20))) for _ in range(15)]
        inputs = [1.0 + 3 * seconds for _, seconds in past]
        one, other = (fed(name, past, settings(), inputs) for _ in range(2))
        assert one.ladder(5.0) == other.ladder(5.0)
        assert one.ladder() == other.ladder() == one.ladder()


@pytest.mark.parametrize("name", SCALE)
@pytest.mark.parametrize("seed", range(3))
def test_the_unit_of_the_amounts_does_not_matter(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    peaks, seconds = random.lognormal(3, 0.7, 60), random.exponential(50, 60)
    inputs = [float(peak * random.uniform(0.8, 1.2)) for peak in peaks]
    small = fed(name, zip(peaks.tolist(), seconds.tolist(), strict=True), settings(), inputs)
    past = zip((1000 * peaks).tolist(), seconds.tolist(), strict=True)
    large = fed(name, past, settings(capacity=1000 * CAPACITY), inputs)
    for known in (NAN, inputs[0], 30.0):
        assert large.ladder(known) == pytest.approx([1000 * rung for rung in small.ladder(known)], rel=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_strategy_that_looks_again_now_and_then_still_sees_every_record(name: str) -> None:
    made = sizer(name, settings(refit=0.5))
    for peak in range(1, 60):
        made.observe(float(peak), 1.0)
        assert max(rung for rung in made.ladder() if rung < CAPACITY) >= peak


def test_beyond_the_largest_peak_amounts_grow_to_the_machine() -> None:
    assert fed("max-seen", [(100.0, 1.0)], settings()).ladder() == (100, 200, 400, 800, 1000)
    assert fed("max-seen", [(100.0, 1.0)], settings(growth=1.5)).ladder()[:3] == (100, 150, 225)
    assert fed("max-seen", [(100.0, 1.0)], settings(growth=INF)).ladder() == (100, 1000)


def test_the_largest_amount_can_be_set() -> None:
    past = [(2.0, 1.0)] * 9 + [(10.0, 1.0)]
    assert fed("min-waste", past, settings(growth=INF)).ladder() == (2, 10, 1000)
    assert fed("min-waste", past, settings(growth=INF, largest=200.0)).ladder() == (10, 200, 1000)


@pytest.mark.parametrize("name", ["max-seen", "min-waste", "ladder", "percentile", "quantized"])
def test_work_that_changes_is_followed_with_a_half_life(name: str) -> None:
    past = [(500.0, 10.0)] * 100 + [(20.0, 10.0)] * 200
    assert fed(name, past, settings(half_life=10.0)).ladder()[:2] == (20, 40)
    assert 500 in fed(name, past, settings()).ladder()


@pytest.mark.parametrize(
    "name",
    ["auto", "regression", "k-means"],
)
def test_a_half_life_is_heeded_or_refused(name: str) -> None:
    past = [(500.0, 10.0)] * 100 + [(20.0, 10.0)] * 200
    try:
        assert max(rung for rung in fed(name, past, settings(half_life=10.0)).ladder()[:1]) < 100
        assert 500 not in fed(name, past, settings(half_life=10.0)).ladder()
    except InputError:
        return


@pytest.mark.parametrize("jobs_first", [1, 3, 10])
def test_whole_machines_until_enough_is_known_and_again_after_each_surprise(jobs_first: int) -> None:
    made = WholeMachineFirst(sizer("max-seen", settings(growth=INF)), CAPACITY, jobs=jobs_first)
    for _ in range(jobs_first):
        assert made.ladder() == (CAPACITY,)
        made.observe(20.0, 1.0)
    for peak in (20.0, 15.0, 20.0):
        assert made.ladder() == (20, CAPACITY)
        made.observe(peak, 1.0)
    made.observe(30.0, 1.0)  # a surprise
    for _ in range(jobs_first):
        assert made.ladder() == (CAPACITY,)
        made.observe(10.0, 1.0)
    assert made.ladder() == (30, CAPACITY)
    assert made.samples == 2 * jobs_first + 4


def test_a_record_before_enough_is_known_is_no_surprise() -> None:
    made = WholeMachineFirst(sizer("max-seen", settings(growth=INF)), CAPACITY, jobs=3)
    for peak in (1.0, 2.0, 3.0):
        made.observe(peak, 1.0)
    assert made.ladder() == (3, CAPACITY)


def test_whole_machines_may_be_given_once_only() -> None:
    made = WholeMachineFirst(sizer("max-seen", settings(growth=INF)), CAPACITY, jobs=1, again=False)
    for peak in (1.0, 50.0):
        made.observe(peak, 1.0)
    assert made.ladder() == (50, CAPACITY)


def test_a_job_that_fits_nowhere_is_told() -> None:
    with pytest.raises(DoesNotFitError, match="more than 10, the most it can get"):
        cost((5.0, 10.0), Histogram.of(np.array([11.0]), np.array([1.0])))


# What cannot be, or is so large or small that sums of it are not numbers any more: refused, or sized like all else.

ODD: dict[str, list[Job]] = {
    "one": [(7.0, 3.0)],
    "constant": [(5.0, 10.0)] * 6,
    "zero peaks": [(0.0, 1.0)] * 5,
    "zero times": [(peak, 0.0) for peak in (1.0, 2.0, 3.0, 4.0, 5.0)],
    "nothing at all": [(0.0, 0.0)] * 5,
    "huge": [(1e300, 1.0), (1e299, 2.0), (2e300, 3.0), (5e300, 1.0), (1e298, 1.0)],
    "tiny": [(1e-300, 1.0), (2e-300, 2.0), (3e-300, 3.0), (4e-300, 1.0), (7e-300, 1.0)],
    "huge and tiny": [(1e300, 1.0), (1e-300, 1.0), (1.0, 1.0), (0.0, 1.0), (2.0, 2.0)],
    "huge for long": [(1e300, 1e300)] * 5 + [(2e300, 1e300)],
    "tiny for a moment": [(1e-300, 1e-300)] * 5 + [(2e-300, 1e-300)],
    "for ages": [(1.0, 1e308), (2.0, 1e308), (3.0, 1e308), (4.0, 1.0), (5.0, 1.0)],
    "the largest numbers": [(1.7e308, 1.0), (1e308, 1.0), (1.2e308, 1.0), (1.3e308, 1.0), (1.1e308, 1.0)],
}
INPUTS = {
    "usual": [1e9, 2e9, 3e9, 4e9, 5e9, 6e9],
    "absurd": [1e-300, 1e300, 1.0, 1e10, 5.0, 7.0],
    "impossible": [INF, -1.0, 0.0, NAN, 0.0, 1.0],
    "equal": [7.0] * 6,
}


def sized_or_refused(name: str, past: list[Job], inputs: list[float], objective: str = "waste") -> None:
    capacity = min(max(1.0, *(2 * peak for peak, _ in past)), sys.float_info.max)
    try:
        made = sizer(name, settings(capacity=capacity, declared=3.0, objective=objective))
        for (peak, seconds), known in zip(past, inputs, strict=True):
            made.observe(peak, seconds, known)
            assert is_a_ladder(made.ladder(known), capacity), name
        for known in (NAN, INF, -1.0, 0.0, 1e5, 1e300, 1e-300):
            assert is_a_ladder(made.ladder(known), capacity), name
    except InputError as error:
        assert "cannot" in str(error)


@pytest.mark.parametrize("kind", ODD)
def test_odd_jobs_are_sized_or_refused(kind: str) -> None:
    for name in NAMES:
        sized_or_refused(name, ODD[kind], [NAN] * len(ODD[kind]))


@pytest.mark.parametrize("kind", ["one", "constant", "zero peaks", "zero times", "nothing at all", "tiny"])
@pytest.mark.parametrize("inputs", ["usual", "impossible", "equal"])
@pytest.mark.parametrize("name", BY_INPUT)
def test_odd_jobs_with_odd_inputs_are_sized_or_refused(name: str, kind: str, inputs: str) -> None:
    sized_or_refused(name, ODD[kind], INPUTS[inputs][: len(ODD[kind])])


@pytest.mark.parametrize("kind", ["huge", "huge and tiny", "huge for long", "tiny for a moment", "for ages"])
@pytest.mark.parametrize("name", BY_INPUT)
def test_absurd_jobs_with_inputs_are_sized_or_refused(name: str, kind: str) -> None:
    sized_or_refused(name, ODD[kind], INPUTS["usual"][: len(ODD[kind])])


@pytest.mark.parametrize("name", BY_INPUT)
def test_absurd_inputs_are_ignored_or_survived(name: str) -> None:
    sized_or_refused(name, ODD["constant"], INPUTS["absurd"])


@pytest.mark.parametrize("kind", ODD)
def test_odd_jobs_are_sized_for_throughput_or_refused(kind: str) -> None:
    for name in ("auto", "ladder"):
        sized_or_refused(name, ODD[kind], [NAN] * len(ODD[kind]), "throughput")


@pytest.mark.parametrize("wrong", [(NAN, 1.0), (INF, 1.0), (-1.0, 1.0), (1.0, NAN), (1.0, INF), (1.0, -1.0)])
@pytest.mark.parametrize("name", LEARNERS)
def test_impossible_peaks_and_run_times_are_refused(name: str, wrong: Job) -> None:
    with pytest.raises(InputError, match="a peak or run time cannot be"):
        fed(name, [(5.0, 1.0), wrong], settings()).ladder()


@pytest.mark.parametrize("capacity", [NAN, INF, 0.0, -1.0])
def test_an_impossible_machine_is_refused(capacity: float) -> None:
    for name in NAMES:
        with pytest.raises(InputError):
            fed(name, [(5.0, 1.0)], settings(capacity=capacity)).ladder()


@pytest.mark.parametrize("name", ["quantized", "k-means"])
def test_aligned_buckets_of_jobs_that_used_nothing_still_give_something(name: str) -> None:
    ladder = fed(name, [(0.0, 1.0)] * 5, settings(aligned=True, growth=INF)).ladder()
    assert all(rung > 0 for rung in ladder)


@pytest.mark.parametrize("options", ["aligned=True", "growth=1.0"])
def test_growth_always_ends(options: str) -> None:
    """In a process of its own, with little time: what does not end would fill the memory."""
    code = (
        "import signal; from tonnage.errors import InputError; from tonnage.size import Settings, sizer\n"
        "signal.setitimer(signal.ITIMER_VIRTUAL, 5)\n"
        "try:\n"
        f"    made = sizer('quantized', Settings(capacity=10.0, {options}))\n"
        "    made.observe(0.0, 1.0)\n"
        "    made.ladder()\n"
        "except InputError:\n"
        "    pass\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
