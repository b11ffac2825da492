"""Nodes that break tasks are found, avoided for an hour and named; what failed there is done elsewhere."""

import time
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command_line import Call
from tonnage.jobs import SHARED, Amounts, Outcome
from tonnage.run.bad_nodes import AVOIDED_FOR, Avoiding, BadNodes, kind_of
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.folders import RUNS, RunFolder
from tonnage.run.journal import Journal
from tonnage.run.machines import Machine, QueueRoom, Room
from tonnage.run.retry_rules import Rules
from tonnage.size import Plan
from tonnage.size.learner import Learner
from tonnage.workflow import Task

NODE = Machine(4.0, 16e9, 1e12)
EIGHT = [f"n{number}" for number in range(1, 9)]
NO_SUCH_PROGRAM = "exit status 127"


def failing_on(node: str, *tasks: str, nodes: BadNodes | None = None, now: float = 0.0) -> BadNodes:
    """Return what is known after tasks of one category failed on a node, and one succeeded on n1."""
    nodes = nodes or BadNodes()
    nodes.succeeded("align", "n1", now)
    for task in tasks:
        nodes.failed(task, "align", node, NO_SUCH_PROGRAM, now)
    return nodes


def bad(nodes: BadNodes, now: float = 0.0) -> list[str]:
    return [one.node for one in nodes.avoided(now)]


def test_three_tasks_that_fail_on_one_node_only_make_it_bad_for_an_hour() -> None:
    nodes = failing_on("n3", "a", "b")
    assert bad(nodes) == []
    nodes.failed("a", "align", "n3", NO_SUCH_PROGRAM, 5.0)
    assert bad(nodes) == []  # these are still two
    nodes.failed("c", "align", "n3", NO_SUCH_PROGRAM, 10.0)
    (found,) = nodes.avoided(10.0)
    assert str(found) == "3 tasks failed on node n3 (exit status 127), but not on other nodes"
    assert bad(nodes, AVOIDED_FOR - 1) == ["n3"]
    assert bad(nodes, AVOIDED_FOR + 11) == []


def test_it_is_said_once() -> None:
    nodes = failing_on("n3", "a", "b", "c")
    avoiding = Avoiding(nodes)
    assert avoiding.news() == []  # an earlier session said it
    failing_on("n4", "d", "e", "f", nodes=nodes)
    (line,) = avoiding.news()
    assert line == "3 tasks failed on node n4 (exit status 127), but not on other nodes: it is avoided for 1h"
    nodes.failed("g", "align", "n4", NO_SUCH_PROGRAM, 1.0)
    assert avoiding.news() == []


def test_a_workflow_that_fails_everywhere_makes_no_node_bad() -> None:
    nodes = BadNodes()
    for number in range(30):
        nodes.failed(f"t{number}", "align", EIGHT[number % 2], NO_SUCH_PROGRAM, float(number))
    assert nodes.found == []
    nodes.succeeded("plot", "n8", 30.0)  # says nothing about the others
    assert nodes.found == []


def test_the_same_failures_on_nodes_that_work_speak_for_a_node() -> None:
    nodes = failing_on("n3", "a", "b", "c")
    nodes.failed("d", "align", "n1", NO_SUCH_PROGRAM, 1.0)
    assert nodes.found == []


def test_tasks_that_fail_on_every_node_are_to_blame_themselves() -> None:
    nodes = failing_on("n3", "a", "b", "c")
    for task in "abc":
        nodes.failed(task, "align", "n2", NO_SUCH_PROGRAM, 1.0)
    assert nodes.found == []


def test_two_bad_nodes_do_not_hide_each_other() -> None:
    nodes = failing_on("n3", "a", "b", "c")
    failing_on("n4", "d", "e", "f", nodes=nodes)
    assert set(bad(nodes)) == {"n3", "n4"}


def test_that_a_category_works_elsewhere_may_be_seen_last() -> None:
    nodes = BadNodes()
    for task in "abc":
        nodes.failed(task, "align", "n3", NO_SUCH_PROGRAM, 0.0)
    assert nodes.found == []
    assert nodes.succeeded("align", "n1", 1.0)
    assert bad(nodes) == ["n3"]


@pytest.mark.parametrize(
    ("outcome", "status", "signal", "kind"),
    [
        (Outcome.FAILED, 1, None, "exit status 1"),
        (Outcome.FAILED, 0, None, "outputs missing"),
        (Outcome.FAILED, None, 11, "killed by SIGSEGV"),
        (Outcome.FAILED, None, None, "could not be started"),
        (Outcome.LOST, None, 9, "killed by SIGKILL"),
        (Outcome.LOST, None, None, None),  # with its node or batch job
        (Outcome.EXHAUSTED, None, 9, None),
        (Outcome.PREEMPTED, None, 9, None),
        (Outcome.CANCELLED, None, 15, None),
        (Outcome.DONE, 0, None, None),
    ],
)
def test_kinds_of_failures(outcome: Outcome, status: int | None, signal: int | None, kind: str | None) -> None:
    assert kind_of(outcome, status, signal) == kind


ENDS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from("ab"), st.sampled_from(EIGHT[:3]), st.sampled_from(["", "x", "y"])),
    max_size=60,
)


@given(ENDS)
def test_what_is_bad_holds_by_its_own_definition(ends: list[tuple[int, str, str, str]]) -> None:
    nodes = BadNodes()
    for now, (task, category, node, kind) in enumerate(ends):
        if kind:
            nodes.failed(f"{task}", category, node, kind, float(now))
        else:
            nodes.succeeded(category, node, float(now))
    for one in nodes.avoided(float(len(ends))):
        failed = {task for task, _, node, kind in ends if (node, kind) == (one.node, one.kind)}
        assert len(failed) >= one.tasks >= 3
        assert any(not kind and node != one.node for _, _, node, kind in ends)


# The engine


def engine_of(tasks: int, room: Room | QueueRoom, retries: int = 0) -> Engine:
    request = Amounts.of(cores=1, memory=1e9)
    made = [Task(f"t{number}", category="align", request=request) for number in range(tasks)]
    plan = Plan(strategy="auto", machine=NODE.amounts(), resources=SHARED)
    return Engine(made, Learner(plan), room, rules=Rules(retries=retries))


def ends(start: Start, node: str, now: float, status: int) -> Ended:
    outcome = Outcome.FAILED if status else Outcome.DONE
    used = Amounts.of(cores=1, memory=1e9, disk=1e6, wall_time=1)
    return Ended(
        attempt=start.attempt,
        outcome=outcome,
        host=node,
        ended=now,
        exit_status=status,
        used=used,
        hopeless=status > 125,
    )


def played(engine: Engine, status: int, *, broken: frozenset[str], random: Random) -> Iterator[tuple[str, Settled]]:
    """Run everything: tasks take some minutes, and fail at once on broken nodes."""
    running: list[tuple[float, int, Start]] = []
    now = 0.0
    while True:
        for start in engine.admit():
            seconds = 0.1 if EIGHT[start.machine] in broken else random.uniform(300, 600)
            heappush(running, (now + seconds, start.attempt, start))
        if not running:
            return
        now, _, start = heappop(running)
        node = EIGHT[start.machine]
        yield node, engine.ended(ends(start, node, now, status if node in broken else 0))


@pytest.mark.parametrize("broken", [{"n1"}, {"n5"}, {"n2", "n7"}], ids=lambda one: " ".join(sorted(one)))
@pytest.mark.parametrize(("status", "retries"), [(1, 2), (1, 0), (127, 0)])
def test_a_node_that_breaks_every_task_costs_none_of_them(broken: set[str], status: int, retries: int) -> None:
    """It is always free, so it would take one task after the other before any is done elsewhere."""
    engine = engine_of(60, Room([NODE] * 8, EIGHT), retries)
    seen = list(played(engine, status, broken=frozenset(broken), random=Random(1)))
    assert engine.counts[State.DONE] == 60
    assert {one.node for one in engine.bad_nodes.found} == broken
    revived = {task for _, settled in seen for task in settled.revived}
    assert revived == {settled.task for _, settled in seen if settled.state is State.FAILED}


def test_nothing_starts_on_an_avoided_node_and_after_an_hour_it_is_tried_again() -> None:
    engine = engine_of(100, Room([NODE] * 2, EIGHT[:2]), retries=5)
    first = engine.admit()
    there = [start for start in first if start.machine == 0]
    engine.ended(ends(next(start for start in first if start.machine == 1), "n2", 1.0, 0))
    for start in there[:3]:
        settled = engine.ended(ends(start, "n1", 2.0, 1))
        assert settled.state is State.READY
    assert engine.avoided == {"n1"}
    assert {start.machine for start in engine.admit()} == {1}
    last = engine.ended(ends(there[3], "n1", 3.0, 1))
    assert last.state is State.READY
    assert engine.admit() == []
    engine.avoid_bad_nodes(2.0 + AVOIDED_FOR + 1.0)
    assert engine.avoided == frozenset()
    assert {start.machine for start in engine.admit()} == {0}


def test_the_last_node_is_never_avoided() -> None:
    room = Room([NODE] * 3, EIGHT[:3])
    assert room.avoid(["n1", "n3"]) == {"n1", "n3"}
    room.lose(1)
    assert room.avoid(["n1", "n3"]) == {"n1"}
    assert room.find((1.0, 1e9, 0.0)) == 2
    assert QueueRoom([NODE], 10, ["n1", "n2"]).avoid(["n2", "n1"]) == {"n2"}
    assert QueueRoom([NODE], 10, ["n1"]).avoid(["n1"]) == frozenset()


def test_failures_on_a_node_that_is_avoided_afterwards_are_not_counted_as_retries() -> None:
    engine = engine_of(8, Room([NODE] * 2, EIGHT[:2]), retries=1)
    first = engine.admit()
    here, other = ([start for start in first if start.machine == machine] for machine in (0, 1))
    engine.ended(ends(other[0], "n2", 1.0, 0))
    for start in here[:3]:
        engine.ended(ends(start, "n1", 2.0, 1))
    (again,) = engine.admit()
    assert again.machine == 1
    assert engine.ended(ends(again, "n2", 3.0, 2)).reason == "retrying (1 of 1)"


def test_a_retry_goes_to_another_node_that_is_free() -> None:
    engine = engine_of(1, Room([NODE] * 2, EIGHT[:2]), retries=2)
    (start,) = engine.admit()
    engine.ended(ends(start, EIGHT[start.machine], 1.0, 1))
    (again,) = engine.admit()
    assert again.machine != start.machine


def test_a_resumed_run_knows_the_same_and_revived_tasks_have_not_failed(tmp_path: Path) -> None:
    engine = engine_of(8, Room([NODE] * 2, EIGHT[:2]))
    journal = Journal(tmp_path / "journal")
    journal.take_tasks([(task.name, task.category, b"") for task in engine.tasks])
    starts = engine.admit()
    journal.started(starts, 0.0)
    here = [start for start in starts if start.machine == 0]
    other = next(start for start in starts if start.machine == 1)
    for start in here[:3]:
        end = ends(start, "n1", 1.0, 127)
        journal.ended(end, engine.ended(end))
    journal.commit()
    assert len(journal.failed()) == 3
    end = ends(other, "n2", 2.0, 0)
    settled = engine.ended(end)
    assert set(settled.revived) == {start.task for start in here[:3]}
    journal.ended(end, settled)
    journal.commit()
    assert journal.failed() == []
    notes = {row.note for row in journal.rows() if row.outcome is Outcome.FAILED}
    assert notes == {"retried elsewhere, because its node is avoided"}
    assert journal.bad_nodes().found == engine.bad_nodes.found
    journal.close()


def test_status_and_report_name_bad_nodes(tmp_path: Path, command_line: Call) -> None:
    folder = RunFolder(tmp_path / RUNS / "r")
    folder.make()
    engine, journal, now = engine_of(8, Room([NODE] * 2, EIGHT[:2]), retries=1), Journal(folder.journal), time.time()
    journal.take_tasks([(task.name, task.category, b"") for task in engine.tasks])
    starts = engine.admit()
    journal.started(starts, now - 60)
    for start in starts:
        end = ends(start, EIGHT[start.machine], now - 50, 0 if start.machine else 3)
        journal.ended(end, engine.ended(end))
    journal.commit()
    journal.close()
    named = "4 tasks failed on node n1 (exit status 3), but not on other nodes: "
    assert f"{named}it is avoided for another 59" in command_line("status", folder.path).stdout
    (bad_node,) = command_line("status", folder.path, "--json").facts["bad_nodes"]
    assert (bad_node["node"], bad_node["kind"], bad_node["tasks"]) == ("n1", "exit status 3", 4)
    advice = command_line("report", folder.path, "--json").facts["advice"]
    assert any(one["text"].startswith(named) for one in advice)
