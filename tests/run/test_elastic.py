"""Elastic memory: tasks outgrow their allocations while there is room, pause before one is stopped; none starves."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.run.cli_runs import Place
from tests.run.test_engine import engine_of
from tests.waiting import until
from tonnage.jobs import Amounts, Outcome, Resource
from tonnage.run.elastic import as_grown, report_step, resized
from tonnage.run.engine import Engine
from tonnage.run.events import Action, Ended, Rules, Start, State
from tonnage.run.journal import Reader
from tonnage.run.machines import Machine
from tonnage.run.minders import Answer, Minders, Order, Seen
from tonnage.run.this_machine import SystemMemory, this_machine
from tonnage.watch.proc import Process, children
from tonnage.workflow import Task

MB = 10**6
TICK = 0.05
MEMORY = 1024.0 * MB
FLOOR = MEMORY / 128  # of the machine that always stays free, if growth is bounded as it is here


@dataclass
class Growing:
    """A task of the model: its memory rises evenly until half of its time."""

    start: Start
    need: float
    seconds: float
    began: float
    done: float = 0.0
    paused: bool = False

    @property
    def used(self) -> float:
        return self.need * min(1.0, self.done / (self.seconds / 2))


@dataclass
class Neighbour:
    """Another program, whose memory rises evenly at some time, and falls as evenly later."""

    most: float
    begins: float
    ends: float
    rate: float = FLOOR / (4 * TICK)

    def used(self, now: float) -> float:
        rises, falls = (max(0.0, now - moment) * self.rate for moment in (self.begins, self.ends))
        return max(0.0, min(self.most, rises) - falls)


class Model:
    """Runs an engine's tasks in small steps of time, and checks its promises at every step."""

    def __init__(self, engine: Engine, needs: list[tuple[float, float]], neighbour: Neighbour | None = None) -> None:
        self.engine = engine
        self.needs = needs
        self.neighbour = neighbour
        self.running: dict[int, Growing] = {}
        self.now = 0.0
        self.stopped = 0

    def go(self) -> None:
        self.look()
        self.admit()
        for _ in range(200_000):
            if not self.running:
                return
            self.step()
        raise AssertionError("a task starves")

    def step(self) -> None:
        self.now += TICK
        for one in list(self.running.values()):
            one.done += 0.0 if one.paused else TICK
            if one.done >= one.seconds:
                self.end(one, Outcome.DONE, one.need)
            else:
                self.engine.saw(one.start.attempt, one.used, one.done)
        used = self.look()
        assert used <= MEMORY - FLOOR or len(self.running) == 1, f"{used / MB:.0f} MB used"
        self.adjust()
        assert not self.running or not all(one.paused for one in self.running.values())
        self.admit()

    def look(self) -> float:
        """Return what is used of the machine, after telling the engine what is left."""
        used = sum(one.used for one in self.running.values())
        if self.neighbour is not None:
            used += self.neighbour.used(self.now)
            self.engine.available(0, MEMORY - used)
        return used

    def adjust(self) -> None:
        while changes := self.engine.adjust(self.now):
            for change in changes:
                one = self.running[change.attempt]
                if change.action is Action.STOP:
                    self.stopped += 1
                    self.end(one, self.engine.stopped_as(change.attempt) or Outcome.LOST, one.used)
                elif change.action is not Action.GROW:
                    one.paused = change.action is Action.PAUSE

    def admit(self) -> None:
        starts = self.engine.admit(self.now)
        for start in starts:
            self.running[start.attempt] = Growing(start, *self.needs[start.task], self.now)
        claims = sum(one.need[1] for one in self.engine.running.values() if one.need)
        assert not starts or claims <= MEMORY, f"claims of {claims / MB:.0f} MB at admission"

    def end(self, one: Growing, outcome: Outcome, memory: float) -> None:
        del self.running[one.start.attempt]
        exhausted = Resource.MEMORY if outcome is Outcome.EXHAUSTED else None
        used = Amounts.of(cores=1, memory=memory, wall_time=one.done)
        self.engine.ended(Ended(attempt=one.start.attempt, outcome=outcome, exhausted=exhausted, used=used))


@st.composite
def bounded(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Return tasks with a need and a time, so long that at most 8 of them grow by FLOOR in a step."""
    needs = draw(st.lists(st.floats(5, 1023), min_size=1, max_size=25))
    slower = draw(st.floats(1, 3))
    return [(need * MB, slower * 2 * need * MB * 8 * TICK / FLOOR + TICK) for need in needs]


@given(bounded(), st.sampled_from(["auto", "max-seen", "whole-machine"]))
@settings(max_examples=40, deadline=None)
def test_claims_fit_use_stays_below_the_floor_and_all_is_done(needs: list[tuple[float, float]], strategy: str) -> None:
    tasks = [Task(f"{number}", category="ab"[number % 2]) for number in range(len(needs))]
    engine = engine_of(tasks, [Machine(8, MEMORY)], strategy, rules=Rules(elastic=True))
    model = Model(engine, needs)
    model.go()
    assert engine.counts[State.DONE] == len(needs)
    assert engine._room.find((8.0, MEMORY, 0.0)) == 0, "the machine is empty again"


@given(bounded(), st.floats(0, 100), st.floats(0, 500), st.sampled_from(["auto", "whole-machine"]))
@settings(max_examples=40, deadline=None)
def test_the_same_beside_a_greedy_neighbour_that_leaves_room_for_the_largest_task(
    needs: list[tuple[float, float]], begins: float, lasts: float, strategy: str
) -> None:
    tasks = [Task(f"{number}", category="ab"[number % 2]) for number in range(len(needs))]
    engine = engine_of(tasks, [Machine(8, MEMORY)], strategy, rules=Rules(elastic=True))
    most = max(0.0, MEMORY * 7 / 8 - max(need for need, _ in needs))  # the reserve is at most an eighth
    Model(engine, needs, Neighbour(most, begins, begins + lasts)).go()
    assert engine.counts[State.DONE] == len(needs)


def test_the_last_task_continues_although_it_uses_what_should_stay_free() -> None:
    tasks = [Task(f"{number}", category="some") for number in range(2)]
    engine = engine_of(tasks, [Machine(8, MEMORY)], rules=Rules(elastic=True))
    small, large = (start.attempt for start in engine.admit(0.0))
    engine.saw(small, 10 * MB, 1.0)
    engine.saw(large, MEMORY - 50 * MB, 1.0)
    assert (large, Action.PAUSE) in [(one.attempt, one.action) for one in engine.adjust(1.0)]
    engine.ended(Ended(attempt=small, outcome=Outcome.DONE, used=Amounts.of(memory=10 * MB)))
    assert [(one.attempt, one.action) for one in engine.adjust(2.0)] == [(large, Action.RESUME)]


def test_tasks_that_all_grow_late_to_more_than_the_machine_has_are_all_done() -> None:
    needs = [(600.0 * MB, 100.0)] * 8
    tasks = [Task(f"{number}", category="late") for number in range(8)]
    model = Model(engine_of(tasks, [Machine(8, MEMORY)], rules=Rules(elastic=True)), needs)
    model.go()
    assert model.engine.counts[State.DONE] == 8
    assert model.stopped > 0


def test_tasks_whose_authors_requested_all_of_the_machine_are_never_paused() -> None:
    tasks = [Task(f"{number}", request=Amounts.of(cores=1, memory=256 * 1024 * 1000)) for number in range(4)]
    needs = [(256.0 * 1024 * 1000 * 0.999, 100.0)] * 4
    engine = engine_of(tasks, [Machine(4, 4 * 256 * 1024 * 1000.0)], "declared", rules=Rules(elastic=True))
    running = engine.admit(0.0)
    assert len(running) == 4
    for start in running:
        engine.saw(start.attempt, needs[start.task][0], 1.0)
    assert engine.adjust(1.0) == []


def test_when_other_programs_take_the_memory_nothing_starts_then_tasks_pause_and_the_last_one_stays() -> None:
    tasks = [Task(f"{number}", category="some") for number in range(12)]
    engine = engine_of(tasks, [Machine(4, MEMORY)], rules=Rules(elastic=True))
    running = engine.admit(0.0)
    for start in running:
        engine.saw(start.attempt, 60 * MB, 1.0)
    engine.available(0, MEMORY / 8)
    assert list(engine.adjust(1.0)) == [], "there is still enough for those that run"
    first = running[0]
    engine.ended(Ended(attempt=first.attempt, outcome=Outcome.DONE, used=Amounts.of(memory=60 * MB)))
    assert engine.admit(1.1) == []
    for start in running[1:]:
        engine.saw(start.attempt, 70 * MB, 2.0)
    engine.available(0, 0)
    actions = [change.action for change in engine.adjust(2.0)]
    assert Action.PAUSE in actions
    assert actions.count(Action.STOP) == 1
    stopped = [start for start in running[1:] if engine.stopped_as(start.attempt)]
    assert stopped == running[-1:], "the youngest"
    assert [engine.stopped_as(one.attempt) for one in stopped] == [Outcome.PREEMPTED], "it was within its allocation"


def test_paused_tasks_resume_one_after_the_other_as_room_for_their_growth_comes() -> None:
    tasks = [Task(f"{number}", category="some") for number in range(8)]
    engine = engine_of(tasks, [Machine(8, MEMORY)], rules=Rules(elastic=True))
    running = [start.attempt for start in engine.admit(0.0)]
    paused: set[int] = set()
    for step, used in enumerate((100, 129, 138, 142, 144, 146), 1):
        for attempt in set(running) - paused:
            engine.saw(attempt, used * MB, float(step))
            paused |= {one.attempt for one in engine.adjust(float(step)) if one.action is Action.PAUSE}
    assert len(paused) >= 5
    assert len(paused) < len(running), "one always continues"
    for attempt in set(running) - paused:
        engine.ended(Ended(attempt=attempt, outcome=Outcome.DONE, used=Amounts.of(memory=130 * MB)))
    resumed: list[int] = []
    for step in range(7, 10):
        resumed += [one.attempt for one in engine.adjust(float(step)) if one.action is Action.RESUME]
        assert len(resumed) == 1, "they are alike: together they would fill the room at once"
        engine.saw(resumed[0], (140 + step) * MB, float(step))


def test_the_next_attempt_starts_above_what_was_seen_and_a_grown_one_with_what_it_held() -> None:
    engine = engine_of([Task("a")], [Machine(4, MEMORY)], rules=Rules(elastic=True))
    (start,) = engine.admit(0.0)
    (memory,) = [one for one in start.decisions if one.resource is Resource.MEMORY]
    again = resized(start.decisions, memory.amount * 2)
    assert again is not None
    (larger,) = [one for one in again if one.resource is Resource.MEMORY]
    assert memory.amount * 2 < larger.amount < memory.amount * 3
    assert larger.ladder == tuple(sorted(larger.ladder))
    assert larger.ladder[-1] == memory.ladder[-1]
    assert resized(start.decisions, MEMORY) is None
    (kept,) = [one for one in as_grown(start.decisions, memory.amount * 2) if one.resource is Resource.MEMORY]
    assert kept.amount == pytest.approx(memory.amount * 2, rel=1e-6)


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


def test_there_is_memory_left_and_less_than_the_machine_has(tmp_path: Path) -> None:
    memory = SystemMemory()
    assert 0 < memory.available() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert not memory.explains_end(time.time(), killed=True)
    assert this_machine(tmp_path).memory < inf


class Group:
    """The files of a control group of version 2."""

    def __init__(self, folder: Path, *, limit: str = "max", high: str = "max") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.write(**{"memory.max": limit, "memory.high": high, "memory.current": "0", "memory.stat": ""})
        self.kills(0)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(f"{text}\n")

    def kills(self, count: int) -> None:
        self.write(**{"memory.events": f"oom {count}\noom_kill {count}"})

    def stalls(self, seconds: float) -> None:
        full = f"full avg10=0.00 avg60=0.00 avg300=0.00 total={seconds * 1e6:.0f}"
        self.write(**{"memory.pressure": f"some avg10=0.00 avg60=0.00 avg300=0.00 total=99\n{full}"})


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Group]]]:
    """Make control groups of version 2, the innermost first, and put this process into them."""

    def make(*options: dict[str, str]) -> list[Group]:
        made = [Group(tmp_path / f"group{number}", **own) for number, own in enumerate(options)]
        monkeypatch.setattr("tonnage.run.this_machine._cgroups", lambda: [one.folder for one in made])
        return made

    return make


def test_the_smallest_limit_of_all_groups_around_us_counts_and_page_cache_is_not_use(
    groups: Callable[..., list[Group]], tmp_path: Path
) -> None:
    inner, outer = groups({"limit": f"{800 * MB}"}, {"limit": f"{500 * MB}"})
    assert this_machine(tmp_path).memory == pytest.approx(475 * MB)
    memory = SystemMemory()
    inner.write(**{"memory.current": f"{300 * MB}"})
    outer.write(**{"memory.current": f"{300 * MB}"})
    assert memory.available() == 200 * MB
    cache = f"inactive_file {150 * MB}\nactive_file {50 * MB}\nslab_reclaimable {10 * MB}"
    outer.write(**{"memory.stat": f"anon {20 * MB}\nshmem {70 * MB}\n{cache}"})
    assert memory.available() == 410 * MB, "what is on a tmpfs is use"
    inner.write(**{"memory.high": f"{350 * MB}"})
    assert SystemMemory().available() == 50 * MB
    assert this_machine(tmp_path).memory < 350 * MB


def test_without_word_about_pressure_there_is_none_and_short_waits_mean_nothing(
    groups: Callable[..., list[Group]],
) -> None:
    (group,) = groups({"limit": f"{500 * MB}"})
    assert SystemMemory().available() == 500 * MB
    group.stalls(3)
    memory = SystemMemory()
    assert memory.available() == 500 * MB
    group.stalls(3.1)
    assert memory.available() == 500 * MB
    group.stalls(10_000)
    assert memory.available() == 0
    assert memory.available() == 500 * MB, "it was said"


def test_a_kill_by_the_kernel_explains_one_end(groups: Callable[..., list[Group]]) -> None:
    (group,) = groups({})
    group.kills(3)
    memory, began = SystemMemory(), time.time()
    assert not memory.explains_end(began, killed=True), "that was before"
    group.kills(5)
    assert memory.explains_end(began, killed=True)
    assert not memory.explains_end(time.time() + 60, killed=True), "it began after that"
    assert memory.explains_end(began, killed=False)
    assert not memory.explains_end(began, killed=True)


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
    said = place.call("run", "w.txt", "--machine", "cores=4,memory=800MB")
    assert said.status == 0, said.stderr
    (row,) = place.rows()
    assert row.allocated.memory == 200 * MB
    assert row.grew_to is not None
    assert row.grew_to >= 300 * MB
    assert row.held.memory is not None
    assert 200 * MB < row.held.memory < row.grew_to
    with closing(Reader(place.runs()[0].journal)) as journal:
        reasons = journal.read("SELECT reason FROM adjustments WHERE action = 'grow' ORDER BY at")
    assert reasons[0][0].startswith("outgrew 200 MB: ")
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
