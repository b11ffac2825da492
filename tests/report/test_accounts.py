"""What was given, used, wasted and saved, beside sums that anybody can follow."""

from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from tests.report.jobs import attempts
from tests.report.journals import GB, Try, many, write_run
from tonnage.jobs import NOTHING_KNOWN, SHARED, Attempt, Outcome, Resource
from tonnage.report.accounts import accounts_of, covered
from tonnage.report.attempt_table import Gathering, columns_of, outcomes_of, wasted_of
from tonnage.report.source import gather_run
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Reader
from tonnage.run.state import machine_of, summarise

MEMORY = Resource.MEMORY


def seconds(one: Attempt) -> float:
    ran = 0.0 if one.started is None or one.ended is None else one.ended - one.started
    return max(ran, one.used.wall_time or 0.0)


def had(one: Attempt) -> float | None:
    return one.requested.memory if one.allocated.memory is None else one.allocated.memory


@given(attempts())
def test_categories_add_up_to_all_attempts(found: list[Attempt]) -> None:
    total, by_category = accounts_of(Gathering().gather(found), {MEMORY: 2e6})
    account = total.accounts[MEMORY]
    assert account.whole_machine == pytest.approx(2e6 * sum(seconds(one) for one in found if one.finished))
    assert sum(one.accounts[MEMORY].given for one in by_category.values()) == pytest.approx(account.given)
    assert sum(one.attempts for one in by_category.values()) == total.attempts == len(found)
    assert total.failed == sum(one.outcome not in (None, Outcome.DONE) for one in found)


@given(attempts())
def test_what_was_used_is_counted_where_it_is_unknown_of_all_what_they_were_given(found: list[Attempt]) -> None:
    found = [replace(one, allocated=NOTHING_KNOWN, requested=NOTHING_KNOWN) for one in found]
    account = accounts_of(Gathering().gather(found), {})[0].accounts[MEMORY]
    assert account.used == pytest.approx(sum((one.used.memory or 0.0) * seconds(one) for one in found if one.finished))
    assert (account.given, account.wasted, account.waste_fraction) == (0, 0, None)


@given(attempts())
def test_what_nobody_measured_is_not_waste(found: list[Attempt]) -> None:
    account = accounts_of(Gathering().gather(found), {})[0].accounts[MEMORY]
    if not any(one.finished and one.used.memory is not None for one in found) and account.unmeasured:
        assert account.waste_fraction is None
    if account.waste_fraction is not None:
        assert 0 <= account.waste_fraction <= 1


@given(attempts())
def test_max_seen_gives_every_job_the_largest_peak_of_its_category(found: list[Attempt]) -> None:
    peaks: dict[str, float] = defaultdict(float)
    known = [one for one in found if had(one) is not None]
    for one in known or found:
        if one.finished and one.used.memory is not None:
            peaks[one.category or ""] = max(peaks[one.category or ""], one.used.memory)
    wanted = sum(peaks[one.category or ""] * seconds(one) for one in found if one.finished)
    assert accounts_of(Gathering().gather(found), {})[0].accounts[MEMORY].max_seen == pytest.approx(wanted)


@given(attempts())
def test_the_makespan_counts_every_second_in_which_something_ran_once(found: list[Attempt]) -> None:
    material = Gathering().gather(found)
    busy = {
        second
        for start, end in zip(material.started, material.ended, strict=True)
        if np.isfinite(start) and np.isfinite(end)
        for second in range(int(start), int(end))
    }
    assert (covered(material) or 0.0) == pytest.approx(len(busy))


@given(attempts(), attempts())
def test_the_most_wasteful_come_first(found: list[Attempt], more: list[Attempt]) -> None:
    material = Gathering().gather([*found, *more])
    wastes = [wasted for one in material.ranked if (wasted := wasted_of(one)) is not None]
    assert len(material.ranked) == len(found) + len(more)
    if material.ranked_by == "waste":
        assert wastes == sorted(wastes, reverse=True)
        assert [wasted_of(one) is None for one in material.ranked] == sorted(
            wasted_of(one) is None for one in material.ranked
        )
    times = [seconds(one) for one in material.slowest]
    assert times == sorted(times, reverse=True)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    tries = [
        Try(0, 1, 0, 10, given=GB, used=2 * GB, outcome=Outcome.EXHAUSTED, exhausted=MEMORY),
        Try(0, 2, 10, 30, given=3 * GB, used=2 * GB),
        Try(1, 1, 5, 15, given=4 * GB, used=GB),
        Try(2, 1, 5, 8, given=4 * GB, used=None),
        Try(3, 1, 20, 21, outcome=Outcome.FAILED, note="exit status 1"),
        Try(3, 2, 40, None),
        Try(4, 1, 41, 41, wall_time=0.5),
    ]
    tasks = [("a", "align"), ("b", "align"), ("c", "merge"), ("d", "merge"), ("e", "merge")]
    return write_run(tmp_path, tasks, tries)


def test_a_report_says_of_a_run_what_the_run_says_of_itself(run: RunFolder) -> None:
    subject, material = gather_run(run)
    total, _ = accounts_of(material, subject.machine)
    with closing(Reader(run.journal)) as reader:
        summary = summarise(reader.rows(), machine_of(reader.facts()))
    for resource, account in summary.accounts.items():
        mine = total.accounts[resource]
        assert mine.waste_fraction == pytest.approx(account.waste_fraction)
        for name in ("given", "used", "whole_machine", "max_seen", "unmeasured"):
            assert getattr(mine, name) == pytest.approx(getattr(account, name))
    assert covered(material) == pytest.approx(summary.seconds)
    # by hand: 10 s of 1 GB for nothing, 20 s of 3 GB of which 2 were used, 10 s of 4 GB, 3 s of unknown use, 1 s
    # failed, and half a second of 2 GB, of which 1 was used, within a second of the log
    assert summary.accounts[MEMORY].given == pytest.approx((10 + 60 + 40 + 12 + 2 + 1) * GB)
    assert summary.accounts[MEMORY].waste_fraction == pytest.approx(1 - (40 + 10 + 0.5) / (10 + 60 + 40 + 2 + 1))


@pytest.mark.parametrize("now", [None, 1_700_000_100.0])
def test_the_page_of_a_run_reads_the_same_numbers_from_the_journal_as_a_report(
    run: RunFolder, now: float | None
) -> None:
    with closing(Reader(run.journal)) as reader:
        columns = columns_of(reader, now)
        rows = list(reader.rows())
    assert len(columns) == len(rows)
    assert outcomes_of(columns)["running" if now else "lost"] == 1
    for place, row in enumerate(rows):
        assert columns.categories[columns.category[place]] == row.category
        assert (columns.number[place], columns.started[place]) == (row.number, row.started)
        assert columns.ended[place] == (row.ended or now) or (row.ended is None and now is None)
        for resource in SHARED:
            for mine, theirs in ((columns.given, row.allocated), (columns.used, row.used)):
                assert np.array_equal(mine[resource][place], getattr(theirs, resource) or np.nan, equal_nan=True)
    if now is None:
        subject, material = gather_run(run)
        for one, other in ((columns.outcome, material.outcome), (columns.seconds, material.seconds)):
            assert np.array_equal(one, other, equal_nan=True)
        assert accounts_of(columns, subject.machine)[0] == accounts_of(material, subject.machine)[0]


def test_an_empty_journal_has_no_columns(tmp_path: Path) -> None:
    with closing(Reader(write_run(tmp_path, [("a", "align")], []).journal)) as reader:
        columns = columns_of(reader, None)
    assert len(columns) == 0
    assert covered(columns) is None
    assert accounts_of(columns, {})[0].attempts == 0


def test_a_journal_is_read_in_pieces_and_nothing_is_lost_between_them(tmp_path: Path) -> None:
    run = many(tmp_path, 50)
    with closing(Reader(run.journal)) as reader:
        pieces = list(reader.measures(at_once=7))
    assert [len(one) for one in pieces] == [7] * 7 + [1]
