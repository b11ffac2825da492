"""Nothing keeps running unwatched: kill -9 of either monitor process stops the command, and this is reported."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.processes import commands_with, minder_and_command, with_argument
from tests.waiting import until
from tonnage import Summary


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> Iterator[str]:
    """A unique number of seconds, longer than any test; processes with it are killed at the end of the test."""
    seconds = f"{HANGS + 9:.0f}.{os.getpid()}{abs(hash(request.node.name))}"
    yield seconds
    for pid in commands_with(seconds):
        os.kill(pid, signal.SIGKILL)


def start(monitor: list[str], folder: Path, actor: str, mark: str) -> subprocess.Popen[str]:
    words = f"daemon {{ hold {mark} }} fork {{ hold {mark} }} thread {{ hold {mark} }} hold {mark}".split()
    options = ["--summary", str(folder / "summary.json"), "--series", str(folder / "series.csv")]
    process = subprocess.Popen([*monitor, *options, "--", actor, *words], cwd=folder, stderr=subprocess.PIPE, text=True)
    until(lambda: len(commands_with(mark)) >= 4)
    return process


def test_when_the_minder_is_killed_the_guard_stops_everything(
    monitor: list[str], actor: str, workdir: Path, mark: str
) -> None:
    process = start(monitor, workdir, actor, mark)
    minder, _ = until(lambda: minder_and_command(process.pid))
    os.kill(minder, signal.SIGKILL)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 125
    assert "the monitor was killed, so the command was stopped" in said
    assert commands_with(mark) == []
    summary = Summary.read(workdir / "summary.json")
    assert summary.stopped_because == "monitor killed"
    assert summary.memory is None
    assert (workdir / "series.csv").read_text().startswith("time,")


def test_a_monitor_that_fails_is_not_said_to_be_killed() -> None:
    script = "import sys; from tonnage.watch.guard import guard; sys.exit(guard(lambda mask, guard_pid: 1 / 0))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "ZeroDivisionError" in ended.stderr
    assert ended.stderr.endswith("\nfailed\n")


def test_when_the_guard_is_killed_the_minder_stops_everything(
    monitor: list[str], actor: str, workdir: Path, mark: str
) -> None:
    with start(monitor, workdir, actor, mark) as process:
        process.kill()
    until(lambda: not with_argument(mark))  # nor the minder, which writes one file after another
    summary = Summary.read(workdir / "summary.json")
    assert summary.stopped_because == "monitor killed"
    assert summary.total_processes is not None


SOON = [0.0, 0.01, 0.03, 0.1]
MORE = [pytest.param(delay, marks=pytest.mark.long) for delay in (0.005, 0.015, 0.02, 0.05)]


@pytest.mark.parametrize("delay", [*SOON, *MORE])
def test_killed_at_any_moment_nothing_is_left(
    delay: float, monitor: list[str], actor: str, workdir: Path, mark: str
) -> None:
    words = f"daemon {{ hold {mark} }} hold {mark}".split()
    process = subprocess.Popen([*monitor, "--summary", str(workdir / "s.json"), "--", actor, *words], cwd=workdir)
    time.sleep(delay)
    process.kill()
    process.wait()
    until(lambda: not with_argument(mark))  # neither the command nor the monitor, which might still start it
