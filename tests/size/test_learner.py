"""Decisions task by task: the same that a whole history leads to, and sensible ones before there is any."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.jobs import Amounts, Decision, History, Resource
from tonnage.size import STRATEGIES, Learner, Plan, as_before, climbed, exceeded, size
from tonnage.size.learner import FirstGuess

MACHINE = {Resource.CORES: 16.0, Resource.MEMORY: 64e9, Resource.DISK: 1e12}
LEARNING = sorted(set(STRATEGIES) - {"declared", "doubling", "whole-machine"})
ANY = sorted(STRATEGIES)

amounts = st.builds(
    Amounts.of,
    cores=st.integers(1, 160).map(lambda tenths: tenths / 10),
    memory=st.integers(0, 64_000).map(lambda megabytes: megabytes * 1e6),
    disk=st.integers(0, 1_000_000).map(lambda megabytes: megabytes * 1e6),
    wall_time=st.integers(1, 10_000),
)
requests = st.builds(
    Amounts.of,
    cores=st.none() | st.integers(1, 20),
    memory=st.none() | st.integers(0, 100_000_000_000),
    disk=st.none() | st.integers(0, 2_000_000_000_000),
    wall_time=st.none() | st.integers(1, 100_000),
)


def plan(strategy: str = "auto", **others: float) -> Plan:
    return Plan(strategy=strategy, machine=MACHINE, fair_share=False, unit=others.get("unit", 0.0))


def history(past: Sequence[Amounts], inputs: float = math.nan) -> History:
    used = {resource: np.array([getattr(one, resource) for one in past], np.float64) for resource in Resource}
    return History(
        used=used,
        requested={},
        input_bytes=np.full(len(past), inputs),
        finished=np.ones(len(past), np.bool_),
        ran_out=np.full(len(past), -1, np.int8),
    )


def learnt(past: Sequence[Amounts], plan: Plan, inputs: float = math.nan) -> Learner:
    learner = Learner(plan)
    for one in past:
        learner.observe("align", one, inputs)
    return learner


def check_ladders(decisions: Sequence[Decision]) -> None:
    assert [one.resource for one in decisions[:3]] == list(MACHINE)
    for one in decisions[:3]:
        assert one.rung == 0
        assert one.ladder[-1] == MACHINE[one.resource]
        assert all(low < high for low, high in itertools.pairwise(one.ladder))
        assert one.ladder[0] > 0
    assert all(rung == int(rung) for rung in decisions[0].ladder)


@pytest.mark.parametrize("strategy", ANY)
@given(past=st.lists(amounts, max_size=8), request=requests, inputs=st.sampled_from([math.nan, 0.0, 1e6, 3.7e9]))
def test_ladders_rise_to_the_machine(strategy: str, past: list[Amounts], request: Amounts, inputs: float) -> None:
    learner = learnt(past, plan(strategy), 1e6)
    decisions = learner.decide("align", request, inputs)
    check_ladders(decisions)
    assert len(decisions) == (3 if request.wall_time is None else 4)
    assert all(one is other for one, other in zip(decisions, learner.decide("align", request, inputs), strict=True))


@pytest.mark.parametrize("strategy", [*LEARNING, "declared"])
@given(request=requests)
def test_where_nothing_is_known_the_request_is_covered(strategy: str, request: Amounts) -> None:
    for one in Learner(plan(strategy)).decide("align", request)[:3]:
        requested = getattr(request, one.resource)
        if requested:
            assert one.amount == min(requested, MACHINE[one.resource])
            assert one.reason.startswith("as requested")
            assert one.samples == 0


def test_a_task_that_requests_nothing_gets_a_cores_share() -> None:
    cores, memory, disk = Learner(plan()).decide("align")
    assert (cores.ladder, memory.ladder, disk.ladder) == (
        (1, 2, 4, 16),
        (4e9, 8e9, 16e9, 64e9),
        (62.5e9, 125e9, 250e9, 1e12),
    )
    assert memory.reason == "nothing is known about align yet: a core's share of the machine"
    assert memory.strategy == "share"


def test_a_task_that_can_grow_begins_with_less_than_a_cores_share_of_the_memory() -> None:
    cores, memory, disk = Learner(Plan(machine=MACHINE, can_grow=True)).decide("align")
    assert (cores.amount, memory.amount, disk.amount) == (1, 3e9, 62.5e9)
    assert memory.reason.endswith("a core's share of the machine, less some room to grow")


def test_each_resource_is_learnt_by_itself() -> None:
    learner = Learner(plan())
    learner.observe("align", Amounts.of(memory=1e9, wall_time=60))
    cores, memory, disk = learner.decide("align")
    assert (cores.samples, memory.samples, disk.samples) == (0, 1, 0)
    assert learner.decide("other")[1].samples == 0


@pytest.mark.parametrize("strategy", sorted(set(ANY) - {"declared"}))
@pytest.mark.parametrize("unit", [0.0, 50e6])
@given(past=st.lists(amounts, min_size=1, max_size=30), inputs=st.sampled_from([math.nan, 3.7e9]))
def test_it_decides_as_the_whole_history_does(strategy: str, unit: float, past: list[Amounts], inputs: float) -> None:
    kept = plan(strategy, unit=unit)
    sized = {one.decision.resource: one.decision for one in size({"align": history(past, inputs)}, kept)}
    for one in learnt(past, kept, inputs).decide("align"):
        assert one == sized[one.resource]


@pytest.mark.parametrize("strategy", ANY)
@given(past=st.lists(amounts, min_size=1, max_size=30), inputs=st.sampled_from([math.nan, 3.7e9]))
def test_what_the_archive_knows_counts_as_if_it_were_observed(
    strategy: str, past: list[Amounts], inputs: float
) -> None:
    told = Learner(plan(strategy), {"align": history(past, inputs)})
    seen = learnt(past, plan(strategy), inputs)
    assert told.decide("align", input_bytes=inputs) == seen.decide("align", input_bytes=inputs)
    for learner in (told, seen):
        learner.observe("align", Amounts.of(memory=70e9, cores=3))
    assert told.decide("align", input_bytes=inputs) == seen.decide("align", input_bytes=inputs)


def test_a_decision_stays_the_same_object_while_its_ladder_does() -> None:
    learner, decided = Learner(plan()), []
    for _ in range(1000):
        learner.observe("align", Amounts.of(cores=2, memory=1e9, disk=1e9, wall_time=60))
        decided.append(learner.decide("align"))
    cores = {id(one[0]): one[0] for one in decided}
    assert len(cores) <= 10  # told anew whenever the tasks are twice as many
    assert {one.ladder for one in cores.values()} == {decided[0][0].ladder}
    assert len({id(one[1]) for one in decided}) < 80
    assert decided[-1][1].samples > 500


def test_inputs_that_tell_something_are_listened_to() -> None:
    learner = Learner(plan())
    for number in range(1, 100):
        learner.observe("align", Amounts.of(cores=1, memory=number * 3e8, disk=1e9, wall_time=60), number * 1e8)
    small, large = (learner.decide("align", input_bytes=bytes_)[1] for bytes_ in (1e9, 8e9))
    assert 3e9 <= small.amount <= 3.2e9
    assert 24e9 <= large.amount <= 25.5e9
    assert "for an input of 1" in small.reason
    assert small.expected_waste is not None
    assert small.expected_waste < 0.1
    assert learner.decide("align", input_bytes=1e9)[1] is learner.decide("align", input_bytes=1.001e9)[1]


def test_declared_gives_each_task_what_it_requests() -> None:
    learner = Learner(plan("declared"))
    learner.observe("align", Amounts.of(cores=1, memory=1e9, disk=1e9, wall_time=1))
    decisions = learner.decide("align", Amounts.of(memory=3e9, disk=2e12))
    assert [one.ladder for one in decisions] == [(16,), (3e9, 64e9), (1e12,)]


def test_a_time_limit_doubles() -> None:
    decisions = Learner(plan()).decide("align", Amounts.of(wall_time=600))
    assert decisions[3] == Decision(
        Resource.WALL_TIME, (600, 1200, 2400), "requested", 0, "time limit of the task, doubled on a retry"
    )


def test_peaks_beyond_the_machine_are_clipped() -> None:
    learner = Learner(plan("max-seen"), {"align": history([Amounts.of(cores=40, memory=1e12, disk=5e12, wall_time=1)])})
    assert [one.ladder for one in learner.decide("align")] == [(16,), (64e9,), (1e12,)]


def test_a_task_without_a_run_time_counts_like_the_others() -> None:
    timed, untimed = Learner(plan("min-waste")), Learner(plan("min-waste"))
    for learner, last in ((timed, 20.0), (untimed, None)):
        learner.observe("align", Amounts.of(memory=1e9, wall_time=10))
        learner.observe("align", Amounts.of(memory=2e9, wall_time=30))
        learner.observe("align", Amounts.of(memory=9e9, wall_time=last))
    assert timed.decide("align") == untimed.decide("align")


@given(request=requests)
def test_what_does_not_fit_is_named(request: Amounts) -> None:
    too_much = exceeded(request, MACHINE)
    fitting = [(getattr(request, one) or 0) <= most for one, most in MACHINE.items()]
    assert (too_much is None) == all(fitting)
    assert too_much is None or too_much is list(MACHINE)[fitting.index(False)]


@given(past=st.lists(amounts, max_size=8), exhausted=st.sampled_from(list(MACHINE)), grow_all=st.booleans())
def test_climbing_ends_at_the_machine(past: list[Amounts], exhausted: Resource, grow_all: bool) -> None:
    decisions = first = learnt(past, plan()).decide("align")
    place = list(MACHINE).index(exhausted)
    while (higher := climbed(decisions, exhausted, grow_all=grow_all)) is not None:
        assert higher[place].rung == decisions[place].rung + 1
        assert all(
            one.amount >= low.amount if grow_all else one is low
            for one, low in zip(higher, decisions, strict=True)
            if one.resource is not exhausted
        )
        decisions = higher
    assert decisions[place].amount == MACHINE[exhausted]
    assert all(one.rung == 0 for one in first)


@given(past=st.lists(amounts, max_size=8), seen=st.floats(1e6, 2 * MACHINE[Resource.MEMORY]))
def test_the_next_rung_is_above_what_was_seen_or_there_is_none(past: list[Amounts], seen: float) -> None:
    decisions = learnt(past, plan()).decide("align")
    higher = climbed(decisions, Resource.MEMORY, seen=seen)
    if higher is None:
        assert seen >= MACHINE[Resource.MEMORY] or len(decisions[1].ladder) == 1
        return
    assert higher[1].amount > max(seen, decisions[1].amount)
    below = higher[1].ladder[higher[1].rung - 1]
    assert below <= seen or higher[1].rung == 1


def test_nobody_climbs_what_is_not_decided() -> None:
    assert climbed(Learner(plan()).decide("align"), Resource.WALL_TIME) is None
    assert climbed((), Resource.MEMORY) is None


def test_tasks_that_ran_out_in_the_past_are_taken_to_need_twice_as_much() -> None:
    past = history([Amounts.of(memory=2e9, wall_time=1), Amounts.of(memory=4e9, wall_time=1)])
    past.finished[1] = False
    past.ran_out[1] = list(Resource).index(Resource.MEMORY)
    assert Learner(plan("max-seen"), {"align": past}).decide("align")[1].amount == 8e9


@pytest.mark.parametrize("strategy", ["auto", "ladder", "k-means"])
def test_peaks_that_rise_and_rise_do_not_slow_it_down(strategy: str) -> None:
    learner, decided = Learner(plan(strategy)), set()
    for number in range(1, 2001):
        learner.observe("align", Amounts.of(memory=number * 1e7, wall_time=60))
        decided.add(learner.decide("align")[1])
    assert len(decided) < 500
    assert learner.decide("align")[1].ladder[-2] >= 19e9


def test_a_strategy_must_be_known() -> None:
    with pytest.raises(InputError, match="not a strategy"):
        Learner(plan("luck"))


@given(past=st.lists(amounts, max_size=8), memory=st.integers(1, 10_000).map(lambda tens: tens * 1e7))
def test_a_task_that_ran_before_gets_what_it_took_and_a_little_more(past: Sequence[Amounts], memory: float) -> None:
    usual = learnt(past, plan()).decide("align")
    decisions = as_before(usual, memory)
    check_ladders(decisions)
    first = decisions[1].amount
    assert first >= min(memory * 1.05, MACHINE[Resource.MEMORY]) * (1 - 1e-9) or first == usual[1].amount
    assert first <= max(memory * 1.05 * 1.04, usual[1].amount, 2**24)
    assert (decisions[0], decisions[2]) == (usual[0], usual[2])
    assert as_before(usual, memory)[1] is decisions[1]


def test_a_task_that_took_next_to_nothing_before_gets_a_little() -> None:
    assert as_before(Learner(plan()).decide("align"), 1e6)[1].amount == 2**24


RESPECTFUL = Plan(strategy="auto", machine=MACHINE, overridden=frozenset(("greedy",)))


@pytest.mark.parametrize("strategy", ANY)
@given(past=st.lists(amounts, max_size=8), ran_out=st.lists(amounts, max_size=3), request=requests)
def test_no_task_gets_less_than_it_requests(
    strategy: str, past: list[Amounts], ran_out: list[Amounts], request: Amounts
) -> None:
    learner = learnt(past, Plan(strategy=strategy, machine=MACHINE, overridden=frozenset()))
    for number, used in enumerate(ran_out):
        learner.observe_exhausted("align", number, Resource.MEMORY, float(used.memory or 0))
    decisions = learner.decide("align", request)
    before = as_before(decisions, 1e6, requested=request.memory)
    check_ladders(decisions)
    check_ladders(before)
    for one in (*decisions[:3], before[1]):
        assert one.amount >= min(getattr(request, one.resource) or 0, MACHINE[one.resource])


def test_a_request_is_a_floor_and_what_was_learnt_above_it_counts() -> None:
    learner = Learner(RESPECTFUL)
    for category in ("align", "greedy"):
        for _ in range(50):
            learner.observe(category, Amounts.of(cores=1, memory=50e6, disk=1e6, wall_time=1))
    little, much = (Amounts.of(memory=memory) for memory in (20e6, 2e9))
    assert learner.decide("align", much)[1].amount == 2e9
    assert learner.decide("align", much)[1].reason.startswith("as requested; auto of 50 jobs: ")
    assert learner.decide("align", little) == learner.decide("align") == learner.decide("greedy", much)
    assert as_before(learner.decide("align", much), 50e6, requested=2e9)[1].reason == (
        "as requested; earlier runs of this task stayed within 53.5 MB"
    )


def test_a_time_limit_is_no_shorter_than_its_author_wrote_and_longer_where_tasks_took_longer() -> None:
    learner = Learner(Plan(machine={**MACHINE, Resource.WALL_TIME: 86_400.0}, overridden=frozenset()))
    for _ in range(20):
        learner.observe("align", Amounts.of(wall_time=3_600))
    assert learner.decide("align", Amounts.of(wall_time=40_000))[3].amount == 40_000
    assert learner.decide("align", Amounts.of(wall_time=60))[3].amount >= 3_600


@pytest.mark.parametrize("known", [0, 1, 8])
def test_tasks_that_have_not_started_get_more_where_others_ran_out(known: int) -> None:
    """First contact: stopped at 156.9 MB, with 39.8 given, and then 51.1 MB were tried."""
    learner = learnt([Amounts.of(memory=38e6, wall_time=10)] * known, plan())
    before = learner.edition("align")
    for task in range(10):
        learner.observe_exhausted("align", task, Resource.MEMORY, 5e9)
    assert learner.edition("align") != before
    memory = learner.decide("align")[1]
    assert memory.amount > 5e9
    assert memory.reason.endswith("; 10 tasks ran out of memory, at up to 5 GB")
    check_ladders(learner.decide("align"))


def test_few_tasks_that_ran_out_change_nothing_and_once_finished_they_count_as_what_they_used() -> None:
    past = [Amounts.of(memory=38e6 + number, wall_time=10) for number in range(100)]
    learner, other = learnt(past, plan()), learnt(past, plan())
    learner.observe_exhausted("align", 0, Resource.MEMORY, 5e9)
    assert learner.decide("align") == other.decide("align")
    learner, other = Learner(plan()), Learner(plan())
    learner.observe_exhausted("align", 0, Resource.MEMORY, 5e9)
    for one in (learner, other):
        one.observe("align", Amounts.of(memory=9e9, wall_time=10), task=0)
    assert learner.decide("align") == other.decide("align")


def test_a_retry_gets_what_its_category_was_found_to_need_meanwhile() -> None:
    learner = Learner(plan())
    first = learner.decide("align")
    for _ in range(20):
        learner.observe("align", Amounts.of(cores=1, memory=30e9, disk=1e6, wall_time=1))
    retried = learner.retry("align", first, Resource.MEMORY, 4.2e9)
    assert retried is not None
    assert retried[1].amount >= 30e9
    assert retried[1].reason.endswith("; it ran out at 4.2 GB")
    assert retried[0] is first[0]
    again = learner.retry("align", retried, Resource.MEMORY, 50e9)
    assert again is not None
    assert again[1].amount > 50e9
    assert again[1].reason.count("ran out") == 1
    assert learner.retry("align", again, Resource.MEMORY, 64e9) is None


def test_a_time_limit_grows_where_tasks_ran_out_of_time() -> None:
    learner = Learner(Plan(machine={**MACHINE, Resource.WALL_TIME: 86_400.0}))
    for _ in range(20):
        learner.observe("align", Amounts.of(wall_time=3_600))
    before = learner.decide("align")[3].amount
    learner.observe_exhausted("align", 7, Resource.WALL_TIME, before)
    assert learner.decide("align")[3].amount >= 2 * before
    assert "1 task ran out of time, after up to" in learner.decide("align")[3].reason
    learner.observe("align", Amounts.of(wall_time=3_600), task=7)
    assert learner.decide("align")[3].amount == before


def test_strangers_set_no_more_than_a_first_guess() -> None:
    learner = Learner(plan(), guesses={"simulate": FirstGuess(memory=300e6, jobs=44, name="simulate")})
    cores, memory, disk = learner.decide("simulate")
    assert memory.amount == 300e6
    assert memory.reason == "a first guess from 44 jobs called simulate in other workflows"
    assert {cores.strategy, disk.strategy} == {"share"}
    assert learner.decide("simulate", Amounts.of(memory=2e9))[1].amount == 2e9
    learner.observe("simulate", Amounts.of(memory=9e9, wall_time=1))
    assert learner.decide("simulate")[1].strategy == "auto"
