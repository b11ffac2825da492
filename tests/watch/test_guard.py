"""Nothing lives on unwatched: kill -9 of either process of the monitor stops the command, and that is said."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tonnage.watch import Summary
from watch.test_limits import alive
from watch.test_passing import child_of


def start(monitor: list[str], folder: Path, actor: str, mark: str) -> subprocess.Popen[str]:
    words = f"daemon {{ hold {mark} }} fork {{ hold {mark} }} thread {{ hold {mark} }} hold {mark}".split()
    options = ["--summary", str(folder / "summary.json"), "--series", str(folder / "series.csv")]
    process = subprocess.Popen([*monitor, *options, "--", actor, *words], cwd=folder, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 10
    while len(alive(mark)) < 4:
        assert time.monotonic() < end
        time.sleep(0.01)
    return process


def none_left(mark: str) -> bool:
    end = time.monotonic() + 10
    while alive(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_when_the_minder_is_killed_the_guard_stops_everything(monitor: list[str], actor: str, workdir: Path) -> None:
    mark = f"32.{os.getpid()}1"
    process = start(monitor, workdir, actor, mark)
    os.kill(child_of(process.pid), signal.SIGKILL)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 125
    assert "the monitor was killed, so the command was stopped" in said
    assert alive(mark) == []
    summary = Summary.read(workdir / "summary.json")
    assert summary.stopped_because == "monitor killed"
    assert summary.memory is None
    assert (workdir / "series.csv").read_text().startswith("time,")


def test_a_monitor_that_fails_is_not_said_to_be_killed() -> None:
    script = "import sys; from tonnage.watch.guard import guard; sys.exit(guard(lambda mask, keeper: 1 / 0))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "ZeroDivisionError" in ended.stderr
    assert ended.stderr.endswith("\nfailed\n")


def test_when_the_guard_is_killed_the_minder_stops_everything(monitor: list[str], actor: str, workdir: Path) -> None:
    mark = f"32.{os.getpid()}2"
    process = start(monitor, workdir, actor, mark)
    process.kill()
    process.wait()
    assert none_left(mark)
    end = time.monotonic() + 10
    while not (workdir / "summary.json").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    summary = Summary.read(workdir / "summary.json")
    assert summary.stopped_because == "monitor killed"
    assert summary.total_processes is not None


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1])
def test_killed_at_any_moment_nothing_is_left(delay: float, monitor: list[str], actor: str, workdir: Path) -> None:
    mark = f"33.{os.getpid()}{int(delay * 1000)}"
    words = f"daemon {{ hold {mark} }} hold {mark}".split()
    process = subprocess.Popen([*monitor, "--summary", str(workdir / "s.json"), "--", actor, *words], cwd=workdir)
    time.sleep(delay)
    process.kill()
    process.wait()
    time.sleep(0.3)
    assert none_left(mark)
