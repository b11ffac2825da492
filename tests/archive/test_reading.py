"""Arrays out of the archive: every number in its place, oldest first."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.archive.attempts import attempts
from tests.archive.conftest import Store
from tonnage.archive import EVERYTHING, Archive, Search, find, forget, histories, peaks_by_task, reading, stats
from tonnage.archive.statistics import Waste
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.waste import Account


def same(left: float, right: float | None) -> bool:
    return math.isnan(left) if right is None else left == right


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(made=st.lists(attempts, max_size=8))
def test_a_history_holds_what_each_attempt_used(archive: Archive, store: Store, made: list[Attempt]) -> None:
    marker = archive.count()  # what examples before this one stored is somebody else's
    made = [replace(one, user=f"{marker}", native_id=f"{marker}:{number}") for number, one in enumerate(made)]
    store(made)
    found = histories(archive, Search(user=f"{marker}"))
    assert set(found) == {one.category or "" for one in made}
    for category, history in found.items():
        mine = [one for one in made if (one.category or "") == category]
        ordered = sorted(mine, key=_when)
        assert len(history) == len(mine)
        for resource in Resource:
            pairs = zip(history.used[resource], ordered, strict=True)
            assert all(same(value, getattr(one.used, resource)) for value, one in pairs)
        pairs = zip(history.requested[Resource.MEMORY], ordered, strict=True)
        assert all(same(value, one.requested.memory) for value, one in pairs)
        assert [bool(value) for value in history.finished] == [one.outcome in (None, Outcome.DONE) for one in ordered]


def _when(attempt: Attempt) -> float:
    moments = (attempt.ended, attempt.started, attempt.submitted)
    return next((moment for moment in moments if moment is not None), -math.inf)


def test_histories_of_labels_and_of_all(archive: Archive, store: Store) -> None:
    store([Attempt(row=f"{n}", category="c", label=f"l{n % 2}", used=Amounts.of(memory=n)) for n in range(10)])
    by_label = histories(archive, by="label", resources=[Resource.MEMORY])
    assert {name: history.used[Resource.MEMORY].tolist() for name, history in by_label.items()} == {
        "l0": [0, 2, 4, 6, 8],
        "l1": [1, 3, 5, 7, 9],
    }
    (together,) = histories(archive, by=None).values()
    assert together.used[Resource.MEMORY].tolist() == list(range(10))


def test_the_most_that_each_task_used_when_it_finished(archive: Archive, store: Store) -> None:
    used = [
        ("a", 3, Outcome.DONE),
        ("a", 5, Outcome.DONE),
        ("a", 9, Outcome.EXHAUSTED),
        ("b", 2, None),
        ("c", None, None),
    ]
    store(
        [
            Attempt(row=f"{n}", task=task, outcome=outcome, used=Amounts.of(memory=memory))
            for n, (task, memory, outcome) in enumerate([*used, (None, 7, None)])
        ]
    )
    assert peaks_by_task(archive, Resource.MEMORY) == {"a": 5, "b": 2}


def test_the_newest_are_those_that_were_stored_last(archive: Archive, store: Store) -> None:
    for number, method in enumerate(("rss", "pss", "pss")):
        used = Amounts.of(memory=number, wall_time=1)
        store([Attempt(row=f"{number}", category="a", used=used, memory_method=method)])
    store([Attempt(row="another", category="b", used=Amounts.of(memory=9, wall_time=1))])
    found = histories(archive, Search(category="a"), newest=2)
    assert found["a"].used[Resource.MEMORY].tolist() == [1, 2]
    assert found["a"].memory_methods == {"pss": 2}
    assert len(histories(archive, newest=9)["a"]) == 3


def test_no_attempt_is_lost_between_two_batches(
    archive: Archive, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_LARGE_BATCH", 100)
    count = 203
    store([Attempt(row=f"{n}", category=f"{n % 3}", used=Amounts.of(memory=n)) for n in range(count)])
    found = histories(archive, resources=[Resource.MEMORY])
    peaks = np.concatenate([history.used[Resource.MEMORY] for history in found.values()])
    assert sorted(peaks.tolist()) == list(range(count))


@pytest.mark.parametrize("amount", [0.0, 5e-324, 1e-310, 1e300])
def test_stats_of_amounts_that_are_next_to_nothing_or_huge_are_known_too(
    archive: Archive, store: Store, amount: float
) -> None:
    store([Attempt(row=str(number), category="a", used=Amounts.of(wall_time=amount)) for number in range(3)])
    (found,) = stats(archive)
    spread = found.resources[Resource.WALL_TIME]
    assert (spread.count, spread.max, sum(spread.histogram)) == (3, amount, 3)


def test_stats_are_those_of_numpy(archive: Archive, store: Store) -> None:
    rng = np.random.default_rng(1)
    peaks = rng.integers(10**8, 10**10, 501)
    seconds = rng.uniform(1, 5000, 501).round(3)
    request = 12 * 10**9
    made = [
        Attempt(
            row=f"{n}",
            category="a",
            used=Amounts.of(memory=int(peak), wall_time=float(time)),
            requested=Amounts.of(memory=request if n else None),
        )
        for n, (peak, time) in enumerate(zip(peaks, seconds, strict=True))
    ]
    store([*made, Attempt(row="x", category="nothing known")])
    largest, other = stats(archive)
    memory = largest.resources[Resource.MEMORY]
    assert (memory.p50, memory.p95) == tuple(np.percentile(peaks, (50, 95)))
    assert (memory.count, memory.max, sum(memory.histogram)) == (501, peaks.max(), 501)
    assert largest.waste is not None
    wasted, given = largest.waste.account.wasted, largest.waste.account.given
    assert math.isclose(wasted, float(((request - peaks) * seconds)[1:].sum()))
    assert math.isclose(largest.waste.savings, float((request - peaks[1:].max()) * seconds[1:].sum()))
    assert math.isclose(given, float(request * seconds[1:].sum()))
    assert (other.category, other.jobs, other.resources, other.waste) == ("nothing known", 1, {}, None)


def _held(archive: Archive, store: Store, *made: Attempt) -> Waste:
    """Return what attempts of one category waste, each of which ran for 10 seconds."""
    store([replace(one, row=f"{number}", category="a") for number, one in enumerate(made)])
    (found,) = stats(archive)
    assert found.waste is not None
    return found.waste


def test_all_that_an_attempt_held_is_wasted_unless_it_succeeded(archive: Archive, store: Store) -> None:
    asked, used = Amounts.of(memory=100), Amounts.of(memory=70, wall_time=10)
    well = [Attempt(requested=asked, used=used, outcome=outcome) for outcome in (None, Outcome.DONE)]
    badly = [Attempt(requested=asked, used=used, outcome=one) for one in Outcome if one is not Outcome.DONE]
    badly.append(Attempt(requested=asked, used=used, outcome=Outcome.EXHAUSTED, exhausted=Resource.WALL_TIME))
    many = len(well) + len(badly)
    waste = _held(archive, store, *well, *badly)
    assert waste == Waste(many, Account(1000 * many, 700 * len(well)), 300 * many)
    assert waste.account.wasted == 300 * len(well) + 1000 * len(badly)


def test_what_is_unknown_is_not_waste(archive: Archive, store: Store) -> None:
    asked, used = Amounts.of(memory=100), Amounts.of(memory=70, wall_time=10)
    made = [
        Attempt(requested=asked, used=Amounts.of(wall_time=10), outcome=Outcome.FAILED),
        Attempt(requested=asked, used=Amounts.of(wall_time=10), outcome=Outcome.DONE),
        Attempt(requested=asked, used=Amounts.of(memory=70), outcome=Outcome.DONE),
        Attempt(used=used, outcome=Outcome.DONE),
    ]
    waste = _held(archive, store, *made)
    assert waste == Waste(1, Account(2000, unmeasured=1000), 0)
    facts = waste.facts()
    assert facts["gbh"] == facts["requested_gbh"] == facts["unmeasured_gbh"] == 1000 / 3.6e12


def test_what_attempts_that_ran_out_of_memory_needed_is_unknown_so_they_save_nothing(
    archive: Archive, store: Store
) -> None:
    asked, ran_out = Amounts.of(memory=100), {"outcome": Outcome.EXHAUSTED, "exhausted": Resource.MEMORY}
    killed = [
        Attempt(requested=asked, used=Amounts.of(memory=peak, wall_time=10), **ran_out)  # type: ignore[arg-type]
        for peak in (1, 100, None)
    ]
    done = Attempt(requested=asked, used=Amounts.of(memory=80, wall_time=10), outcome=Outcome.DONE)
    assert _held(archive, store, *killed, done) == Waste(4, Account(4000, 800), 200)


def test_only_attempts_that_ran_out_of_memory_are_waste_without_savings(archive: Archive, store: Store) -> None:
    used = Amounts.of(memory=1, wall_time=10)
    lost = Attempt(requested=Amounts.of(memory=100), used=used, exhausted=Resource.MEMORY, outcome=Outcome.EXHAUSTED)
    assert _held(archive, store, lost) == Waste(1, Account(1000), 0)


def test_what_was_allocated_counts_before_what_was_requested(archive: Archive, store: Store) -> None:
    used, many, few = Amounts.of(memory=70, wall_time=10), Amounts.of(memory=200), Amounts.of(memory=100)
    made = [Attempt(requested=many, allocated=few, used=used), Attempt(requested=few, used=used)]
    assert _held(archive, store, *made, Attempt(allocated=few, used=used)) == Waste(3, Account(3000, 2100), 900)


def test_attempts_count_from_their_start_to_their_end_where_no_run_time_was_measured(
    archive: Archive, store: Store
) -> None:
    one = Attempt(started=5, ended=15, requested=Amounts.of(memory=100), used=Amounts.of(memory=70))
    assert _held(archive, store, one) == Waste(1, Account(1000, 700), 300)


def test_all_that_is_read_belongs_together_though_others_write(archive: Archive, store: Store) -> None:
    store([Attempt(row=f"{n}", fields={"number": f"{n}"}) for n in range(2500)])
    found = find(archive)
    first = next(found)
    forget(archive, EVERYTHING, before=math.inf)
    read = [first, *found]
    assert [attempt.fields for attempt in read] == [{"number": f"{n}"} for n in range(2500)]
    assert archive.count() == 0
