"""Whole runs on virtual machines: what they take and waste, checked by hand."""

import numpy as np
import pytest

from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Resource
from tonnage.lab.run_replay import timeline
from tonnage.lab.simulated_run import ORACLE, Growth, Load, play
from tonnage.run.machines import Machine
from tonnage.size import collect
from tonnage.workflow import Task, Workflow

GB = 1e9


def jobs(*peaks: float, seconds: float = 10, asked: float | None = None) -> Load:
    return Load.of_records(
        collect(
            Attempt(
                category="c",
                ended=float(number),
                requested=Amounts.of(memory=asked),
                used=Amounts.of(cores=1, memory=peak, wall_time=seconds),
            )
            for number, peak in enumerate(peaks)
        )
    )


def test_an_attempt_that_needs_more_is_paid_for_in_full_and_tried_with_more() -> None:
    found = play(jobs(3 * GB, asked=2 * GB), [Machine(1.0, 8 * GB)], "declared")
    assert found.given[Resource.MEMORY].tolist() == [2 * GB, 8 * GB]
    assert found.done.tolist() == [False, True]
    assert (found.start.tolist(), found.end.tolist()) == ([0, 10], [10, 20])
    assert (found.makespan, found.retries, found.failed) == (20, 1, 0)
    assert found.waste_fraction[Resource.MEMORY] == pytest.approx(1 - 3 / 10)


def test_the_oracle_wastes_nothing_and_runs_side_by_side_what_fits() -> None:
    found = play(jobs(*[2 * GB] * 8), [Machine(16.0, 8 * GB)], ORACLE)
    assert found.waste_fraction == {Resource.CORES: 0, Resource.MEMORY: 0}
    assert found.makespan == 20
    assert found.strategy == ORACLE


def test_what_is_unknown_is_neither_exhausted_nor_counted() -> None:
    load = Load.of_workflow(Workflow.build("w", [Task("t", expected=Amounts.of(wall_time=5))]))
    found = play(load, [Machine(1.0, GB)], "auto")
    assert found.waste_fraction == {}
    assert found.makespan == 5


def test_the_timeline_adds_up() -> None:
    found = play(jobs(GB, 2 * GB, 3 * GB, 4 * GB), [Machine(2.0, 8 * GB)], "whole-machine")
    line = timeline(found, spans=4)
    curve = line.curves[Resource.MEMORY]
    assert curve.committed[:, 0].tolist() == pytest.approx([8 * GB] * 4)
    assert curve.used[:, 0].tolist() == pytest.approx([GB, 2 * GB, 3 * GB, 4 * GB])
    assert np.all(curve.first == 8 * GB)


def test_a_job_that_fits_nowhere_is_an_error() -> None:
    with pytest.raises(InputError, match="used 9 GB of memory, but the largest machine has 8 GB"):
        play(jobs(9 * GB), [Machine(1.0, 8 * GB)], "auto")


def test_an_attempt_that_may_grow_goes_on_and_holds_more_from_then_on() -> None:
    found = play(jobs(3 * GB, 3 * GB, asked=GB), [Machine(2.0, 8 * GB)], "declared", growth=Growth())
    assert found.done.tolist() == [True, True]
    assert (found.retries, found.failed) == (0, 0)
    assert all(GB < given < 4 * GB for given in found.given[Resource.MEMORY].tolist())


@pytest.mark.parametrize("peak_at", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("peak", [3 * GB, 7.9 * GB])
def test_tasks_that_all_grow_to_more_than_there_is_are_all_done(peak: float, peak_at: float) -> None:
    """Even one that uses what should stay free, after all others have ended."""
    found = play(jobs(GB, *[peak] * 6, asked=GB), [Machine(4.0, 8 * GB)], "declared", growth=Growth(peak_at))
    assert found.failed == 0
    assert int(found.done.sum()) == 7
