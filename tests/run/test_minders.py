"""The pool of minders: real processes, some of which are killed."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.deadlines import HANGS
from tests.processes import is_alive, with_argument, with_variable
from tests.run.cli_runs import kill
from tests.waiting import until
from tonnage.jobs import Resource
from tonnage.run.minders import Answer, Minders, Order, Seen, forget_results, left_results
from tonnage.watch.proc import children

PYTHON = sys.executable
FOREVER = "until [ -e go ]; do sleep 0.02; done"


@pytest.fixture
def minders(tmp_path: Path) -> Iterator[Minders]:
    with Minders(tmp_path / "engine") as pool:
        yield pool


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., Order]:
    def make(attempt: int, *words: str, **options: object) -> Order:
        out, err = str(tmp_path / f"{attempt}.out"), str(tmp_path / f"{attempt}.err")
        given = {"folder": str(tmp_path), "stdout": out, "stderr": err, "executable": words[0], **options}
        return Order(attempt, words, **given)  # type: ignore[arg-type]

    return make


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A variable for the environment of tasks, by which they are found; none of them outlives the test."""
    yield f"MARK={tmp_path}\0"
    for pid in with_variable(f"MARK={tmp_path}\0"):
        kill(pid)


@pytest.fixture
def marked(tmp_path: Path) -> dict[str, object]:
    """What an order is given so that its processes are found."""
    return {"environment": {"MARK": str(tmp_path)}}


def finish(minders: Minders) -> dict[int, Answer]:
    """Wait until nothing runs."""
    answers: dict[int, Answer] = {}
    deadline = time.monotonic() + HANGS
    while minders.running:
        assert time.monotonic() < deadline, f"{minders.running} still run"
        for answer in minders.wait(1):
            if isinstance(answer, Answer):
                assert answer.attempt not in answers
                answers[answer.attempt] = answer
    return answers


def sh(script: str) -> tuple[str, str, str]:
    return "/bin/sh", "-c", script


def fork_server_of(minders: Minders) -> int:
    assert minders._fork_server is not None
    return minders._fork_server.process.pid


def open_files(pid: int | str = "self") -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def minder_of(mark: str, minders: Minders) -> int:
    """Return the minder of the task with a mark."""
    until(lambda: with_variable(mark))
    (minder,) = (pid for pid in children(fork_server_of(minders)) if set(children(pid)) & set(with_variable(mark)))
    return minder


@pytest.mark.parametrize("count", [800, pytest.param(3000, marks=pytest.mark.long)])
def test_many_short_tasks(count: int, minders: Minders, order: Callable[..., Order]) -> None:
    at_once, started, answers = 8, 8, 0
    minders.start(order(attempt, "/bin/true") for attempt in range(at_once))
    descriptors: list[int] = []
    while answers < count:
        found = minders.wait(HANGS)
        assert all(isinstance(answer, Answer) and answer.status == 0 and not answer.notes for answer in found)
        answers += len(found)
        more = range(started, min(count, started + len(found)))
        started = more.stop
        minders.start(order(attempt, "/bin/true") for attempt in more)
        if answers > 100:
            descriptors.append(open_files())
    pool = children(fork_server_of(minders))
    assert len(pool) == at_once
    assert len(set(descriptors)) == 1
    assert len({open_files(pid) for pid in pool}) == 1


def test_what_is_measured(minders: Minders, order: Callable[..., Order], tmp_path: Path) -> None:
    take = (PYTHON, "-c", "import time; x = bytearray(100_000_000); open('f', 'wb').write(x); time.sleep(0.2)")
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    minders.start([order(1, *take, measured=str(one), folder=str(one)), order(2, *take, folder=str(other))])
    answers = finish(minders)
    for answer in answers.values():
        assert answer.status == 0
        assert answer.started is not None
        assert answer.ended is not None
        assert 0.2 < answer.used["wall_time"] == pytest.approx(answer.ended - answer.started)
        assert 100e6 < answer.used["memory"] < 130e6
        assert answer.used["bytes_written"] >= 100e6
        assert answer.used["total_processes"] == 1
    assert answers[1].used["disk"] >= 100e6
    assert "disk" not in answers[2].used


def test_limits_are_enforced(minders: Minders, order: Callable[..., Order]) -> None:
    grow = "x = []\nimport time\nwhile True: x.append(bytearray(1_000_000)); time.sleep(0.001)"
    minders.start(
        [
            order(1, PYTHON, "-c", grow, limits={Resource.MEMORY: 100e6}),
            order(2, *sh("sleep 100 & sleep 100"), limits={"wall_time": 0.3}),
            order(3, "/bin/sleep", "0.2", limits={"wall_time": HANGS, "memory": 1e9}),
        ]
    )
    answers = finish(minders)
    assert answers[1].stopped_because == "limit"
    limit, value = answers[1].exceeded["memory"]
    assert 100e6 == limit < value
    assert list(answers[2].exceeded) == ["wall_time"]
    assert 0.3 < answers[2].used["wall_time"] < 100
    assert (answers[3].status, answers[3].stopped_because, answers[3].exceeded) == (0, None, {})


def test_outputs_go_where_they_are_wanted(minders: Minders, order: Callable[..., Order], tmp_path: Path) -> None:
    for attempt, script in enumerate(["echo out", "echo err >&2", "true", "echo both; echo two >&2; exit 3"]):
        minders.start([order(attempt, *sh(script))])
        (answer,) = finish(minders).values()
        wanted = [str(tmp_path / f"{attempt}.{name}") for name in ("out", "err")]
        expected = [[wanted[0], None], [None, wanted[1]], [None, None], wanted][attempt]
        assert [answer.stdout, answer.stderr] == expected
        assert answer.notes == []
    assert (tmp_path / "0.out").read_text() == "out\n"
    assert (tmp_path / "3.err").read_text() == "two\n"
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["0.out", "1.err", "3.err", "3.out"]


def test_an_output_that_cannot_be_moved_is_kept(minders: Minders, order: Callable[..., Order], tmp_path: Path) -> None:
    minders.start([order(1, *sh("echo out"), stdout=str(tmp_path / "missing" / "out"))])
    (answer,) = finish(minders).values()
    assert answer.status == 0
    assert "No such file" in answer.notes[0]
    assert Path(answer.stdout or "").read_text() == "out\n"
    elsewhere = Path("/dev/shm", f"tonnage-test-{os.getpid()}")
    minders.start([order(2, *sh("echo again"), stdout=str(elsewhere))])
    (answer,) = finish(minders).values()
    assert Path(answer.stdout or "").read_text() == "again\n"
    elsewhere.unlink(missing_ok=True)


def test_what_cannot_be_started_is_told(minders: Minders, order: Callable[..., Order]) -> None:
    minders.start(
        [
            order(1, "/no/such/program"),
            order(2, "/bin/true", folder="/no/such/folder"),
            order(3, "/bin/true", "zero\0byte"),
            order(4, "/bin/true", environment={"BIG": "x" * 300_000}),
            order(5, "/bin/true"),
        ]
    )
    answers = finish(minders)
    assert all(answers[attempt].status is None and not answers[attempt].lost for attempt in (1, 2, 3, 4))
    assert "No such file" in (answers[1].error or "")
    assert "/no/such/folder" in (answers[2].error or "")
    assert "null" in (answers[3].error or "")
    assert "too long" in (answers[4].error or "")
    assert (answers[5].status, answers[5].error) == (0, None)
    minders.start([order(attempt, "/bin/true") for attempt in range(6, 10)])
    assert all(answer.status == 0 for answer in finish(minders).values())


def test_large_orders(minders: Minders, order: Callable[..., Order], tmp_path: Path) -> None:
    words = ["x" * 50_000] * 20
    environment = {f"V{number}": "y" * 50_000 for number in range(10)}
    script = "import os, sys; print(sum(map(len, sys.argv[1:])), len(os.environ['V9']))"
    minders.start(order(attempt, PYTHON, "-c", script, *words, environment=environment) for attempt in range(4))
    assert all(answer.status == 0 for answer in finish(minders).values())
    assert (tmp_path / "3.out").read_text() == "1000000 50000\n"


def test_a_task_is_alone(minders: Minders, order: Callable[..., Order], tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        script = (
            "import os; fds = os.listdir('/proc/self/fd'); "
            "links = {fd: os.path.basename(os.readlink(f'/proc/self/fd/{fd}')) for fd in '012'}; "
            "print(len(fds), links, os.getpgrp() == os.getpid(), os.getsid(0), os.getcwd(), os.environ['OWN'])"
        )
        minders.start([order(1, PYTHON, "-c", script, environment={"OWN": "Grüße \udcff"})])
        finish(minders)
    said = (tmp_path / "1.out").read_bytes().decode(errors="surrogateescape").strip()
    links = {"0": "null", "1": "1.out", "2": "1.err"}
    # The fourth descriptor is the one with which it reads the folder.
    assert said == f"4 {links} True {fork_server_of(minders)} {tmp_path} Grüße \udcff"
    assert fork_server_of(minders) != os.getsid(0)


def test_held_descriptors_are_held_until_the_end(tmp_path: Path, order: Callable[..., Order]) -> None:
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    minders = Minders(tmp_path / "engine", held=[lock])
    minders.start([order(1, *sh("ls /proc/self/fd | wc -l"))])
    finish(minders)
    assert int((tmp_path / "1.out").read_text()) == 4
    os.close(lock)

    def free() -> bool:
        with (tmp_path / "lock").open() as again:
            try:
                fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    assert not free()
    minders.close()
    assert free()


def test_a_running_task_is_seen_and_can_be_stopped(
    minders: Minders, order: Callable[..., Order], mark: str, marked: dict[str, object]
) -> None:
    minders.start([order(1, *sh("sleep 100 & sleep 100"), **marked), order(2, "/bin/true")])
    news: list[Answer | Seen] = []
    while len({one.attempt for one in news}) < 2:
        news += minders.wait(HANGS)
    seen = next(one for one in news if isinstance(one, Seen) and one.attempt == 1)
    assert seen.seconds > 0.4
    assert (seen.memory or 0) > 0
    assert seen.disk is None
    minders.stop(2)  # it has ended
    minders.stop(1)
    (answer,) = finish(minders).values()
    assert (answer.attempt, answer.stopped_because, answer.lost) == (1, "cancelled", False)
    assert with_variable(mark) == []
    minders.start([order(3, "/bin/sleep", "100")])
    minders.stop(3)
    assert finish(minders)[3].stopped_because == "cancelled"


def test_a_caller_can_be_woken(minders: Minders) -> None:
    assert minders.wait(None) == []  # nothing runs
    reader, writer = os.pipe()
    minders.watch_also(reader)
    begin = time.monotonic()
    assert minders.wait(0.2) == []
    assert time.monotonic() - begin >= 0.19
    os.write(writer, b"x")
    assert minders.wait(None) == []
    os.close(reader)
    os.close(writer)


def test_a_killed_minder_is_lost_alone(
    minders: Minders, order: Callable[..., Order], mark: str, marked: dict[str, object], tmp_path: Path
) -> None:
    minders.start([order(number, *sh(FOREVER)) for number in range(3)])
    minders.start([order(3, *sh("setsid sleep 100 & (sleep 100 & sleep 100) & exec sleep 100"), **marked)])
    until(lambda: len(with_variable(mark)) >= 4)
    os.kill(minder_of(mark, minders), signal.SIGKILL)
    answer = until(lambda: next((one for one in minders.wait(HANGS) if isinstance(one, Answer)), None))
    assert (answer.attempt, answer.lost, answer.status) == (3, True, None)
    assert with_variable(mark) == []
    minders.start([order(4, "/bin/true")])
    (tmp_path / "go").touch()
    answers = finish(minders)
    assert sorted(answers) == [0, 1, 2, 4]
    assert all(answer.status == 0 and not answer.lost for answer in answers.values())
    assert len(children(fork_server_of(minders))) == 4


def test_a_minder_killed_while_idle_is_replaced(minders: Minders, order: Callable[..., Order]) -> None:
    for attempt in range(5):
        minders.start([order(attempt, "/bin/true")])
        assert finish(minders)[attempt].status == 0
        (minder,) = children(fork_server_of(minders))
        os.kill(minder, signal.SIGKILL)
        until(lambda: not children(fork_server_of(minders)))
        if attempt % 2:
            assert minders.wait(0.1) == []


def test_a_killed_fork_server_is_replaced(
    minders: Minders, order: Callable[..., Order], mark: str, marked: dict[str, object]
) -> None:
    minders.start([order(0, "/bin/true", **marked)])
    finish(minders)
    minders.start([order(number, *sh("sleep 100 & sleep 100"), **marked) for number in range(1, 4)])
    until(lambda: len(with_variable(mark)) == 9)
    old = fork_server_of(minders)
    pool = children(old)
    os.kill(old, signal.SIGKILL)
    answers = finish(minders)
    assert all(answer.lost and answer.stopped_because == "monitor killed" for answer in answers.values())
    assert sorted(answers) == [1, 2, 3]
    assert with_variable(mark) == []
    minders.start([order(number, "/bin/true") for number in range(4, 8)])
    assert all(answer.status == 0 for answer in finish(minders).values())
    assert fork_server_of(minders) != old
    until(lambda: not any(is_alive(pid) for pid in pool))


def test_a_stopped_minder_goes_on(
    minders: Minders, order: Callable[..., Order], mark: str, marked: dict[str, object], tmp_path: Path
) -> None:
    minders.start([order(1, *sh(FOREVER), **marked)])
    os.kill(minder_of(mark, minders), signal.SIGSTOP)
    (tmp_path / "go").touch()
    assert finish(minders)[1].status == 0


def test_fork_server_and_minder_killed_together(
    minders: Minders, order: Callable[..., Order], mark: str, marked: dict[str, object]
) -> None:
    minders.start([order(1, "/bin/sleep", "100", **marked)])
    minder = minder_of(mark, minders)
    os.kill(fork_server_of(minders), signal.SIGSTOP)
    os.kill(minder, signal.SIGKILL)
    os.kill(fork_server_of(minders), signal.SIGKILL)
    assert finish(minders)[1].lost
    minders.start([order(2, "/bin/true")])
    assert finish(minders)[2].status == 0


def test_closing_leaves_nothing(
    tmp_path: Path, order: Callable[..., Order], mark: str, marked: dict[str, object]
) -> None:
    before = open_files()
    minders = Minders(tmp_path / "engine")
    minders.start([order(number, *sh("setsid sleep 100 & exec sleep 100"), **marked) for number in range(3)])
    minders.start([order(3, "/bin/true")])
    until(lambda: len(with_variable(mark)) == 6)
    fork_server = fork_server_of(minders)
    pool = children(fork_server)
    minders.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in (fork_server, *pool))
    assert with_variable(mark) == []
    assert open_files() == before
    assert {answer.stopped_because for answer in left_results(tmp_path / "engine").values()} <= {"engine gone", None}
    assert not (tmp_path / "engine" / "slots").exists()


def test_words_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    assert left_results(tmp_path / "nowhere") == {}
    (tmp_path / "results").mkdir()
    whole = '{"attempt": 7, "status": 0, "stopped_because": null, "used": {"memory": 5}}'
    texts = {"7": whole, "8": whole, "9": whole[:30], "10": "", "11": "[]", "12": '{"other": 1}', ".tonnage-1": whole}
    for name, text in texts.items():
        (tmp_path / "results" / name).write_text(text)
    assert left_results(tmp_path) == {7: Answer(7, 0, used={"memory": 5})}
    forget_results(tmp_path)
    assert left_results(tmp_path) == {}


# An engine: says when it has begun, and which answers it has read, before it starts anything more.
BEGIN = """
import sys, time
from pathlib import Path
from tonnage.run.minders import Answer, Minders, Order
folder = Path(sys.argv[1])
def order(n, script):
    outputs = str(folder / "o"), str(folder / "e")
    return Order(n, ("sh", "-c", script), "/bin/sh", str(folder), *outputs, {"MARK": str(folder)})
minders = Minders(folder / "engine")
"""
# It runs short and longer tasks until it is killed.
ENGINE = """
def task(n):
    short = f"sleep 100 & sleep 0.0{n % 5}; echo {n} >> ended-{n}; kill $!"
    return order(n, short if n % 4 else "sleep 100 & sleep 100")
number = 6
minders.start(map(task, range(number)))
print("begun", flush=True)
while True:
    answers = [one for one in minders.wait(None) if isinstance(one, Answer)]
    for answer in answers:
        print(answer.attempt, flush=True)
    for answer in answers:
        if number < 300:
            minders.start([task(number if number % 4 else number + 1)])
            number += 2
"""


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (3, 4, 5))])
def test_no_task_outlives_a_killed_engine(tmp_path: Path, seed: int, mark: str) -> None:
    with subprocess.Popen([PYTHON, "-c", BEGIN + ENGINE, tmp_path], stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == "begun\n"
        time.sleep(Random(seed).uniform(0, 0.5))  # it may be at anything
        engine.kill()
        said = set(map(int, engine.communicate()[0].split()))
    nothing_lives(tmp_path, mark)
    ended = {int(path.name.removeprefix("ended-")) for path in tmp_path.glob("ended-*")}
    words = left_results(tmp_path / "engine")
    assert ended <= said | words.keys()
    assert all(not words[attempt].lost for attempt in words.keys() & said)
    assert all(answer.lost for attempt, answer in words.items() if attempt not in ended)
    assert all(words[attempt].stopped_because == "engine gone" for attempt in (0, 4))


# It reads two answers, starts one more task or not, and waits to be killed.
READER = """
minders.start([order(1, "true"), order(2, "true")])
answers = []
while len(answers) < 2:
    answers += [one for one in minders.wait(None) if isinstance(one, Answer)]
minders.start([order(3, "sleep 100")] if sys.argv[2:] else [])
print("read", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("more", [False, True])
def test_an_answer_is_kept_for_a_killed_engine_until_its_minder_gets_the_next_order(
    tmp_path: Path, more: bool, mark: str
) -> None:
    """So what `wait` has returned must be safe before `start` is called."""
    words = [PYTHON, "-c", BEGIN + READER, str(tmp_path), *(["more"] if more else [])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == "read\n"
        until(lambda: with_variable(mark) or not more)
        engine.kill()
    nothing_lives(tmp_path, mark)
    left = left_results(tmp_path / "engine")
    if not more:
        assert left.keys() == {1, 2}
        return
    assert len(left.keys() & {1, 2}) == 1
    assert left[3].stopped_because == "engine gone"


def nothing_lives(folder: Path, mark: str) -> None:
    """Wait until neither a task of a killed engine is left, nor its fork server, nor a minder."""
    until(lambda: not with_variable(mark))
    until(lambda: not with_argument(str(folder)))
