"""Errors in a call are reported clearly, with the right status, before anything is started."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import HANGS
from tests.watch.conftest import NOBODY

ROOT = os.getuid() == 0
MONITOR = [sys.executable, "-m", "tonnage", "watch"]


def call(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MONITOR, *words], capture_output=True, text=True, cwd=folder, timeout=HANGS, check=False)


STARTED = ["--", "/bin/sh", "-c", "echo started"]
BAD = {
    "an unknown resource": (["--limit", "ram=3GB"], "expected one of cores, memory, disk, wall_time"),
    "an amount without a unit": (["--limit", "memory=300"], "300MB"),
    "an amount that is none": (["--limit", "memory=lots"], '"lots"'),
    "a limit without an amount": (["--limit", "memory"], "memory=300MB"),
    "a limit of nothing": (["--limit", "wall_time=0s"], "above 0"),
    "an unknown option": (["--limmit", "memory=3GB"], "--limit"),
    "an option without its value": (["--summary"], "--summary FILE"),
    "an option twice": (["--category", "a", "--category", "b"], "twice"),
    "a switch with a value": (["--live=yes"], "no value"),
    "a summary in no folder": (["--summary", "missing/s.json"], "missing/s.json"),
    "a summary that is a folder": (["--summary", "."], "cannot be written"),
    "a series in no folder": (["--series", "missing/s.csv"], "missing/s.csv"),
    "a spool that is a file": (["--spool", "/etc/passwd"], "/etc/passwd"),
    "no such folder": (["--dir", "missing"], "missing"),
    "a bad time": (["--interval", "often"], "--interval"),
    "too short a time": (["--interval", "1ms"], "too short"),
    "one file for two": (["--summary", "x", "--series", "x"], "more than one of"),
    "an empty name": (["--summary", ""], "empty"),
    "a good and a bad file": (["--summary", "s.json", "--series", "missing/s.csv"], "missing/s.csv"),
    "a bad field": (["--field", "nothing"], "KEY=VALUE"),
    "no limits file": (["--limits", "missing.json"], "missing.json"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_call_starts_nothing(case: str, tmp_path: Path) -> None:
    options, expected = BAD[case]
    command = STARTED if options != ["--summary"] else []
    ended = call(*options, *command, folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("tonnage: ")
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    ended = call("--summary", "/proc/summary.json", *STARTED, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["no-such-command-here"], 127),
        (["./missing"], 127),
        (["missing/command"], 127),
        (["./plain"], 126),
        (["."], 126),
        (["/etc/passwd/command"], 127),
    ],
)
def test_a_command_that_cannot_be_run(command: list[str], status: int, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    ended = call("--summary", "s.json", "--", *command, folder=tmp_path)
    assert ended.returncode == status
    assert command[0] in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_a_command_is_not_found_though_a_folder_of_the_path_is_closed(open_monitor: list[str], place: Path) -> None:
    closed = place / "closed"
    closed.mkdir()
    closed.chmod(0o700 if ROOT else 0)
    other: dict[str, Any] = {"user": NOBODY, "group": NOBODY} if ROOT else {}
    environment = {**os.environ, "PATH": f"{closed}:{os.environ['PATH']}"}
    command = [*open_monitor, "watch", "--", "no-such-command-here"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False, **other)
    closed.chmod(0o700)
    assert ended.stderr == "tonnage: no-such-command-here: command not found\n"
    assert ended.returncode == 127


def test_a_program_that_the_kernel_refuses(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/no/such/interpreter\n")
    program.chmod(0o755)
    ended = call("--summary", "s.json", "--", "./program", folder=tmp_path)
    assert ended.returncode in (126, 127)
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program"]


def test_no_command_at_all(tmp_path: Path) -> None:
    for words in ([], ["--"], ["--live"]):
        assert call(*words, folder=tmp_path).returncode == 2


def test_options_of_the_command_are_its_own(tmp_path: Path) -> None:
    ended = call("--summary", "s.json", "/bin/echo", "--limit", "--", "-h", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "--limit -- -h\n")


@pytest.mark.parametrize("words", [["-h"], ["--help"], ["--limit", "memory=1GB", "--help"]])
def test_help(words: list[str], tmp_path: Path) -> None:
    ended = call(*words, folder=tmp_path)
    assert ended.returncode == 0
    assert "Example" in ended.stdout
    assert "--cores-window" in ended.stdout


def test_a_summary_that_cannot_be_written_in_the_end_is_a_failure(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    ended = call("--summary", "folder/s.json", "--", "/bin/rm", "-r", str(folder), folder=tmp_path)
    assert ended.returncode == 125
    assert "s.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_full_disk_is_a_failure(tmp_path: Path) -> None:
    ended = call("--summary", "/dev/full", "--", "/bin/true", folder=tmp_path)
    assert ended.returncode == 125
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("series", ["/dev/full", "series.csv"])
def test_a_series_that_cannot_be_written_does_not_stop_the_command(series: str, tmp_path: Path) -> None:
    script = f'ulimit -f 0; exec "$@" --series {series} --summary /dev/stdout -- sh -c "sleep 0.1; exit 3"'
    ended = subprocess.run(
        ["/bin/bash", "-c", script, "sh", *MONITOR], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert '"exit_status": 3' in ended.stdout
    assert series in ended.stderr
    assert ended.returncode == 125
    assert list(tmp_path.iterdir()) == []


def test_a_summary_goes_through_a_process_substitution(tmp_path: Path) -> None:
    script = '"$@" --summary >(cat > part; mv part copy) -- true; until [ -e copy ]; do sleep 0.02; done; cat copy'
    ended = subprocess.run(
        ["/bin/bash", "-c", script, "sh", *MONITOR], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert '"exit_status": 0' in ended.stdout, ended.stderr


@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_where_no_second_process_can_be_started_that_is_said(open_monitor: list[str]) -> None:
    script = 'ulimit -u 1; exec "$@"'
    command = ["/bin/bash", "-c", script, "sh", *open_monitor, "watch", "--", "/bin/true"]
    ended = subprocess.run(command, capture_output=True, text=True, user=NOBODY, group=NOBODY, check=False)
    assert ended.returncode == 125
    assert ended.stderr.startswith("tonnage: the monitor cannot be started")


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    words = [*MONITOR[:1], "-P", *MONITOR[1:]]
    script = 'cd "$1"; rmdir "$1"; shift; exec "$@"'
    command = ["/bin/sh", "-c", script, "sh", str(folder), *words, "--", "/bin/echo", "works"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout == "works\n", ended.stderr
    assert ended.returncode == 0


def test_closed_streams_do_no_harm(tmp_path: Path) -> None:
    words = " ".join(MONITOR)
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        script = f"{words} --summary s.json -- /bin/true {closed}"
        ended = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, check=False)
        assert ended.returncode == 0, closed
        assert (tmp_path / "s.json").stat().st_size > 100
        (tmp_path / "s.json").unlink()
