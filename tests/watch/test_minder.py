"""The minder: one process that watches one command after another, also with fewer privileges."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.watch.conftest import MB

# Runs in its own process, which becomes a minder; prints one JSON object per command. The reported waiting time is how
# long it was ready but not running, or the host held up the machine: it can be late by that much.
PROGRAM = """
import json, os, sys, threading
from tonnage.errors import CannotStartError
from tonnage.watch.limits import Job
from tonnage.watch.minder import Minder
def waited():
    with open("/proc/self/schedstat") as own, open("/proc/stat") as machine:
        return int(own.read().split()[1]) / 1e9 + int(machine.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
minder = Minder(set())
if "poll" in sys.argv[2:]:
    minder.fork_events.close()
    minder.fork_events = None
for command, limits in json.loads(sys.argv[1]):
    before = waited()
    try:
        outcome = minder.mind(Job(command, limits=limits))
    except CannotStartError as error:
        print(json.dumps({"error": str(error)}))
        continue
    print(json.dumps({"used": outcome.used, "status": outcome.status, "why": outcome.stopped_because,
                      "method": outcome.memory_method, "lower": outcome.lower_bounds,
                      "exceeded": list(outcome.exceeded), "fds": len(os.listdir("/proc/self/fd")),
                      "threads": threading.active_count(), "waited": waited() - before}))
"""


def mind(jobs: list[tuple[list[str], dict[str, float]]], folder: Path, *how: str) -> list[dict[str, Any]]:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(jobs), *how], capture_output=True, text=True, cwd=folder, check=True
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_one_command_after_another_with_nothing_left_of_the_first(actor: str, tmp_path: Path) -> None:
    def act(words: str) -> list[str]:
        return [actor, *words.split()]

    first, stopped, third, missing, last = mind(
        [
            (act("take 100 write f 50 fork { hold 0.1 } burn 0.3 wait exit 3"), {}),
            (act("fork { hold 60 } take 100 hold 60"), {"memory": 50e6}),
            (act("take 30 hold 0.2"), {"memory": 50e6}),
            (["/no/such/program"], {}),
            (["/bin/true"], {}),
        ],
        tmp_path,
    )
    assert first["status"] == 3 << 8
    assert abs(first["used"]["memory"] / MB - 101) < 3
    assert first["used"]["total_processes"] == 2
    assert (stopped["why"], stopped["exceeded"]) == ("limit", ["memory"])
    assert third["why"] is None
    assert third["exceeded"] == []
    assert abs(third["used"]["memory"] / MB - 31) < 3
    assert third["used"]["total_processes"] == 1
    assert third["used"]["cpu_time"] < 0.2
    assert third["used"]["disk"] < MB
    assert third["used"]["disk_at_start"] >= 50 * MB
    assert third["used"]["bytes_written"] < MB
    assert "error" in missing
    assert last["used"]["memory"] < 40 * MB
    assert first["fds"] == last["fds"]
    assert last["threads"] == 1


def test_a_hundred_short_commands(tmp_path: Path) -> None:
    results = mind([(["/bin/true"], {})] * 100, tmp_path)
    assert [result["status"] for result in results] == [0] * 100
    assert {result["used"]["total_processes"] for result in results} == {1}
    assert len({result["fds"] for result in results}) == 1


def test_without_fork_records_counts_are_lower_bounds(actor: str, tmp_path: Path) -> None:
    two = "fork { take 60 meet 2 hold 0.3 } fork { take 60 meet 2 hold 0.3 } wait"
    counted, tree = mind(
        [
            ([actor, "many", "300"], {}),
            ([actor, *two.split()], {"memory": 1e9}),
        ],
        tmp_path,
        "poll",
    )
    assert "total_processes" in counted["lower"]
    assert 1 <= counted["used"]["total_processes"] <= 301
    assert abs(tree["used"]["memory"] / MB - 121) < 4
    assert tree["used"]["total_processes"] == 3


def test_limits_hold_without_fork_records(actor: str, tmp_path: Path) -> None:
    grown, many = mind(
        [
            ([actor, *["take", "60", "grow", "1000", "500", "hold", "60"]], {"memory": 100.0 * MB}),
            ([actor, *("fork { hold 60 } " * 10 + "hold 60").split()], {"processes": 5}),
        ],
        tmp_path,
        "poll",
    )
    assert grown["exceeded"] == ["memory"]
    assert grown["used"]["memory"] < 110 * MB
    assert many["exceeded"] == ["processes"]


def test_time_limits_are_kept_precisely(actor: str, tmp_path: Path) -> None:
    slept, burnt = mind(
        [(["/bin/sleep", "60"], {"wall_time": 0.5}), ([actor, "burn", "60"], {"cpu_time": 0.5})], tmp_path
    )
    assert slept["exceeded"] == ["wall_time"]
    assert 0.5 <= slept["used"]["wall_time"] < 0.6 + slept["waited"]
    assert burnt["exceeded"] == ["cpu_time"]
    assert 0.5 <= burnt["used"]["cpu_time"] < 0.6 + burnt["waited"]
