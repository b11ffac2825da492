"""One factory: what a replay measures is what `size` and `run` give."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.lab.size_protocols import PROTOCOLS, Protocol
from tonnage.lab.size_replay import replay
from tonnage.size import STRATEGIES, Learner, Plan, collect, size

MACHINE = {Resource.CORES: 1.0, Resource.MEMORY: 64e9}
OURS = ("auto", "regression")
JOBS = st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 500), st.integers(1, 9_999)), min_size=2, max_size=40)
Job = tuple[int, int, int]
"""Megabytes at its peak, seconds, megabytes of input."""


def attempts(jobs: Sequence[Job]) -> list[Attempt]:
    """The jobs as attempts of one category."""
    return [
        Attempt(
            category="a",
            outcome=Outcome.DONE,
            used=Amounts.of(memory=peak * 1e6, wall_time=float(seconds)),
            input_bytes=Amounts.of(memory=inputs * 1e6).memory,
        )
        for peak, seconds, inputs in jobs
    ]


@pytest.mark.parametrize("strategy", OURS)
@given(jobs=JOBS)
@settings(max_examples=40)
def test_a_replay_gives_each_job_what_a_run_would_have_given_it(strategy: str, jobs: list[Job]) -> None:
    learner = Learner(Plan(strategy=strategy, machine=MACHINE))
    paid, retried = 0.0, 0
    for one in attempts(jobs):
        peak, seconds = one.used.memory, one.used.wall_time
        assert peak is not None and seconds is not None and one.input_bytes is not None
        (decision,) = (
            each for each in learner.decide("a", input_bytes=one.input_bytes) if each.resource is Resource.MEMORY
        )
        tried = [rung for rung in decision.ladder if rung < peak]
        paid += (sum(tried) + decision.ladder[len(tried)]) * seconds
        retried += bool(tried)
        learner.observe("a", one.used, one.input_bytes)
    (result,) = replay(collect(attempts(jobs), "category"), [strategy], Protocol(machine=MACHINE))
    assert result.paid == pytest.approx(paid)
    assert result.retried == retried


@pytest.mark.parametrize("strategy", OURS)
@given(jobs=JOBS)
@settings(max_examples=40)
def test_a_replay_that_knows_all_jobs_gives_what_size_recommends(strategy: str, jobs: list[Job]) -> None:
    records = collect(attempts(jobs), "category")
    plan = Plan(strategy=strategy, machine=MACHINE, resources=(Resource.MEMORY,), fair_share=False)
    (sized,) = size(records.histories(), plan)
    protocol = replace(PROTOCOLS["tovar"], machine=MACHINE)
    (result,) = replay(records, [strategy], protocol)
    assert result.allocations == {"a": pytest.approx(sized.decision.ladder[0])}


def test_a_protocol_changes_what_published_rules_keep_to_and_nothing_else() -> None:
    random = np.random.default_rng(1)
    jobs = [(int(peak), 10, 1) for peak in random.lognormal(7, 1, 200)]
    records = collect(attempts(jobs), "category")
    plain = Protocol(machine=MACHINE)
    papers = replace(plain, width=50e6, growth=float("inf"), refit=0.0)
    names = [name for name in STRATEGIES if name not in ("density", "brute-force-waste", "brute-force-throughput")]
    changed = {
        name
        for name, one, other in zip(names, replay(records, names, plain), replay(records, names, papers), strict=True)
        if one.paid != other.paid
    }
    assert changed >= {"min-waste", "max-seen", "quantized"}
    assert not changed & set(OURS)
