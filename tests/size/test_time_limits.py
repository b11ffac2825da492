"""Time limits while tasks run: long enough for what comes, more for what did not fit, and never beyond the longest."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.jobs import Amounts, Decision, Resource
from tonnage.size import Learner, Plan, climbed
from tonnage.size.rounding import coarse

TIMES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=60)


def learner(longest: float) -> Learner:
    machine = {Resource.CORES: 4.0, Resource.MEMORY: 8e9, Resource.WALL_TIME: longest}
    return Learner(Plan(machine=machine))


def limit(decisions: tuple[Decision, ...]) -> Decision | None:
    return next((one for one in decisions if one.resource is Resource.WALL_TIME), None)


@given(TIMES, st.sampled_from([inf, 3600.0, 1e7]))
def test_the_limit_is_beyond_all_that_was_seen_and_within_what_is_possible(times: list[float], longest: float) -> None:
    known = learner(longest)
    for seconds in times:
        known.observe("align", Amounts.of(memory=1e9, wall_time=min(seconds, longest)))
    found = limit(known.decide("align"))
    assert found is not None
    assert found.amount >= min(max(times), longest)
    assert list(found.ladder) == sorted(set(found.ladder))
    assert found.ladder[-1] <= longest
    if longest < inf:
        assert found.ladder[-1] == longest


@pytest.mark.parametrize(("longest", "expected"), [(3600.0, 3600.0), (inf, None)])
def test_while_nothing_is_known_it_is_as_long_as_is_possible(longest: float, expected: float | None) -> None:
    found = limit(learner(longest).decide("align"))
    assert (found and found.amount) == expected


def test_who_reaches_his_limit_gets_twice_as_long() -> None:
    known = learner(inf)
    known.observe("align", Amounts.of(wall_time=100))
    decisions = known.decide("align")
    more = climbed(decisions, Resource.WALL_TIME)
    first, second = limit(decisions), limit(more or ())
    assert first is not None
    assert second is not None
    assert second.amount == 2 * first.amount


def test_what_the_user_says_comes_first_but_not_beyond_the_longest() -> None:
    known = learner(3600.0)
    known.observe("align", Amounts.of(wall_time=1))
    found = limit(known.decide("align", Amounts.of(wall_time=3000)))
    assert found is not None
    assert found.ladder == (3000.0, 3600.0)


def test_where_time_is_not_limited_nothing_is_said() -> None:
    known = Learner(Plan(machine={Resource.CORES: 4.0, Resource.MEMORY: 8e9}))
    known.observe("align", Amounts.of(wall_time=1))
    assert limit(known.decide("align")) is None


@given(st.lists(st.floats(1e6, 7e9), min_size=1, max_size=30), st.integers(1, 32))
def test_coarse_sizes_are_few_and_not_too_small(peaks: list[float], parts: int) -> None:
    machine = {Resource.CORES: 4.0, Resource.MEMORY: 8e9}
    fine, rough = Learner(Plan(machine=machine)), Learner(Plan(machine=machine, parts=parts))
    for peak in peaks:
        for one in (fine, rough):
            one.observe("align", Amounts.of(memory=peak, wall_time=10))
    exact, rounded = (one.decide("align")[1].amount for one in (fine, rough))
    assert exact <= rounded <= min(8e9, exact * (1 + 1 / parts)) * (1 + 1e-9)


@given(st.floats(1, 1e12), st.sampled_from([1, 8, 32]))
def test_what_was_made_coarse_stays_as_it_is(amount: float, parts: int) -> None:
    found = coarse(amount, parts)
    assert amount * (1 - 1e-12) <= found <= amount * (1 + 1 / parts) * (1 + 1e-12)
    assert coarse(found, parts) == found
