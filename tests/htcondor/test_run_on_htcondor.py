"""Runs on a pool (a stand-in, see CONTRIBUTING.md) come to their end, whatever happens on the way."""

import json
import re
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.htcondor.pool import Pool
from tests.htcondor.run_folders import PoolPlace, hungry, shared
from tests.run.cli_runs import kill
from tonnage.archive import Archive, Search, find
from tonnage.jobs import Outcome, Resource

PoolWith = Callable[..., Pool]


@pytest.fixture
def place(pool: Pool, tmp_path: Path) -> PoolPlace:
    return PoolPlace(tmp_path / "w", pool)


def chain(place: PoolPlace, **commands: str) -> None:
    """Write a workflow whose rules follow one another."""
    before, rules = "", {}
    for name, command in commands.items():
        rules[name] = (before, command)
        before = name
    place.makeflow(**rules)


def test_a_workflow_runs_sized_ranked_and_measured_and_the_second_run_is_better(place: PoolPlace) -> None:
    place.makeflow(
        a=("", hungry(60, "a")), b=("", hungry(120, "b")), c=("a b", "cat a b > c"), d=("a", "sort a > d && sleep 0.1")
    )
    first = place.call("run", "w.mf", "--json")
    assert first.status == 0, first.stderr
    assert (place.folder / "c").read_text() == "done\ndone\n"
    place.check_all()
    # One question for the version, one for the machines, one for the schedd, one submission: however many tasks.
    assert {call.program: place.calls(call.program) for call in place.pool.calls} == {
        "condor_status": 1,
        "condor_version": 1,
        "condor_q": 1,
        "condor_submit_dag": 1,
    }
    assert "nothing to do: 4 of 4 tasks" in place.call("run", "w.mf").stdout
    second = place.call("run", "w.mf", "--new", "--json")
    assert second.status == 0, second.stderr
    place.check_all()
    wasted = [said.facts["waste_fraction"]["memory"] for said in (first, second)]
    assert wasted[1] < wasted[0] / 2
    assert 60e6 < (place.row("a").used.memory or 0) < 90e6


def test_what_is_asked_for_is_what_was_decided_and_the_archive_has_the_pools_figures_beside_ours(
    place: PoolPlace,
) -> None:
    place.makeflow(a=("", hungry(60, "a", 0.5)))
    assert place.call("run", "w.mf").status == 0
    row = place.row("a")
    (decided,) = [one for one in row.decisions if one.resource is Resource.MEMORY]
    dag = (place.dag() / "workflow.dag").read_text()
    asked = re.search(r' memory="(\d+) MB', dag)
    assert asked is not None
    assert 0 <= int(asked[1]) * 2**20 - (decided.amount + 32 * 2**20) < 2**20
    theirs = dict(row.facts)["htcondor"]
    assert isinstance(theirs, dict)
    assert theirs["RequestMemory"] == int(asked[1]) * 2**20
    assert theirs["MemoryUsage"] > 55e6
    with Archive.open(str(place.archive)) as archive:
        (stored,) = find(archive, Search(run=place.runs()[0].id))
    assert stored.raw["htcondor"] == theirs
    decisions = stored.raw["decisions"]
    assert isinstance(decisions, list)
    assert decisions[0]["reason"] == row.decisions[0].reason
    assert stored.memory_method == row.memory_method != "rss"


@pytest.mark.parametrize("version", ["25.14.1", "23.0.1"])
def test_a_task_that_needs_more_gets_more_of_what_it_lacked(pool_with: PoolWith, tmp_path: Path, version: str) -> None:
    """The monitor stops it, our POST script says why, and DAGMan's retry chooses the next rung."""
    place = PoolPlace(tmp_path / "w", pool_with(version=version, quantum=1))
    place.write("w.mf", f"CATEGORY=x\nMEMORY=100\na:\n\t{hungry(400, 'a', 1)}\nb: a\n\tcp a b\n")
    said = place.call("run", "w.mf", "--size", "declared")
    assert said.status == 0, said.stderr
    place.check_all()
    first, *_, last = [row for row in place.rows() if row.task == "a"]
    assert (first.outcome, first.exhausted) == (Outcome.EXHAUSTED, Resource.MEMORY)
    assert last.outcome is Outcome.DONE
    assert (last.allocated.memory or 0) > 400e6 > (first.allocated.memory or 0)
    assert last.number == len([row for row in place.rows() if row.task == "a"])
    if version > "25":
        assert last.allocated.disk == first.allocated.disk


@pytest.mark.parametrize("version", ["25.14.1", "23.0.1"])
def test_a_task_that_needs_more_than_there_is_fails_and_the_rest_goes_on(
    pool_with: PoolWith, tmp_path: Path, version: str
) -> None:
    place = PoolPlace(tmp_path / "w", pool_with(version=version, memory=600, quantum=1))
    place.makeflow(a=("", hungry(800, "a", 1)), b=("", "echo b > b"), c=("a", "cp a c"))
    said = place.call("run", "w.mf", "--json", "--retries", 2)  # that it failed is not its own fault
    assert said.status == 1
    assert said.facts["failures"].keys() == {"a"}
    assert said.facts["done"] == 1
    assert said.facts["unreachable"] == 1
    assert set(place.outcomes()["a"]) == {"exhausted"}
    given = [row.allocated.memory or 0 for row in place.rows() if row.task == "a"]
    assert all(less < more for less, more in pairwise(given)), "nothing is tried twice"
    place.check_all(all_done=False)


def test_a_task_that_the_pool_evicts_for_memory_gets_more_as_long_as_there_is_more(
    pool_with: PoolWith, tmp_path: Path
) -> None:
    """The pool counts four times what the monitor counts once, so it is the pool that stops the task."""
    place = PoolPlace(tmp_path / "w", pool_with(memory=1000, quantum=1, preempts=True))
    rules = [f"a:\n\t{shared(100, 'a', 2)}\n", f"b:\n\t{shared(300, 'b', 60)}\n", "c: a\n\tcp a c\n"]
    place.write("w.mf", f"CATEGORY=x\nMEMORY=200\n{''.join(rules)}")
    said = place.call("run", "w.mf", "--size", "declared", "--json")
    assert said.status == 1, said.stderr
    assert said.facts["failures"].keys() == {"b"}
    assert said.facts["done"] == 2
    first, *_, last = [row for row in place.rows() if row.task == "a"]
    assert (first.outcome, first.exhausted, last.outcome) == (Outcome.EXHAUSTED, Resource.MEMORY, Outcome.DONE)
    assert (last.allocated.memory or 0) > 400e6 > (first.allocated.memory or 0)
    assert set(place.outcomes()["b"]) == {"exhausted"}
    place.check_all(all_done=False)


def test_where_the_pool_enforces_nothing_the_monitor_does(pool_with: PoolWith, tmp_path: Path) -> None:
    place = PoolPlace(tmp_path / "w", pool_with(quantum=1, enforces=False))
    place.write("w.mf", f"CATEGORY=x\nMEMORY=100\na:\n\t{hungry(400, 'a', 1)}\n")
    said = place.call("run", "w.mf", "--size", "declared")
    assert said.status == 0, said.stderr
    assert set(place.outcomes()["a"][:-1]) == {"exhausted"}
    place.check_all()


@pytest.mark.parametrize("version", ["25.14.1", "23.0.1"])
def test_a_failure_is_tried_again_as_often_as_the_user_says(pool_with: PoolWith, tmp_path: Path, version: str) -> None:
    place = PoolPlace(tmp_path / "w", pool_with(version=version))
    place.makeflow(a=("", "echo x >> tries; test $(wc -l < tries) = 3 && echo a > a"), b=("a", "cp a b"))
    place.write("w.mf", (place.folder / "w.mf").read_text().replace("$(wc", "\\$(wc"))
    said = place.call("run", "w.mf", "--retries", 2)
    assert said.status == 0, said.stderr
    assert place.outcomes() == {"a": ["failed", "failed", "done"], "b": ["done"]}
    assert [row.number for row in place.rows() if row.task == "a"] == [1, 2, 3]


def test_after_a_failure_the_rescue_dag_is_used_and_done_tasks_are_not_repeated(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a >> runs && cp runs a"), b=("a", "cp wanted b"), c=("b", "cp b c"), d=("a", "cp a d"))
    said = place.call("run", "w.mf", "--json")
    assert said.status == 1
    assert said.facts["done"] == 2
    assert "exit status 1" in said.facts["failures"]["b"]
    assert list(place.dag().glob("workflow.dag.rescue001"))
    place.write("wanted", "now\n")
    again = place.call("run", "w.mf")
    assert again.status == 0, again.stderr
    assert (place.folder / "c").read_text() == "now\n"
    assert (place.folder / "runs").read_text() == "a\n"
    assert len(place.runs()) == 1
    assert not place.dag(2).exists()
    place.check_all()


def test_where_the_user_wants_something_else_the_rescue_dag_is_not_used(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a >> runs && cp runs a"), b=("a", "cp wanted b"))
    assert place.call("run", "w.mf").status == 1
    place.write("wanted", "now\n")
    again = place.call("run", "w.mf", "--submit-command", "+Project = 1")
    assert again.status == 0, again.stderr
    assert "+Project = 1" in (place.dag(2) / "b.sub").read_text()
    assert (place.folder / "runs").read_text() == "a\n"
    place.check_all()


def test_a_task_whose_outputs_are_gone_runs_again_though_the_rescue_dag_says_that_it_is_done(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a > a"), b=("a", "cat a wanted > b"))
    assert place.call("run", "w.mf").status == 1
    place.write("wanted", "now\n")
    (place.folder / "a").unlink()
    again = place.call("run", "w.mf")
    assert again.status == 0, again.stderr
    assert (place.folder / "b").read_text() == "a\nnow\n"
    assert place.outcomes() == {"a": ["done", "done"], "b": ["failed", "done"]}


def test_a_changed_task_runs_again_with_what_follows_it(place: PoolPlace) -> None:
    chain(place, a="echo 1 > a", b="cp a b", c="cp missing c")
    assert place.call("run", "w.mf").status == 1
    chain(place, a="echo 1 > a", b="cat a a > b", c="cp b c")
    said = place.call("run", "w.mf")
    assert said.status == 0, said.stderr
    assert (place.folder / "c").read_text() == "1\n1\n"
    assert place.outcomes() == {"a": ["done"], "b": ["done", "done"], "c": ["failed", "done"]}
    assert place.dag(2).exists()


def test_an_evicted_task_and_one_whose_machine_was_lost_are_tried_again_with_as_much(place: PoolPlace) -> None:
    place.makeflow(a=("", "test -e go || sleep 1000; echo a > a"), b=("", "test -e go || sleep 1000; echo b > b"))
    with place.begin("run", "w.mf") as engine:
        place.when(lambda: len(place.pool.jobs("JobStatus == 2 && DAGNodeName =!= undefined")) == 2, "run", engine)
        place.write("go", "")
        place.pool.evict("a")
        place.pool.lose_machine("b")
        assert engine.wait(HANGS) == 0
    assert place.outcomes() == {"a": ["preempted", "done"], "b": ["lost", "done"]}
    first, second = (row for row in place.rows() if row.task == "a")
    assert first.allocated == second.allocated
    place.check_all()


def test_a_job_that_a_user_holds_goes_on_when_it_is_released(place: PoolPlace) -> None:
    place.makeflow(a=("", "test -e go || sleep 1000; echo a > a"))
    with place.begin("run", "w.mf") as engine:
        place.pool.hold("a")
        place.write("go", "")
        place.when(lambda: place.outcomes().get("a") == ["lost"], "the hold is seen", engine)
        place.pool.release("a")
        _, errors = engine.communicate(timeout=HANGS)
        assert engine.returncode == 0, errors
    assert "a: via condor_hold (by user tester); held until it is released" in errors
    assert "lost" not in errors
    assert place.outcomes() == {"a": ["lost", "done"]}


def test_a_task_that_is_killed_from_outside_is_tried_again_as_on_any_other_backend(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a >> runs; test `wc -l < runs` = 3 || kill -9 \\$\\$; echo a > a"))
    said = place.call("run", "w.mf")
    assert said.status == 0, said.stderr
    assert place.outcomes() == {"a": ["lost", "lost", "done"]}
    place.check_all()


def test_a_task_that_is_always_killed_is_given_up_in_the_end(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a >> runs; kill -9 \\$\\$"))
    said = place.call("run", "w.mf", "--json")
    assert said.status == 1, said.stderr
    assert "killed" in said.facts["failures"]["a"]
    assert place.outcomes() == {"a": ["lost"] * 6}


def test_a_job_that_is_removed_is_left_for_the_next_time(place: PoolPlace) -> None:
    place.makeflow(a=("", "test -e go || sleep 1000; echo a > a"), b=("a", "cp a b"), c=("", "echo c > c"))
    with place.begin("run", "w.mf", "--json") as engine:
        cluster = place.pool.wait_for_node("a")["ClusterId"]
        place.pool.run("condor_rm", str(cluster))
        out, errors = engine.communicate(timeout=HANGS)
        assert engine.returncode == 1, errors
    assert json.loads(out)["done"] == 1
    assert place.outcomes()["a"] == ["cancelled"]
    assert "retrying" not in errors
    place.write("go", "")
    assert place.call("run", "w.mf").status == 0
    place.check_all()


def test_the_engine_can_be_killed_at_any_moment_and_picks_the_dag_up_where_it_is(place: PoolPlace) -> None:
    place.makeflow(
        last=("", "until test -e go; do sleep 0.05; done; echo last >> runs; echo x > last"),
        **{f"t{number}": ("", f"sleep 0.2; echo {number} >> runs; echo x > t{number}") for number in range(23)},
    )
    for pause in (0.6, 0.9, 1.2, 1.5):
        with place.begin("run", "w.mf") as engine:
            time.sleep(pause)
            assert engine.poll() is None, "it cannot come to its end: the last task waits"
            engine.kill()
    place.write("go", "")
    said = place.call("run", "w.mf")
    assert said.status == 0, said.stderr
    place.check_all()
    assert len((place.folder / "runs").read_text().split()) == 24, "a task was done twice"


def test_a_dag_that_came_to_its_end_while_nobody_looked_is_not_submitted_again(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a >> runs; sleep 0.5; echo a > a"), b=("a", "cp a b"))
    with place.begin("run", "w.mf") as engine:
        place.when(place.pool.jobs, "it is submitted", engine)
        engine.kill()
    place.when(lambda: not place.pool.jobs(), "DAGMan has ended")
    said = place.call("run", "w.mf")
    assert said.status == 0, said.stderr
    assert (place.folder / "runs").read_text() == "a\n"
    assert place.calls("condor_submit_dag") == 1
    place.check_all()


def test_an_engine_that_is_killed_while_it_submits_does_not_submit_twice(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a >> runs; sleep 0.5; echo a > a"), b=("a", "cp a b"))
    with place.begin("run", "w.mf") as engine:
        place.when(lambda: place.calls("condor_submit_dag"), "it submits", engine)
        engine.kill()
    said = place.call("run", "w.mf")
    assert said.status == 0, said.stderr
    assert (place.folder / "runs").read_text() == "a\n"
    place.check_all()


def test_dagman_that_is_killed_is_started_again_by_the_pool_and_nothing_is_lost(place: PoolPlace) -> None:
    place.makeflow(**{f"t{number}": ("", f"sleep 0.4; echo x > t{number}") for number in range(16)})
    with place.begin("run", "w.mf") as engine:
        place.pool.wait_for_node("t0")
        place.pool.kill_dagman()
        _, errors = engine.communicate(timeout=HANGS)
        assert engine.returncode == 0, errors
    place.check_all()


def test_ctrl_c_lets_what_runs_finish_and_the_same_command_goes_on(place: PoolPlace) -> None:
    place.makeflow(**{f"t{number}": ("", f"sleep 0.5; echo x > t{number}") for number in range(20)})
    with place.begin("run", "w.mf", "--max-submitted", 4) as engine:
        place.pool.wait_for_node("t0")
        engine.send_signal(signal.SIGINT)
        _, errors = engine.communicate(timeout=HANGS)
        assert engine.returncode == 130, errors
    outcomes = place.outcomes()
    assert 0 < len(outcomes) < 20
    assert {one for ends in outcomes.values() for one in ends} == {"done"}
    assert place.call("run", "w.mf").status == 0
    place.check_all()


def test_status_tells_idle_jobs_from_running_ones(pool_with: PoolWith, tmp_path: Path) -> None:
    place = PoolPlace(tmp_path / "w", pool_with(machines=1, cpus=1))
    place.makeflow(
        **{name: ("", f"until [ -e go ]; do sleep 0.05; done; echo x > {name}") for name in "abc"},
        d=("a", "echo d > d"),
    )

    def counts() -> dict[str, int]:
        found = place.call("status", "--json").facts["counts"]
        assert isinstance(found, dict)
        return found

    with place.begin("run", "w.mf") as engine:
        place.pool.wait_for_node("a")
        wanted = {"done": 0, "failed": 0, "running": 1, "queued": 2, "waiting": 1}
        place.when(lambda: counts() == wanted, "one runs, two are idle", engine)
        place.write("go", "")
        _, errors = engine.communicate(timeout=HANGS)
        assert engine.returncode == 0, errors
    assert counts() == {"done": 4, "failed": 0, "running": None, "queued": None, "waiting": None}


def test_stop_removes_what_a_killed_engine_has_left_with_the_pool(place: PoolPlace) -> None:
    place.makeflow(a=("", "test -e go || sleep 1000; echo a > a"))
    with place.begin("run", "w.mf") as engine:
        place.pool.wait_for_node("a")
        kill(engine.pid)
    assert "1 not known to have finished" in place.call("status").stdout
    said = place.call("stop")
    assert said.status == 0, said.stderr
    place.when(lambda: not place.pool.jobs(), "the queue is empty")
    place.write("go", "")
    again = place.call("run", "w.mf")
    assert again.status == 0, again.stderr
    assert place.outcomes()["a"][-1] == "done"
    place.check_all()


def test_a_schedd_that_does_not_answer_is_found_out_before_anything_is_submitted(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a > a"))
    place.pool.stop_answering()
    said = place.call("run", "w.mf", "--machine", "cores=4,memory=4GB,disk=4GB")
    assert said.status == 1
    assert "HTCondor does not answer" in said.stderr
    assert not place.runs()


def test_a_schedd_that_falls_silent_later_does_no_harm(place: PoolPlace) -> None:
    place.makeflow(**{f"t{number}": ("", f"sleep 0.3; echo x > t{number}") for number in range(8)})
    with place.begin("run", "w.mf") as engine:
        place.pool.wait_for_node("t0")
        place.pool.stop_answering()
        assert engine.wait(HANGS) == 0
    place.check_all()


def test_files_travel_with_tasks_where_machines_share_none(pool_with: PoolWith, tmp_path: Path) -> None:
    place = PoolPlace(tmp_path / "w", pool_with(shared_filesystem=False))
    place.write("data/in.txt", "b\na\n")
    program = place.write("tool.sh", "#!/bin/sh\nsort data/in.txt\n")
    program.chmod(0o755)
    rules = [
        "out/a.txt: data/in.txt tool.sh\n\tmkdir out && ./tool.sh > out/a.txt\n",
        "b.txt: out/a.txt\n\tcat out/a.txt > b.txt\n",
    ]
    text = "".join(rules)
    place.write("w.mf", text)
    said = place.call("run", "w.mf", "--sandbox")
    assert said.status == 0, said.stderr
    assert (place.folder / "b.txt").read_text() == "a\nb\n"
    assert place.row("b.txt").used.processes is not None, "the monitor travels, too: the pool does not count processes"
    assert {path.name for path in place.folder.iterdir()} == {".tonnage", "b.txt", "data", "out", "tool.sh", "w.mf"}
    place.check_all()
    assert "nothing to do: 2 of 2 tasks" in place.call("run", "w.mf", "--sandbox").stdout


def test_what_a_failure_has_left_does_not_look_complete(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo half > a; exit 3"), b=("", "true"))
    said = place.call("run", "w.mf", "--json")
    assert said.status == 1
    failures: dict[str, str] = said.facts["failures"]
    assert failures == {"a": "exit status 3", "b": "succeeded, but did not write all of its outputs"}
    assert not (place.folder / "a").exists()
    assert [path.read_text() for path in (place.dag() / "partial").rglob("a")] == ["half\n"]
    assert "did not write b" in Path(str(place.row("b").stderr)).read_text()


def test_in_a_sandbox_a_failure_leaves_nothing_and_the_job_does_not_stay_on_hold(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo half > a; exit 3"), b=("", "true"))
    said = place.call("run", "w.mf", "--json", "--sandbox")
    assert said.status == 1
    assert said.facts["failures"].keys() == {"a", "b"}
    assert sorted(path.name for path in place.folder.iterdir()) == [".tonnage", "w.mf"]


def test_a_program_that_is_not_there_fails_at_once(place: PoolPlace) -> None:
    place.makeflow(a=("", "no-such-program > a"))
    said = place.call("run", "w.mf", "--retries", 3)
    assert said.status == 1
    assert place.outcomes() == {"a": ["failed"]}
    assert place.row("a").exit_status == 127


def test_the_final_node_of_a_dag_runs_when_nothing_else_can(place: PoolPlace) -> None:
    for name, command in {"a": "exit 1", "b": "echo b > b", "last": "echo last > last"}.items():
        place.write(f"{name}.sub", f"executable = /bin/sh\narguments = \"-c '{command}'\"\nqueue\n")
    place.write("w.dag", "JOB a a.sub\nJOB b b.sub\nJOB c b.sub\nPARENT a CHILD c\nFINAL last last.sub\n")
    said = place.call("run", "w.dag", "--json")
    assert said.status == 1
    assert place.outcomes() == {"a": ["failed"], "b": ["done"], "last": ["done"]}
    assert (place.folder / "last").exists()


@pytest.mark.parametrize("form", ["text", "wfformat", "dag"])
def test_workflows_of_any_format_run(place: PoolPlace, form: str) -> None:
    if form == "text":
        path = place.write("list.txt", "".join(f"echo {number} > f{number}\n" for number in range(5)))
    else:
        place.makeflow(a=("", "echo a > a"), b=("a", "cp a b"))
        from tonnage.workflow import read, write

        path = place.folder / ("w.json" if form == "wfformat" else "w.dag")
        write(read(place.folder / "w.mf"), path)
    said = place.call("run", path.name)
    assert said.status == 0, said.stderr
    place.check_all(path.name)


def test_a_throttle_holds_for_its_category(place: PoolPlace) -> None:
    rules = "".join(f"t{number}:\n\tsleep 0.2; echo x > t{number}\n" for number in range(8))
    place.write("w.mf", f"CATEGORY=slow\n{rules}")
    assert place.call("run", "w.mf", "--throttle", "slow=2").status == 0
    rows = sorted(place.rows(), key=lambda row: row.started)
    at_once = max(sum(one.started <= row.started < (one.ended or 0) for one in rows) for row in rows)
    assert at_once <= 2
    assert "MAXJOBS slow 2" in (place.dag() / "workflow.dag").read_text()


def test_another_hundred_tasks_do_not_mean_another_question(place: PoolPlace) -> None:
    place.write("list.txt", "".join(f"true {number}\n" for number in range(100)))
    said = place.call("run", "list.txt", "--json")
    assert said.facts["done"] == 100
    assert len(place.pool.calls) == 4


def test_without_htcondor_the_message_says_where_to_go(tmp_path: Path, pool: Pool) -> None:
    place = PoolPlace(tmp_path / "w", pool)
    place.environment["PATH"] = "/usr/bin:/bin"
    place.makeflow(a=("", "echo a > a"))
    said = place.call("run", "w.mf")
    assert said.status == 2
    assert "HTCondor is not available on this machine" in said.stderr
    assert not place.runs()


def test_a_version_that_is_too_old_is_refused(pool_with: PoolWith, tmp_path: Path) -> None:
    place = PoolPlace(tmp_path / "w", pool_with(version="8.8.17"))
    place.makeflow(a=("", "echo a > a"))
    said = place.call("run", "w.mf")
    assert said.status == 2
    assert "this is HTCondor 8.8.17, but 9.0.0 or newer is required" in said.stderr
    assert not place.runs()


def test_dry_run_writes_everything_and_prints_the_one_command_that_submits_it(place: PoolPlace) -> None:
    place.makeflow(a=("", "echo a > a"), b=("a", "cp a b"))
    said = place.call("run", "w.mf", "--dry-run")
    assert said.status == 0
    assert not place.runs()
    command = said.stdout.strip().splitlines()[-1]
    assert command.startswith(f"cd {place.folder} && condor_submit_dag ")
    assert place.calls("condor_submit_dag") == 0
    assert place.pool.run("sh", "-c", command).returncode == 0
    place.when(lambda: not place.pool.jobs(), "it comes to its end")
    assert (place.folder / "b").read_text() == "a\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--pack", "glume"], "--pack is for Slurm"),
        (["--throttle", "x"], "--throttle"),
        (["--throttle", "x=many"], "is not a number of jobs"),
        (["--submit-command", "queue 5"], "is not a submit command"),
        (["--submit-command", "Log = mine.log"], "log is set by Tonnage"),
    ],
)
def test_options_that_make_no_sense_are_refused(place: PoolPlace, options: list[str], words: str) -> None:
    place.makeflow(a=("", "echo a > a"))
    said = place.call("run", "w.mf", *options)
    assert said.status == 2
    assert words in said.stderr


def test_a_machine_that_breaks_every_task_is_avoided_by_requirements_and_costs_none_of_them(
    place: PoolPlace,
) -> None:
    # It is the first that the pool looks at, and always free.
    broken = "machine1.example.org"
    place.write("align.sh", f"if grep -q {broken} $_CONDOR_MACHINE_AD; then exit 3; fi; sleep 0.3; echo done > $1")
    rules = "".join(f"o{number}:\n\tsh align.sh o{number}\n" for number in range(12))
    place.write("w.mf", f"CATEGORY=align\nCORES=2\n{rules}")
    mine = 'Requirements = TARGET.Machine =!= "machine9.example.org"'
    said = place.call("run", "w.mf", "--submit-command", mine)
    assert said.status == 0, said
    place.check_all()
    assert {row.host for row in place.rows() if row.outcome is Outcome.FAILED} == {broken}
    named = rf"\d+ tasks failed on node {broken} \(exit status 3\), but not on other nodes"
    assert re.search(named, said.stderr), said
    assert re.search(named, said.stdout), said
    assert re.search(named, place.call("status").stdout)
    (description,) = place.dag().glob("align.sub")
    assert f'MY.TonnageAvoided = "{broken}"' in description.read_text()
    assert place.calls("condor_qedit") >= 1
