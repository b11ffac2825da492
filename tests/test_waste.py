"""One rule for what attempts were allocated, used and wasted: runs, reports, simulations and the archive agree."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.jobs import attempts
from tonnage.archive import Archive, Search, import_source, stats
from tonnage.jobs import SHARED, Amounts, Attempt, Decision, Outcome, Resource
from tonnage.logs.sources import Source
from tonnage.report.accounts import accounts_of
from tonnage.report.attempt_table import Gathering, wasted_of
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.journal_rows import Row
from tonnage.run.machines import Machine
from tonnage.run.progress import Progress
from tonnage.run.state import summarise
from tonnage.waste import Account, account_for, added_up, allocation, held_seconds, held_seconds_each
from tonnage.workflow import Task

MEMORY = Resource.MEMORY
Figures = tuple[float, float, float, float]
"""Allocated, used, unmeasured and wasted."""


def by_the_rule(found: Sequence[Attempt], resource: Resource) -> Figures:
    """Add up attempts by a literal reading of the rule."""
    held = used = unmeasured = wasted = 0.0
    for one in found:
        amount = getattr(one.allocated, resource)
        if amount is None:
            amount = getattr(one.requested, resource)
        times: list[float] = [] if one.used.wall_time is None else [one.used.wall_time]
        if one.started is not None and one.ended is not None:
            times.append(one.ended - one.started)
        if amount is None or not times:
            continue
        seconds, peak = max(times), getattr(one.used, resource)
        held += amount * seconds
        if one.outcome not in (None, Outcome.DONE):
            wasted += amount * seconds
        elif peak is None:
            unmeasured += amount * seconds
        else:
            used += min(peak, amount) * seconds
            wasted += max(amount - peak, 0.0) * seconds
    return held, used, unmeasured, wasted


def figures(account: Account) -> Figures:
    return account.given, account.used, account.unmeasured, account.wasted


def about(wanted: Figures) -> object:
    return pytest.approx(wanted, rel=1e-9, abs=1e-9 * wanted[0])


def row(number: int, one: Attempt) -> Row:
    """Return an attempt as recorded in a run's journal."""
    assert one.started is not None
    return Row(
        attempt=number,
        task=one.task or f"task {number}",
        line=None,
        command=None,
        category=one.category or "",
        number=one.number,
        machine=0,
        host=None,
        submitted=None,
        started=one.started,
        input_bytes=None,
        allocated=one.requested.updated(one.allocated),
        grew_to=None,
        more_memory=0.0,
        decisions=(),
        ended=one.ended,
        outcome=one.outcome,
        exhausted=one.exhausted,
        exit_status=None,
        signal=None,
        used=one.used,
        memory_method=None,
        lower_bounds=(),
        stdout=None,
        stderr=None,
        note="",
        facts={},
    )


@given(attempts())
def test_a_run_and_a_report_count_by_the_rule(made: list[Attempt]) -> None:
    ran = [one for one in made if one.started is not None and one.outcome is not None]
    summary = summarise((row(number, one) for number, one in enumerate(ran)), Machine(8, 1e6, 1e6))
    total, _ = accounts_of(Gathering().gather(ran), Machine(8, 1e6, 1e6).amounts())
    for resource in SHARED:
        wanted = by_the_rule(ran, resource)
        own = summary.accounts.get(resource, Account())
        assert figures(own) == about(wanted)
        if not wanted[0]:
            continue
        assert figures(total.accounts[resource]) == about(wanted)
        for name in ("whole_machine", "max_seen", "waste_fraction"):
            assert getattr(total.accounts[resource], name) == pytest.approx(getattr(own, name))


@given(attempts())
def test_the_view_of_a_run_under_way_counts_by_the_rule(made: list[Attempt]) -> None:
    ran = [one for one in made if one.started is not None and one.outcome is not None]
    progress = Progress([Task(f"{place}") for place in range(len(ran))], 0.0)
    for place, one in enumerate(ran):
        given = one.requested.updated(one.allocated).known()
        decisions = tuple(Decision(resource, (amount,), "declared", 0, "") for resource, amount in given)
        progress.started(Start(place, place, 1, 0, decisions, nan), now=-5.0)  # waiting in a queue until it starts
        end = Ended(attempt=place, outcome=one.outcome or Outcome.DONE, used=one.used)
        end = replace(end, started=one.started, ended=one.ended)
        progress.ended(end, Settled(place, State.DONE if one.finished else State.FAILED))
    for resource in SHARED:
        assert figures(progress.accounts[resource]) == about(by_the_rule(ran, resource))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    with Archive.open(f"sqlite:///{tmp_path_factory.mktemp('accounts')}/archive.db", create=True) as opened:
        yield opened


_examples = count()


@given(attempts())
def test_a_report_and_the_archive_count_by_the_rule(archive: Archive, made: list[Attempt]) -> None:
    user = f"{next(_examples)}"
    named = [replace(one, user=user, native_id=f"{user}:{number}") for number, one in enumerate(made)]
    import_source(archive, Source("test", "test", "csv", iter(named)))
    found = {one.category: one.waste for one in stats(archive, Search(user=user))}
    _, reported = accounts_of(Gathering().gather(made), {})
    for category, waste in found.items():
        own = [one for one in made if (one.category or "") == category]
        wanted = by_the_rule(own, MEMORY)
        if any(allocation(one, MEMORY) is not None for one in made):
            assert figures(reported[category].accounts[MEMORY]) == about(wanted)
        if waste is None:
            assert wanted[0] == wanted[2], "there is only what was not measured"
        else:
            assert figures(waste.account) == about(wanted)
            assert waste.attempts == sum(wasted_of(one) is not None for one in own)


_UNKNOWN = st.none()
_NUMBERS = st.one_of(_UNKNOWN, st.integers(0, 1000).map(float))


@given(st.lists(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, st.booleans()), max_size=20))
def test_arrays_follow_the_same_rule_as_one_attempt(
    made: list[tuple[float | None, float | None, float | None, float | None, float | None, bool]],
) -> None:
    one_by_one = Account()
    for amount, peak, started, ended, wall_time, succeeded in made:
        one_by_one += account_for(amount, peak, held_seconds(started, ended, wall_time), succeeded=succeeded)
    numbers = [[nan if value is None else value for value in one] for one in made]
    amounts, peaks, starts, ends, wall_times, well = np.array(numbers, float).reshape(-1, 6).T
    found = added_up(amounts, peaks, held_seconds_each(starts, ends, wall_times), well == 1)
    assert figures(found) == about(figures(one_by_one))


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.DONE])
def test_all_that_an_attempt_held_is_wasted_where_it_did_not_succeed(outcome: Outcome) -> None:
    used = Amounts.of(memory=90, wall_time=10)
    assert wasted_of(Attempt(outcome=outcome, allocated=Amounts.of(memory=100), used=used)) == 1000


def test_an_attempt_that_outgrew_its_allocation_does_not_make_up_for_the_waste_of_others() -> None:
    small, large = (account_for(100, peak, 10, succeeded=True) for peak in (50, 150))
    assert figures(small + large) == (2000, 1500, 0, 500)


def test_what_is_unknown_is_neither_used_nor_wasted() -> None:
    account = account_for(100, None, 10, succeeded=True)
    assert figures(account) == (1000, 0, 1000, 0)
    assert account.waste_fraction is None
    assert account_for(None, 50, 10, succeeded=False) == account_for(100, 50, None, succeeded=False) == Account()


def test_a_task_shorter_than_the_seconds_of_a_log_counts_for_as_long_as_it_was_measured() -> None:
    assert held_seconds(100, 100, 0.4) == 0.4
    assert held_seconds(100, 103, 2.5) == 3
    assert held_seconds(None, 103, 2.5) == 2.5
    assert held_seconds(100, None, None) is None
