"""Repeated runs: no hang, no missing summary, no zombie. `make soak` repeats it a thousand times."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.processes import with_argument
from tonnage import Summary

TIMES = 1000 if os.environ.get("TONNAGE_SOAK") else 15
MONITOR = [sys.executable, "-m", "tonnage", "watch"]


@pytest.mark.parametrize("command", [["/bin/true"], ["/bin/sh", "-c", "sleep 0.001 &"]], ids=["true", "fork and exit"])
def test_short_commands(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    mark = f"tonnage-robust-{os.getpid()}"
    words = [*MONITOR, "--summary", str(path), "--field", f"mark={mark}", "--", *command]
    for _ in range(TIMES):
        assert subprocess.run(words, timeout=HANGS, check=False).returncode == 0
        summary = Summary.read(path)
        assert summary.exit_status == 0
        assert summary.total_processes is not None
        path.unlink()
    assert with_argument(mark) == []
    assert list(tmp_path.iterdir()) == []


def test_many_at_once(tmp_path: Path) -> None:
    count = 20
    words = [*MONITOR, "--spool", str(tmp_path / "spool"), "--limit", "memory=1GB", "--"]
    processes = [subprocess.Popen([*words, "/bin/sh", "-c", "sleep 0.05 & sleep 0.1"]) for _ in range(count)]
    assert [process.wait(HANGS) for process in processes] == [0] * count
    summaries = [Summary.read(path) for path in (tmp_path / "spool").iterdir()]
    assert [summary.exit_type for summary in summaries] == ["normal"] * count
