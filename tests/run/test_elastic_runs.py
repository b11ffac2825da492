"""Elastic memory with real processes: they grow, pause, and survive whatever is killed meanwhile."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from math import nan
from pathlib import Path
from subprocess import DEVNULL

import numpy as np
import pytest

from tests.deadlines import HANGS
from tests.run.cli_runs import Begun, Place, kill, marked
from tests.run.test_elastic_memory import MB, MEMORY
from tests.waiting import until
from tonnage.jobs import SHARED, Outcome, Resource
from tonnage.lab.simulated_run import Growth, Load, play
from tonnage.run.elastic_memory import report_step
from tonnage.run.journal import Reader
from tonnage.run.machines import Machine
from tonnage.run.minders import Answer, Minders, Order, Seen
from tonnage.watch.proc import Process, children
from tonnage.workflow import Task

# Real processes


@pytest.fixture
def minders(tmp_path: Path) -> Iterator[Minders]:
    with Minders(tmp_path / "engine") as pool:
        yield pool


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., Order]:
    def make(script: str, **options: object) -> Order:
        out, err = str(tmp_path / "1.out"), str(tmp_path / "1.err")
        return Order(1, ("/bin/sh", "-c", script), "/bin/sh", str(tmp_path), out, err, **options)  # type: ignore[arg-type]

    return make


def answer_of(minders: Minders) -> Answer:
    return until(lambda: next((one for one in minders.wait(1) if isinstance(one, Answer)), None))


def marked_folders(script_mark: str) -> Iterator[Path]:
    """Yield the folders in /proc of all processes whose command line has a mark."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = script_mark.encode() in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if marked and int(folder.name) != os.getpid():
            yield folder


def states(script_mark: str) -> set[bytes]:
    """Return the states of all processes whose command line has a mark."""
    processes = (Process.of(int(folder.name)) for folder in marked_folders(script_mark))
    return {process.state for process in processes if process is not None}


def resident(script_mark: str) -> int:
    """Return the memory of all processes whose command line has a mark."""
    processes = (Process.of(int(folder.name)) for folder in marked_folders(script_mark))
    return sum(process.resident for process in processes if process is not None)


def test_a_paused_task_stands_still_and_the_pause_counts_for_no_limit(
    minders: Minders, order: Callable[..., Order], tmp_path: Path
) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    script = f": {mark}; (: {mark}; while [ ! -e go ]; do sleep 0.01; done) & wait"
    minders.start([order(script, limits={"wall_time": 30.0})])
    until(lambda: len(states(mark)) > 0)
    minders.pause(1)
    until(lambda: states(mark) == {b"T"})
    begin = time.monotonic()
    time.sleep(0.5)  # what is measured
    (tmp_path / "go").touch()
    assert states(mark) == {b"T"}
    minders.resume(1)
    answer = answer_of(minders)
    assert answer.status == 0
    assert answer.paused >= 0.5
    assert answer.started is not None
    assert answer.ended is not None
    assert answer.used["wall_time"] + answer.paused == pytest.approx(answer.ended - answer.started, abs=0.01)
    assert answer.used["wall_time"] <= time.monotonic() - begin + 30


def test_what_a_task_had_stopped_itself_stays_stopped(
    minders: Minders, order: Callable[..., Order], tmp_path: Path
) -> None:
    mark, own = (f"mark-{tmp_path.name}-{os.getpid()}-{name}" for name in ("task", "own"))
    child = f"sh -c ': {own}; kill -STOP $$; :' & until [ -e go ]; do sleep 0.01; done; : {mark}; kill -KILL $!"
    (tmp_path / "task").write_text(child)
    minders.start([order(f"exec sh {tmp_path}/task")])
    until(lambda: states(own) == {b"T"})
    minders.pause(1)
    until(lambda: states(f"{tmp_path}/task") == {b"T"})
    minders.resume(1)
    until(lambda: b"T" not in states(f"{tmp_path}/task"))
    assert states(own) == {b"T"}
    (tmp_path / "go").touch()
    assert answer_of(minders).status == 0


def test_a_paused_task_can_be_stopped_and_dies_with_its_engine(
    minders: Minders, order: Callable[..., Order], tmp_path: Path
) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    minders.start([order(f": {mark}; sleep 1000; :")])
    until(lambda: states(mark))
    minders.pause(1)
    until(lambda: states(mark) == {b"T"})
    minders.stop(1)
    assert answer_of(minders).stopped_because == "cancelled"
    minders.start([order(f": {mark}; sleep 1000; :")])
    until(lambda: states(mark))
    minders.pause(1)
    until(lambda: states(mark) == {b"T"})
    minders.close()
    until(lambda: not states(mark))


def test_what_a_task_uses_when_it_is_paused_is_known(
    minders: Minders, order: Callable[..., Order], tmp_path: Path
) -> None:
    """It may grow until it stands still; that would be missing in the sum of what is really used."""
    program = tmp_path / "grow.py"
    program.write_text("held = []\nwhile len(held) < 3000: held.append(b'1' * 10**6)\nimport time; time.sleep(1000)")
    mark = str(program)
    minders.start([order(f"exec {sys.executable} -IS {program}", report_growth=report_step(MEMORY))])
    until(lambda: any(isinstance(one, Seen) and (one.memory or 0) > 30 * MB for one in minders.wait(1)))
    minders.pause(1)
    seen = 0.0

    def is_known() -> bool:
        nonlocal seen
        seen = max([seen, *(one.memory or 0 for one in minders.wait(0.1) if isinstance(one, Seen))])
        return states(mark) == {b"T"} and abs(seen - resident(mark)) < report_step(MEMORY)

    until(is_known)
    minders.stop(1)
    answer_of(minders)


def test_growth_is_reported_at_once(minders: Minders, order: Callable[..., Order], tmp_path: Path) -> None:
    program = tmp_path / "grow.py"
    program.write_text("import time; held = bytearray(100_000_000); time.sleep(1000)")
    minders.start([order(f"exec {sys.executable} -IS {program}", report_growth=report_step(MEMORY))])
    until(lambda: any(isinstance(one, Seen) and (one.memory or 0) > 50 * MB for one in minders.wait(1)))
    minders.stop(1)
    answer_of(minders)


def test_tasks_are_killed_before_their_engine_if_memory_runs_out(
    minders: Minders, order: Callable[..., Order], tmp_path: Path
) -> None:
    minders.start([order("cat /proc/self/oom_score_adj > score")])
    assert answer_of(minders).status == 0
    assert (tmp_path / "score").read_text() == "1000\n"
    assert minders._fork_server is not None
    for pid in (minders._fork_server.process.pid, *children(minders._fork_server.process.pid)):
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == Path("/proc/self/oom_score_adj").read_text()


# Runs

GROW = """
import sys, time
megabytes, steps, gate = int(sys.argv[1]), 10, sys.argv[2:]
held = []
for _ in range(steps):
    held.append(bytearray(b"1") * (megabytes * 10**6 // steps))
    time.sleep(0.05)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "grow.py").write_text(GROW)
    return Place(folder)


def growing(count: int, megabytes: int) -> str:
    return "".join(f"{sys.executable} -IS grow.py {megabytes} {number}\n" for number in range(count))


def test_a_task_outgrows_its_allocation_and_the_journal_tells_why(place: Place) -> None:
    place.write("w.txt", growing(1, 300))
    said = place.call("run", "w.txt", "--machine", "cores=4,memory=800MB", "--explain")
    assert said.status == 0, said.stderr
    assert "grow.py 300 0: grow: outgrew 150 MB: " in said.stderr
    assert "unused" in place.runs()[0].log.read_text()
    (row,) = place.rows()
    assert row.allocated.memory == 150 * MB
    assert row.grew_to is not None
    assert row.grew_to >= 300 * MB
    assert row.held.memory is not None
    assert 150 * MB < row.held.memory < row.grew_to
    with closing(Reader(place.runs()[0].journal)) as journal:
        reasons = journal.read("SELECT reason FROM adjustments WHERE action = 'grow' ORDER BY at")
    assert reasons[0][0].startswith("outgrew 150 MB: ")
    told = "attempts: 1 outgrew the allocated memory"
    assert told in said.stdout.splitlines()
    assert told in place.call("status", place.runs()[0].id).stdout
    assert place.call("report", "last").status == 0
    assert told.capitalize() in (place.folder / "report.html").read_text()


def test_the_papers_rule_kills_at_the_allocation(place: Place) -> None:
    place.write("w.txt", growing(1, 300))
    assert place.call("run", "w.txt", "--machine", "cores=4,memory=800MB", "--enforce", "strict").status == 0
    assert [row.outcome for row in place.rows()] == [Outcome.EXHAUSTED, Outcome.DONE]


def test_tasks_that_together_need_more_than_the_machine_are_all_done(place: Place) -> None:
    place.write("w.txt", growing(6, 300))
    said = place.call("run", "w.txt", "--machine", "cores=6,memory=1GB")
    assert said.status == 0, said.stderr
    rows = place.rows()
    assert {row.outcome for row in rows} <= {Outcome.DONE, Outcome.EXHAUSTED, Outcome.PREEMPTED}
    assert sum(row.outcome is Outcome.DONE for row in rows) == 6


def test_the_simulation_tells_what_happens(place: Place) -> None:
    """The same engine decides: as many tasks start at once, with as much; all outgrow that, and are done."""
    place.write("w.txt", growing(5, 300))
    assert place.call("run", "w.txt", "--machine", "cores=4,memory=1200MB").status == 0
    rows = place.rows()
    tasks = tuple(Task(f"{number}", category=rows[0].category) for number in range(5))
    needs = {one: np.full(5, amount) for one, amount in zip(SHARED, (1.0, 310.0 * MB, 0.0), strict=True)}
    load = Load(tasks, needs, np.full(5, 0.6), np.full(5, nan))
    found = play(load, [Machine(4.0, 1200.0 * MB)], "auto", growth=Growth())
    blind = [row for row in rows if not row.decisions[1].samples and row.number == 1]
    assert len(blind) == (found.start == 0).sum() > 1
    assert {row.allocated.memory for row in blind} == {225 * MB}
    assert all(found.given[Resource.MEMORY][found.start == 0] > 225 * MB)
    assert sum(row.outcome is Outcome.DONE for row in rows) == found.done.sum() == 5


def test_a_task_that_needs_more_than_the_machine_fails(place: Place) -> None:
    place.write("w.txt", growing(1, 700))
    said = place.call("run", "w.txt", "--machine", "cores=1,memory=400MB")
    assert said.status == 1
    assert "needs more memory than is available" in said.stdout + said.stderr


def test_a_run_that_is_killed_goes_on_with_what_a_task_had_grown_to(place: Place) -> None:
    place.write(
        "hold.py",
        "import os, time; held = bytearray(b'1') * 300_000_000; os.path.exists('go') or time.sleep(999)",
    )
    place.write("w.txt", f"{sys.executable} -IS hold.py\n")
    with place.begin("run", "w.txt", "--machine", "cores=4,memory=800MB") as process:
        until(lambda: place.runs() and any((row.grew_to or 0) > 300 * MB for row in place.rows()))
        process.send_signal(signal.SIGKILL)
        process.wait()
    (place.folder / "go").touch()
    assert place.call("run", "w.txt", "--machine", "cores=4,memory=800MB").status == 0
    first, last = place.rows()
    assert first.grew_to is not None
    assert last.allocated.memory is not None
    assert last.allocated.memory >= 300 * MB


HOLD = """
import os, sys, time
held = []
while len(held) < 48:
    held.append(b"1" * 10_000_000)
    time.sleep(0.03)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


@contextmanager
def one_paused(place: Place, *options: str) -> Iterator[tuple[Begun, str]]:
    """Begin a run of two tasks that cannot have all the memory at once: one is paused for the last part of it."""
    gate = place.folder / "go"
    place.write("hold.py", HOLD)
    place.write("w.txt", "".join(f"{sys.executable} -IS {place.folder}/hold.py {gate} {n}\n" for n in range(2)))
    with place.begin("run", "w.txt", "--machine", "cores=4,memory=1GB", *options) as process:
        until(lambda: place.runs() and any((row.grew_to or 0) > 480 * MB for row in place.rows()))
        until(lambda: states(str(gate)) >= {b"T"})
        with closing(Reader(place.runs()[0].journal)) as journal:
            token = journal.facts()["token"]
        yield process, token


def paused_task(gate: Path) -> int:
    """Return the process of the paused task."""
    found = (Process.of(int(folder.name)) for folder in marked_folders(str(gate)))
    return next(one.pid for one in found if one is not None and one.state == b"T")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("options", [(), ("--sandbox",)], ids=["in place", "sandbox"])
@pytest.mark.parametrize("victim", ["engine", "fork server", "minder", "task"])
def test_whatever_is_killed_while_one_task_has_grown_and_another_is_paused(
    place: Place, victim: str, options: tuple[str, ...]
) -> None:
    gate = place.folder / "go"
    with one_paused(place, *options) as (process, token):
        task = paused_task(gate)
        minder = parent(task)
        kill({"engine": process.pid, "fork server": parent(minder), "minder": minder, "task": task}[victim])
        until(lambda: task not in marked(token))
        if victim == "engine":
            process.wait()
            until(lambda: not marked(token))
        gate.touch()
        if victim != "engine":
            assert process.wait(HANGS) == 0
    if victim == "engine":
        said = place.call("run", "w.txt", "--machine", "cores=4,memory=1GB", *options)
        assert said.status == 0, said.stderr
    place.check("w.txt")
    assert not marked(token)
    outcomes = [row.outcome for row in place.rows()]
    assert outcomes.count(Outcome.DONE) == 2
    assert outcomes.count(Outcome.LOST) == {"engine": 2, "fork server": 2, "minder": 1, "task": 1}[victim]


@pytest.mark.parametrize("how", ["finish", "now"])
def test_a_run_can_be_stopped_while_a_task_is_paused(place: Place, how: str) -> None:
    with one_paused(place) as (process, token):
        if how == "finish":
            assert place.call("stop", "--no-wait").status == 0
            (place.folder / "go").touch()
        else:
            assert place.call("stop", "--now").status == 0
        assert process.wait(HANGS) == (0 if how == "finish" else 143)  # then nothing is left to do
    assert not marked(token)
    done = [row.outcome is Outcome.DONE for row in place.rows()]
    assert done == [how == "finish"] * 2


@pytest.mark.parametrize("enforce", ["strict", "elastic"])
def test_a_resumed_run_knows_for_its_other_tasks_that_one_needed_more(place: Place, enforce: str) -> None:
    place.write("hold.py", HOLD)
    gate = place.folder / "go"
    place.write("w.txt", "".join(f"{sys.executable} -IS hold.py {gate} {number}\n" for number in range(3)))
    words = "run", "w.txt", "--machine", "cores=4,memory=1600MB", "--enforce", enforce
    with place.begin(*words, "-j", "1") as process:
        until(lambda: place.runs() and any(row.outcome or (row.grew_to or 0) > 480 * MB for row in place.rows()))
        kill(process.pid)
        process.wait()
    gate.touch()
    assert place.call(*words).status == 0
    rows = place.rows()
    assert rows[0].line == 1
    others = [row for row in rows if row.line != 1]
    assert [row.outcome for row in others] == [Outcome.DONE] * 2
    assert all((row.allocated.memory or 0) > 400 * MB for row in others), "a core's share of the machine"


def test_batch_jobs_of_single_tasks_cannot_grow(place: Place) -> None:
    place.write("w.txt", "true\n")
    said = place.call("run", "w.txt", "--on", "slurm", "--enforce", "elastic")
    assert said.status == 2
    assert "--pack" in said.stderr


# Inside a control group with a limit


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Create memory control groups (version 1) with limits."""
    made: list[Path] = []

    def make(limit: int) -> Path:
        home = Path("/sys/fs/cgroup/memory")
        ours = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        mine = next((group for _, controllers, group in ours if controllers == "memory"), None)
        if mine is None or os.geteuid() != 0:
            pytest.skip("needs root and a memory control group of version 1")
        folder = home / mine.lstrip("/") / f"tonnage-test-{tmp_path.name}-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / "memory.limit_in_bytes").write_text(str(limit))
        except OSError as error:
            pytest.skip(f"a control group cannot be made here: {error}")
        made.append(folder)
        return folder

    yield make
    for folder in made:
        until(lambda folder=folder: not (folder / "cgroup.procs").read_text().strip())  # type: ignore[misc]
        until(lambda folder=folder: folder.rmdir() is None)  # type: ignore[misc]


def inside(group: Path) -> Callable[[], None]:
    """Return what a new process does to enter a group."""

    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    return enter


def kills_in(group: Path) -> int:
    words = (group / "memory.oom_control").read_text().split()
    return int(words[words.index("oom_kill") + 1])


def test_a_workload_that_grows_late_ends_complete_inside_a_limited_group(
    place: Place, limited: Callable[[int], Path]
) -> None:
    group = limited(700 * 2**20)
    place.write("w.txt", growing(6, 220))
    said = place.call("run", "w.txt", "--machine", "cores=6", preexec_fn=inside(group))
    assert said.status == 0, said.stderr
    rows = place.rows()
    assert sum(row.outcome is Outcome.DONE for row in rows) == 6
    # On a busy machine the kernel may come first; then it takes a task, never the engine or the monitor.
    assert kills_in(group) == sum("killed by the kernel" in row.note for row in rows)


def test_the_same_beside_a_greedy_neighbour(place: Place, limited: Callable[[int], Path]) -> None:
    """It takes what tasks have not used yet while they run, and leaves room for the largest one and the reserve."""
    group = limited(700 * 2**20)
    place.write("w.txt", growing(6, 220))
    place.write("greedy.py", HOLD.replace("48", "25"))  # 250 MB
    gate = place.folder / "go"
    words = [sys.executable, "-IS", f"{place.folder}/greedy.py", str(gate)]
    options = {"stdout": DEVNULL, "stderr": DEVNULL, "preexec_fn": inside(group)}
    with place.begin("run", "w.txt", "--machine", "cores=6", **options) as process:
        until(lambda: place.runs() and len(place.rows()) > 0)
        with Begun(words, preexec_fn=inside(group)) as neighbour:
            assert process.wait(HANGS) == 0
            gate.touch()
            assert neighbour.wait(HANGS) == 0, "it lives"
    rows = place.rows()
    assert sum(row.outcome is Outcome.DONE for row in rows) == 6
    assert {row.outcome for row in rows} <= {Outcome.DONE, Outcome.EXHAUSTED, Outcome.PREEMPTED}
    assert kills_in(group) == sum("killed by the kernel" in row.note for row in rows)


def test_a_task_that_the_kernel_kills_for_memory_ran_out_of_it(place: Place, limited: Callable[[int], Path]) -> None:
    group = limited(300 * 2**20)
    place.write("w.txt", f'{sys.executable} -ISc "b = bytearray(10**9)"\n')
    said = place.call("run", "w.txt", "--machine", "cores=1,memory=1GB", preexec_fn=inside(group))
    assert said.status == 1
    assert kills_in(group) > 0
    assert {row.outcome for row in place.rows()} == {Outcome.EXHAUSTED}
    assert "killed by the kernel" in place.rows()[0].note


def test_so_did_a_task_that_fails_because_the_kernel_killed_one_of_its_processes(
    place: Place, limited: Callable[[int], Path]
) -> None:
    group = limited(300 * 2**20)
    place.write("w.txt", f"sh -c '{sys.executable} -ISc \"b = bytearray(10**9)\" || exit 3'\nsh -c 'exit 3'\n")
    assert place.call("run", "w.txt", "--machine", "cores=1,memory=1GB", preexec_fn=inside(group)).status == 1
    outcomes = {(row.line, row.outcome) for row in place.rows()}
    assert outcomes == {(1, Outcome.EXHAUSTED), (2, Outcome.FAILED)}
