"""When the monitor takes samples: the arithmetic of its pauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.watch.sampling import Pace, time_to_reach, usual_cost

COSTS = st.floats(0, 0.1)


@given(st.lists(st.booleans(), max_size=100), COSTS, st.floats(0.01, 10))
def test_a_look_takes_a_sixtieth_of_the_time_at_most(events: list[bool], cost: float, longest: float) -> None:
    pace = Pace(longest)
    for stirred in events:
        (pace.stirred if stirred else pace.calm)()
        assert pace.pause(cost) >= 60 * cost
        assert pace.pause(0) <= longest
        assert pace.pause(0) >= min(0.01, longest)


def test_calm_makes_it_slower_up_to_the_interval_and_a_stir_fast_again() -> None:
    pace = Pace(1.0)
    pauses = []
    for _ in range(40):
        pace.calm()
        pauses.append(pace.pause(0))
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0
    pace.stirred()
    assert pace.pause(0) == 0.01


def test_with_a_limit_it_looks_often_even_while_calm() -> None:
    pace = Pace(1.0)
    for _ in range(40):
        pace.calm()
    assert pace.pause(0, guarded=True) == 0.025


@given(st.floats(1, 1e12), st.floats(0, 1e10), st.floats(0, 0.01))
def test_growth_at_the_observed_rate_is_not_overslept(room: float, rate: float, cost: float) -> None:
    pause = time_to_reach(room, rate, cost)
    assert pause <= max(0.001, 2 * cost) or rate * pause <= 0.5 * room * (1 + 1e-9)


@pytest.mark.parametrize("rate", [100e6, 500e6, 1500e6, 3e9])
def test_looks_close_in_on_a_limit_within_a_millisecond_of_growth(rate: float) -> None:
    limit, size = 300e6, 0.0
    while size <= limit:
        size += rate * min(0.025, time_to_reach(limit - size, rate, 0.0001))
    assert size - limit <= rate * 0.001 + 1


def test_one_expensive_look_postpones_the_next_only_a_little() -> None:
    usual = usual_cost(0.0, 0.0005)
    assert usual == 0.0005
    assert Pace(0.05).pause(usual_cost(usual, 0.02)) <= 0.06


def test_looks_that_stay_expensive_soon_count_in_full() -> None:
    cost = 0.0005
    for _ in range(12):
        cost = usual_cost(cost, 0.02)
    assert cost > 0.019
