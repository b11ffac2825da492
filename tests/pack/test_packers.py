"""What packers decide: word by word what the paper and pack.md say, whatever is left and whatever the queue."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batch.workloads import kernels_compiled
from tests.pack.reference import Alternative, Reference, request
from tests.pack.workflows import NODES, chain, snapshots, timed_workflows, workflow
from tonnage.batch import Snapshot
from tonnage.errors import InputError
from tonnage.pack import ORDERS, PACKERS, Packed, Remaining, Settings, Situation, Work
from tonnage.workflow import Workflow

GROUPS = [name for name in PACKERS if name != "per-task"]
SWITCHES = list(product([False, True], repeat=3))


@dataclass(eq=False)
class Asked:
    """The same question for a packer and for the reference."""

    made: Workflow
    situation: Situation
    settings: Settings

    @property
    def literal(self) -> Reference:
        work = self.situation.left.work
        return Reference(
            self.made,
            work.seconds.tolist(),
            work.key.tolist(),
            set(np.flatnonzero(self.situation.left.mask).tolist()),
            self.situation.queue,
            self.settings.fudge,
            self.settings.tolerance,
        )

    def answer(self, packer: str, **switches: bool) -> Packed:
        settings = Settings(self.settings.fudge, self.settings.tolerance, **switches)
        packed = PACKERS[packer](self.situation, settings)
        assert packed.reason
        return packed


def queue(*free: tuple[int, int], nodes: int = NODES) -> Snapshot:
    """So many nodes free from each moment on, and all at the end."""
    return Snapshot(0, nodes, np.array([time for time, _ in free]), np.array([count for _, count in free]))


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    made = draw(timed_workflows())
    work = Work.of(made, draw(st.sampled_from(ORDERS)))
    left = work.everything()
    if draw(st.booleans()):
        mask = np.array(draw(st.lists(st.booleans(), min_size=len(made), max_size=len(made))))
        mask[draw(st.integers(0, len(made) - 1))] = True
        left = Remaining(work, mask)
    delay = draw(st.sampled_from([0, 0, 700]) | st.integers(1, 10000))
    settings = Settings(draw(st.sampled_from([1.0, 1.1, 1.3])), draw(st.sampled_from([1, 60, 600])))
    return Asked(made, Situation(left, draw(snapshots()), delay, running=int(delay > 0)), settings)


def same(packed: Packed, asked: Asked, expected: Alternative) -> None:
    """One batch job is submitted, and it is the expected one."""
    (job,) = packed.jobs
    assert not packed.singly
    literal = asked.literal
    assert (job.nodes, job.run, job.leeway, job.wait) == expected[2:]
    assert job.seconds == request(expected.run, asked.settings.fudge) + expected.leeway
    assert job.tasks.tolist() == literal.tasks(expected.start, expected.end)
    levels = [literal.top_level[task] for task in job.tasks.tolist()]
    assert job.levels == (min(levels), max(levels))
    assert asked.situation.queue.earliest(job.nodes, job.seconds) - asked.situation.queue.now == job.wait


@pytest.mark.parametrize("compiled", [False, True])
@given(questions())
def test_glume_is_its_three_algorithms(compiled: bool, asked: Asked) -> None:
    with kernels_compiled(compiled):
        same(asked.answer("glume"), asked, asked.literal.glume(asked.situation.delay))


def same_or_alone(packed: Packed, asked: Asked, expected: Alternative | None) -> None:
    if expected is None:
        assert (packed.jobs, packed.singly) == ((), True)
    else:
        same(packed, asked, expected)


@given(questions())
def test_zhang_is_what_the_authors_coded(asked: Asked) -> None:
    expected = asked.literal.zhang(asked.situation.delay)
    same_or_alone(asked.answer("zhang"), asked, expected)
    switches = {"all_groupings": False, "best_nodes": False, "true_leeway": False}
    same_or_alone(asked.answer("zhang-improved", **switches), asked, expected)


@given(questions())
def test_zhang_printed_is_what_the_paper_says(asked: Asked) -> None:
    same_or_alone(asked.answer("zhang-printed"), asked, asked.literal.zhang_printed(asked.situation.delay))


@given(questions(), st.sampled_from(SWITCHES))
def test_each_improvement_of_zhang_can_be_had_on_its_own(asked: Asked, chosen: tuple[bool, bool, bool]) -> None:
    switches = dict(zip(("all_groupings", "best_nodes", "true_leeway"), chosen, strict=True))
    expected = asked.literal.zhang_improved(asked.situation.delay, **switches)
    same_or_alone(asked.answer("zhang-improved", **switches), asked, expected)


@given(questions())
def test_the_plain_groupings_take_the_number_of_nodes_that_is_done_first(asked: Asked) -> None:
    alone = Asked(asked.made, Situation(asked.situation.left, asked.situation.queue), asked.settings)
    literal = asked.literal
    same(alone.answer("one-job"), alone, literal.pick_best_allocation(0, 0, literal.last))
    same(alone.answer("level-by-level"), alone, literal.pick_best_allocation(0, 0, 0))


@given(questions(), st.none() | st.integers(1, 5))
def test_per_task_submits_each_task_that_is_ready(asked: Asked, room: int | None) -> None:
    literal, whole = asked.literal, asked.situation
    first = literal.tasks(0, 0)
    ready = [task for task in sorted(literal.left) if literal.left.isdisjoint(literal.parents[task])]
    for given_ready, expected in ((None, first), (np.array(ready), ready)):
        situation = Situation(whole.left, whole.queue, ready=given_ready, room=room)
        packed = PACKERS["per-task"](situation, asked.settings)
        assert packed.reason
        assert [job.tasks.tolist() for job in packed.jobs] == [[task] for task in expected[:room]]
        for job in packed.jobs:
            (task,) = job.tasks.tolist()
            assert (job.nodes, job.run, job.leeway) == (1, literal.seconds[task], 0)
            assert job.seconds == request(job.run, asked.settings.fudge)
            assert job.wait == literal.wait(1, job.run)
            assert job.levels == (literal.top_level[task],) * 2


def test_per_task_submits_nothing_where_nothing_is_ready_or_there_is_no_room() -> None:
    left, empty = Work.of(chain(10, 10)).everything(), queue((0, NODES))
    assert PACKERS["per-task"](Situation(left, empty, ready=np.empty(0, np.int64)), Settings()).jobs == ()
    assert PACKERS["per-task"](Situation(left, empty, room=0), Settings()).jobs == ()


@pytest.mark.parametrize("packer", GROUPS)
@given(questions())
def test_no_group_is_submitted_while_one_is_pending(packer: str, asked: Asked) -> None:
    whole = asked.situation
    packed = PACKERS[packer](Situation(whole.left, whole.queue, whole.delay, pending=1), asked.settings)
    assert (packed.jobs, packed.singly) == ((), False)


@pytest.mark.parametrize("packer", ["one-job", "level-by-level"])
def test_the_plain_groupings_wait_until_the_last_one_has_ended(packer: str) -> None:
    situation = Situation(Work.of(chain(10, 10)).everything(), queue((0, NODES)), delay=60, running=1)
    assert PACKERS[packer](situation, Settings()).jobs == ()


@given(questions())
def test_a_leeway_is_enough_and_a_little_less_would_not_be(asked: Asked) -> None:
    """To the second where that is asked for: all of them are tried."""
    exact = Asked(asked.made, asked.situation, Settings(asked.settings.fudge, 1))
    literal, delay = exact.literal, exact.situation.delay
    (job,) = exact.answer("glume").jobs
    assert job.wait is not None
    assert job.leeway == 0 or job.wait + job.leeway >= delay
    tries = range(0, job.leeway, max(1, job.leeway // 50))
    assert all(less + literal.wait(job.nodes, job.run, less) < delay for less in [*tries, job.leeway - 1][: job.leeway])


@given(st.integers(1, 10**6), st.sampled_from([1.0, 1.1, 1.2, 1.5, 2.0]))
def test_the_requested_time_is_the_estimate_with_its_margin_in_whole_minutes(run: int, fudge: float) -> None:
    situation = Situation(Work.of(chain(run)).everything(), queue((0, NODES)))
    for packer in PACKERS:
        (job,) = PACKERS[packer](situation, Settings(fudge)).jobs
        assert job.seconds == request(run, fudge)
        assert run * fudge <= job.seconds < run * fudge + 60 or job.seconds == 60


def test_a_whole_number_of_minutes_is_not_rounded_up_to_one_more() -> None:
    """In binary numbers 3000 times 1.1 is a little more than 3300."""
    (job,) = PACKERS["one-job"](Situation(Work.of(chain(3000)).everything(), queue((0, NODES))), Settings(1.1)).jobs
    assert job.seconds == 3300


def test_zhang_improved_prices_the_job_that_it_compares_and_asks_for_enough_leeway() -> None:
    """Without a leeway the job starts now; with more than 600 seconds more it must wait for a large job to pass."""
    whole = Work.of(chain(660)).everything()
    situation = Situation(whole, queue((0, 1), (1260, 0), (1700, NODES)), delay=1000, running=1)
    packed = PACKERS["zhang-improved"](situation, Settings(1.0, tolerance=1))
    assert packed.reason == "waits 0.00 times as long as it runs (1 wide)"
    (job,) = packed.jobs
    assert (job.wait, job.leeway) == (1700, 601)


def test_glume_splits_where_the_first_part_fits_into_a_hole() -> None:
    """One node is free until 3600: the wide first level would wait, the long narrow rest too."""
    made = workflow([1000, 2000], [(0, 1)])
    situation = Situation(Work.of(made).everything(), queue((0, 1), (1800, 0), (2400, NODES)))
    packed = PACKERS["glume"](situation, Settings())
    (job,) = packed.jobs
    # The first task now, for 1100 seconds rounded up; the second one from 2400 on, when the first is long done.
    assert (job.tasks.tolist(), job.wait, job.seconds) == ([0], 0, 1140)
    assert packed.reason == "estimated to finish in 1h13m, or 1h30m with all levels in one job"


def test_more_levels_than_the_machine_has_nodes_and_wider_ones_fit() -> None:
    made = workflow([100] * 20, [(place, place + 10) for place in range(10)])
    situation = Situation(Work.of(made).everything(), queue((0, 2), nodes=2))
    for packer in GROUPS:
        (job,) = PACKERS[packer](situation, Settings()).jobs
        assert job.nodes == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"fudge": 0.9}, "1 to 100 times"), ({"fudge": 101}, "1 to 100"), ({"tolerance": 0}, "at least")],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**wrong)  # type: ignore[arg-type]
