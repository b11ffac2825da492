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
from tonnage.size import STRATEGIES, Learner, Plan, as_before, climbed, fits, size

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
    too_much = fits(request, MACHINE)
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
