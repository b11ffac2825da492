import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from tonnage.errors import InputError
from tonnage.logs.synthetic import HEADER, PEAKS, JobLog, generate, render

# Mean and deviation of the memory in the bucketing paper's published samples of 2,000 jobs, by tag.
PUBLISHED = {
    "uniform": [(25_015, 8_602)],
    "normal": [(7_942, 1_984)],
    "exponential": [(10_075, 9_812)],
    "bimodal": [(32_018, 499), (8_000, 205)],
    "trimodal": [(32_037, 3_955), (10_959, 995), (15_982, 3_939)],
}


def rows(log: JobLog) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(log))))


@pytest.mark.parametrize("peaks", PEAKS)
def test_each_category_looks_like_the_published_sample(peaks: str) -> None:
    log = generate(peaks, 2000)
    assert len(log.categories) == len(PUBLISHED[peaks])
    for number, (mean, deviation) in enumerate(PUBLISHED[peaks]):
        memory = log.memory[log.category == number]
        # Both are samples: their means differ by a few standard errors at most, their deviations by some percent.
        assert abs(memory.mean() - mean) < 5 * deviation / np.sqrt(len(memory))
        assert memory.std() == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("peaks", PEAKS)
def test_no_peak_is_below_10_mb_or_above_the_machine(peaks: str) -> None:
    log = generate(peaks, 50_000)
    assert log.memory.min() >= 10
    assert log.memory.max() <= 64_000


def test_all_amounts_between_the_ends_are_equally_likely_when_uniform() -> None:
    counts, _ = np.histogram(generate("uniform", 60_000).memory, bins=6, range=(10_000, 40_000))
    assert counts.sum() == 60_000
    assert counts.min() > 9_500


def test_most_exponential_peaks_are_small() -> None:
    memory = generate("exponential", 20_000).memory
    assert np.median(memory) == pytest.approx(10_000 * np.log(2), rel=0.05)


def test_one_category_hides_the_modes() -> None:
    log = generate("trimodal", 3000, categories=1)
    assert log.categories == ("trimodal_1",)
    assert np.array_equal(np.sort(log.memory), np.sort(generate("trimodal", 3000).memory))


def test_modes_are_dealt_to_fewer_categories_in_turn() -> None:
    log = generate("trimodal", 3000, categories=2)
    assert np.bincount(log.category).tolist() == [2000, 1000]
    assert log.memory[log.category == 1].mean() == pytest.approx(11_000, rel=0.02)


def test_more_categories_repeat_the_modes_at_less_memory() -> None:
    log = generate("bimodal", 4000, categories=4)
    means = [log.memory[log.category == number].mean() for number in range(4)]
    assert means == pytest.approx([32_000, 8_000, 16_000, 4_000], rel=0.01)


def test_categories_come_mixed_and_equally_often() -> None:
    log = generate("bimodal", 2000)
    assert np.bincount(log.category).tolist() == [1000, 1000]
    assert 400 < np.bincount(log.category[:1000])[0] < 600


def test_the_same_seed_gives_the_same_log_and_another_a_different_one() -> None:
    assert render(generate("normal", 100, seed=3)) == render(generate("normal", 100, seed=3))
    assert render(generate("normal", 100, seed=3)) != render(generate("normal", 100, seed=4))


def test_the_size_of_the_input_tells_about_the_memory() -> None:
    log = generate("exponential", 5000)
    assert np.corrcoef(log.input_size, log.memory)[0, 1] > 0.95
    assert np.median(log.memory / log.input_size) == pytest.approx(2, rel=0.02)


def test_every_job_takes_500_seconds_unless_a_spread_is_asked_for() -> None:
    assert set(generate("uniform", 100).wall_time.tolist()) == {500.0}
    logarithm = np.log(generate("uniform", 20_000, spread=0.5).wall_time)
    assert np.exp(logarithm.mean()) == pytest.approx(500, rel=0.02)
    assert logarithm.std() == pytest.approx(0.5, rel=0.03)


def test_the_columns_are_those_of_the_public_data_sets_and_the_input_size() -> None:
    assert HEADER.startswith("category,cores,memory,disk,cpu_time,wall_time")
    first = rows(generate("normal", 10))[0]
    memory, input_size = first.pop("memory"), first.pop("input_size")
    assert memory.isdigit()
    assert input_size.isdigit()
    assert first == {"category": "normal_1", "cores": "4", "disk": "4000", "cpu_time": "2000", "wall_time": "500"}


@given(st.sampled_from(sorted(PEAKS)), st.integers(1, 200), st.floats(0, 2), st.data())
@examples(50)
def test_what_is_rendered_is_what_was_drawn(peaks: str, jobs: int, spread: float, data: st.DataObject) -> None:
    categories = data.draw(st.none() | st.integers(1, jobs))
    log = generate(peaks, jobs, categories=categories, spread=spread, seed=data.draw(st.integers(0, 3)))
    written = rows(log)
    assert [float(row["memory"]) for row in written] == log.memory.tolist()
    assert [float(row["wall_time"]) for row in written] == log.wall_time.tolist()
    assert [row["category"] for row in written] == [log.categories[number] for number in log.category]


@pytest.mark.parametrize(
    ("jobs", "categories", "spread", "message"),
    [
        (0, None, 0.0, "a log can have 1 to 10,000,000 jobs, not 0"),
        (20_000_000, None, 0.0, "a log can have 1 to 10,000,000 jobs, not 20,000,000"),
        (5, 6, 0.0, "5 jobs can have 1 to 5 categories, not 6"),
        (5, 0, 0.0, "5 jobs can have 1 to 5 categories, not 0"),
        (5, 1, -1.0, "the spread of the run times can be 0 to 2, not -1"),
        (5, 1, float("nan"), "the spread of the run times can be 0 to 2, not nan"),
    ],
)
def test_what_makes_no_sense_is_refused(jobs: int, categories: int | None, spread: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate("normal", jobs, categories=categories, spread=spread)
