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

from tonnage.jobs import Resource
from tonnage.run.minders import Answer, Minders, Order, Seen, forget_words, last_words
from tonnage.watch.proc import Process, children, read

PYTHON = sys.executable


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


def finish(minders: Minders, seconds: float = 30) -> dict[int, Answer]:
    """Wait until nothing runs."""
    answers: dict[int, Answer] = {}
    deadline = time.monotonic() + seconds
    while minders.running:
        assert time.monotonic() < deadline, f"{minders.running} still run"
        for answer in minders.wait(1):
            if isinstance(answer, Answer):
                assert answer.attempt not in answers
                answers[answer.attempt] = answer
    return answers


def sh(script: str) -> tuple[str, str, str]:
    return "/bin/sh", "-c", script


def keeper_of(minders: Minders) -> int:
    assert minders._keeper is not None
    return minders._keeper.process.pid


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def open_files(pid: int | str = "self") -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def living(mark: str) -> list[int]:
    """Return the processes that live and have a mark in their environment."""
    return [pid for pid in processes() if f"MARK={mark}".encode() in (read(f"/proc/{pid}/environ") or b"").split(b"\0")]


def wait_until(true: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def minder_of(mark: str, minders: Minders) -> int:
    """Return the minder of the task with a mark."""
    wait_until(lambda: living(mark))
    (minder,) = (pid for pid in children(keeper_of(minders)) if set(children(pid)) & set(living(mark)))
    return minder


def test_thousands_of_short_tasks(minders: Minders, order: Callable[..., Order]) -> None:
    count, at_once, started, answers = 3000, 8, 8, 0
    minders.start(order(attempt, "/bin/true") for attempt in range(at_once))
    descriptors: list[int] = []
    while answers < count:
        found = minders.wait(30)
        assert all(isinstance(answer, Answer) and answer.status == 0 and not answer.notes for answer in found)
        answers += len(found)
        more = range(started, min(count, started + len(found)))
        started = more.stop
        minders.start(order(attempt, "/bin/true") for attempt in more)
        if answers > 100:
            descriptors.append(open_files())
    pool = children(keeper_of(minders))
    assert len(pool) == at_once
    assert len(set(descriptors)) == 1
    assert len({open_files(pid) for pid in pool}) == 1


@pytest.mark.flaky(reruns=2)  # other work on the machine may delay anyone for a moment
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


@pytest.mark.flaky(reruns=2)  # other work on the machine may delay anyone for a moment
def test_limits_are_enforced(minders: Minders, order: Callable[..., Order]) -> None:
    grow = "x = []\nimport time\nwhile True: x.append(bytearray(1_000_000)); time.sleep(0.001)"
    minders.start(
        [
            order(1, PYTHON, "-c", grow, limits={Resource.MEMORY: 100e6}),
            order(2, *sh("sleep 100 & sleep 100"), limits={"wall_time": 0.3}),
            order(3, "/bin/sleep", "0.5", limits={"wall_time": 30, "memory": 1e9}),
        ]
    )
    answers = finish(minders)
    assert answers[1].stopped_because == "limit"
    limit, value = answers[1].exceeded["memory"]
    assert 100e6 == limit < value < 130e6
    assert list(answers[2].exceeded) == ["wall_time"]
    assert answers[2].used["wall_time"] < 1.5
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
    minders.start([order(2, *sh("echo again"), stdout="/dev/shm/tonnage-test-output")])
    (answer,) = finish(minders).values()
    assert Path(answer.stdout or "").read_text() == "again\n"
    Path("/dev/shm/tonnage-test-output").unlink(missing_ok=True)


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
    assert said == f"4 {links} True {keeper_of(minders)} {tmp_path} Grüße \udcff"
    assert keeper_of(minders) != os.getsid(0)


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


def test_a_running_task_is_seen_and_can_be_stopped(minders: Minders, order: Callable[..., Order]) -> None:
    minders.start([order(1, *sh("sleep 100 & sleep 100"), environment={"MARK": "stop"}), order(2, "/bin/sleep", "0.3")])
    seen = [news for _ in range(4) for news in minders.wait(2) if isinstance(news, Seen) and news.attempt == 1]
    assert seen
    assert seen[0].seconds > 0.4
    assert (seen[0].memory or 0) > 0
    assert seen[0].disk is None
    minders.stop(2)  # it has ended
    minders.stop(1)
    (answer,) = finish(minders).values()
    assert (answer.attempt, answer.stopped_because, answer.lost) == (1, "cancelled", False)
    assert living("stop") == []
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


def test_a_killed_minder_is_lost_alone(minders: Minders, order: Callable[..., Order]) -> None:
    marked = {"environment": {"MARK": "killed"}}
    minders.start([order(number, "/bin/sleep", "1.5") for number in range(3)])
    minders.start([order(3, *sh("setsid sleep 100 & (sleep 100 & sleep 100) & exec sleep 100"), **marked)])
    wait_until(lambda: len(living("killed")) >= 4)
    os.kill(minder_of("killed", minders), signal.SIGKILL)
    (answer,) = minders.wait(10)
    assert isinstance(answer, Answer)
    assert (answer.attempt, answer.lost, answer.status) == (3, True, None)
    assert living("killed") == []
    minders.start([order(4, "/bin/true")])
    answers = finish(minders)
    assert sorted(answers) == [0, 1, 2, 4]
    assert all(answer.status == 0 and not answer.lost for answer in answers.values())
    assert len(children(keeper_of(minders))) == 4


def test_a_minder_killed_while_idle_is_replaced(minders: Minders, order: Callable[..., Order]) -> None:
    for attempt in range(5):
        minders.start([order(attempt, "/bin/true")])
        assert finish(minders)[attempt].status == 0
        (minder,) = children(keeper_of(minders))
        os.kill(minder, signal.SIGKILL)
        wait_until(lambda: not children(keeper_of(minders)))
        if attempt % 2:
            assert minders.wait(0.1) == []


def test_a_killed_keeper_is_replaced(minders: Minders, order: Callable[..., Order]) -> None:
    marked = {"environment": {"MARK": "keeper"}}
    minders.start([order(0, "/bin/true", **marked)])
    finish(minders)
    minders.start([order(number, *sh("sleep 100 & sleep 100"), **marked) for number in range(1, 4)])
    wait_until(lambda: len(living("keeper")) == 9)
    old = keeper_of(minders)
    pool = children(old)
    os.kill(old, signal.SIGKILL)
    answers = finish(minders)
    assert all(answer.lost and answer.stopped_because == "monitor killed" for answer in answers.values())
    assert sorted(answers) == [1, 2, 3]
    assert living("keeper") == []
    minders.start([order(number, "/bin/true") for number in range(4, 8)])
    assert all(answer.status == 0 for answer in finish(minders).values())
    assert keeper_of(minders) != old
    wait_until(lambda: not any(is_alive(pid) for pid in pool))


def test_a_stopped_minder_goes_on(minders: Minders, order: Callable[..., Order]) -> None:
    minders.start([order(1, "/bin/sleep", "100", limits={"wall_time": 0.5}, environment={"MARK": "stopped"})])
    os.kill(minder_of("stopped", minders), signal.SIGSTOP)
    assert finish(minders)[1].stopped_because == "limit"


def test_keeper_and_minder_killed_together(minders: Minders, order: Callable[..., Order]) -> None:
    minders.start([order(1, "/bin/sleep", "1", environment={"MARK": "both"})])
    minder = minder_of("both", minders)
    os.kill(keeper_of(minders), signal.SIGSTOP)
    os.kill(minder, signal.SIGKILL)
    os.kill(keeper_of(minders), signal.SIGKILL)
    assert finish(minders)[1].lost
    minders.start([order(2, "/bin/true")])
    assert finish(minders)[2].status == 0


def is_alive(pid: int) -> bool:
    process = Process.of(pid)
    return process is not None and not process.ended


def test_closing_leaves_nothing(tmp_path: Path, order: Callable[..., Order]) -> None:
    before = open_files()
    minders = Minders(tmp_path / "engine")
    marked = {"environment": {"MARK": "close"}}
    minders.start([order(number, *sh("setsid sleep 100 & exec sleep 100"), **marked) for number in range(3)])
    minders.start([order(3, "/bin/true")])
    wait_until(lambda: len(living("close")) == 6)
    keeper = keeper_of(minders)
    pool = children(keeper)
    minders.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in (keeper, *pool))
    assert living("close") == []
    assert open_files() == before
    assert {answer.stopped_because for answer in last_words(tmp_path / "engine").values()} <= {"engine gone", None}
    assert not (tmp_path / "engine" / "slots").exists()


def test_words_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    assert last_words(tmp_path / "nowhere") == {}
    (tmp_path / "words").mkdir()
    whole = '{"attempt": 7, "status": 0, "stopped_because": null, "used": {"memory": 5}}'
    texts = {"7": whole, "8": whole, "9": whole[:30], "10": "", "11": "[]", "12": '{"other": 1}', ".tonnage-1": whole}
    for name, text in texts.items():
        (tmp_path / "words" / name).write_text(text)
    assert last_words(tmp_path) == {7: Answer(7, 0, used={"memory": 5})}
    forget_words(tmp_path)
    assert last_words(tmp_path) == {}


# An engine that runs short and longer tasks until it is killed; says what it has started and which answers it has read.
ENGINE = """
import sys
from pathlib import Path
from tonnage.run.minders import Answer, Minders, Order
folder = Path(sys.argv[1])
def order(n):
    script = f"sleep 100 & sleep 0.0{n % 5}; echo {n} >> ended-{n}; kill $!" if n % 4 else "sleep 100 & sleep 100"
    outputs = str(folder / "o"), str(folder / "e")
    return Order(n, ("sh", "-c", script), "/bin/sh", str(folder), *outputs, {"MARK": sys.argv[2]})
minders = Minders(folder / "engine")
number = 6
minders.start(map(order, range(number)))
while True:
    for answer in minders.wait(None):
        if isinstance(answer, Answer):
            print(answer.attempt, flush=True)
            if number < 300:
                minders.start([order(number if number % 4 else number + 1)])
                number += 2
"""


@pytest.mark.parametrize("seed", range(6))
def test_no_task_outlives_a_killed_engine(tmp_path: Path, seed: int) -> None:
    mark = f"engine-{os.getpid()}-{seed}"
    with subprocess.Popen([PYTHON, "-c", ENGINE, tmp_path, mark], stdout=subprocess.PIPE, text=True) as engine:
        wait_until(lambda: living(mark))
        time.sleep(Random(seed).uniform(0, 0.5))
        engine.kill()
        said = set(map(int, engine.communicate()[0].split()))
    wait_until(lambda: not living(mark))
    wait_until(lambda: not any(is_alive(pid) for pid in in_folder(tmp_path)))
    ended = {int(path.name.removeprefix("ended-")) for path in tmp_path.glob("ended-*")}
    words = last_words(tmp_path / "engine")
    assert ended <= said | words.keys()
    assert all(not words[attempt].lost for attempt in words.keys() & said)
    assert all(answer.lost for attempt, answer in words.items() if attempt not in ended)
    assert all(words[attempt].stopped_because == "engine gone" for attempt in (0, 4) if attempt in words)
    assert words.keys() >= {0, 4}


def in_folder(folder: Path) -> list[int]:
    """Return the processes that have the engine's folder among their arguments: engine, keeper and minders."""
    return [pid for pid in processes() if str(folder).encode() in (read(f"/proc/{pid}/cmdline") or b"")]
