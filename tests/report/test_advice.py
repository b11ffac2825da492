"""What a report says about a run or about jobs is so: all is well only where that is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.command_line import Call
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.report.attempt_table import Gathering
from tonnage.report.model import report_on
from tonnage.report.source import ReportSource
from tonnage.run.failed_tasks import FailedTask
from tonnage.size import Plan

ALL_IS_WELL = "Nothing stands out"
FITS = Attempt(
    category="align",
    outcome=Outcome.DONE,
    requested=Amounts.of(memory=1e9),
    used=Amounts.of(memory=0.99e9, wall_time=60),
)


def told(*attempts: Attempt, subject: ReportSource | None = None) -> str:
    """Return what a report says about jobs."""
    named = [replace(one, row=str(number), task=f"t{number}") for number, one in enumerate(attempts)]
    found = report_on(subject or ReportSource("jobs", "log"), Gathering().gather(named), Plan(strategy="auto"))
    return "\n".join(f"{one.about}: {one.text}" for one in found.advice)


def test_all_is_well_where_that_is_known() -> None:
    assert told(FITS, FITS) == ": Nothing stands out: tasks used about as much memory as they had, and none failed."


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"outcome": Outcome.FAILED}, "align: 1 attempt failed: look at its output before you change sizes."),
        ({"outcome": Outcome.CANCELLED}, "1 was cancelled"),
        ({"outcome": Outcome.LOST}, "1 was lost"),
        ({"outcome": Outcome.PREEMPTED}, "1 was preempted"),
        ({"outcome": Outcome.EXHAUSTED}, "1 ran out of a resource"),
        ({"outcome": Outcome.EXHAUSTED, "exhausted": Resource.MEMORY}, "1 ran out of memory"),
        ({"outcome": Outcome.EXHAUSTED, "exhausted": Resource.WALL_TIME}, "1 reached the time limit"),
    ],
)
def test_what_did_not_succeed_is_told(end: dict[str, object], words: str) -> None:
    said = told(FITS, FITS, replace(FITS, **end))  # type: ignore[arg-type]
    assert ALL_IS_WELL not in said
    assert words in said


def test_ends_are_counted() -> None:
    cancelled, late = (replace(FITS, outcome=one) for one in (Outcome.CANCELLED, Outcome.EXHAUSTED))
    late = replace(late, exhausted=Resource.WALL_TIME)
    said = told(FITS, late, late, late, cancelled, cancelled)
    assert ": 5 attempts did not finish: 3 reached the time limit, 2 were cancelled." in said


def test_every_category_with_failures_counts() -> None:
    failed = [replace(FITS, category=name, outcome=Outcome.FAILED) for name in "aabbccd"]
    said = told(FITS, *failed)
    assert "a: 2 attempts failed: look at their output before you change sizes." in said
    assert "3 attempts in 2 other categories failed, too." in said


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        (
            replace(FITS, used=Amounts.of(wall_time=60)),
            "It is unknown how much memory tasks used, so nothing can be said about how well sizes fit.",
        ),
        (
            replace(FITS, requested=Amounts()),
            "It is unknown how much memory tasks requested, so nothing can be said about how well sizes fit.",
        ),
    ],
)
def test_what_is_unknown_is_told(lacking: Attempt, words: str) -> None:
    said = told(lacking, lacking)
    assert ALL_IS_WELL not in said
    assert words in said
    partly = told(FITS, FITS, lacking)
    assert ALL_IS_WELL not in partly
    assert "(1 of 3 attempts)" in partly


def test_where_neither_is_known_one_sentence_says_so() -> None:
    said = told(replace(FITS, requested=Amounts(), used=Amounts.of(wall_time=60)))
    assert said == (
        ": It is unknown how much memory tasks used and requested, so nothing can be said about how well sizes fit."
    )


def test_an_unknown_end_is_no_success() -> None:
    assert told(replace(FITS, outcome=None)).endswith("and none is known to have failed.")


def test_a_run_is_not_praised_before_it_is_finished() -> None:
    assert ALL_IS_WELL not in told(FITS, subject=ReportSource("run", "r", state="not finished"))
    big = FailedTask("big", None, None, "align", "it asks for too much")
    said = told(FITS, subject=ReportSource("run", "r", state="not finished", failures=(big,)))
    assert "1 task failed, for example big: it asks for too much" in said


def test_the_command_line_says_the_same(tmp_path: Path, command_line: Call) -> None:
    header = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time"
    path = tmp_path / "align.tsv"
    path.write_text(f"{header}\n10.5\t0:00:10\t100.5\t200\t90\t95\t1\t1\t99\t10\n")
    said = command_line("report", path, "-o", tmp_path / "report.html")
    assert said.status == 0, said
    assert ALL_IS_WELL not in said.stdout
    assert "unknown how much memory tasks requested" in said.stdout
