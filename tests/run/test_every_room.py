"""A way through all rooms: a foreign log, clusters, sizes, an order, a run, the archive, a second run, a comparison."""

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import NEED_A_PROCESS, CommandLine
from tests.warm import Warm

WORK = Path(__file__).resolve().parents[2] / "examples" / "survey" / "work.py"
MACHINE = ("--machine", "cores=4,memory=2GB,disk=1GB")
KINDS = {"small": 20, "large": 120}  # megabytes
TASKS = 3
Call = Callable[..., str]


@pytest.fixture
def call(command_line: CommandLine, tmp_path: Path) -> Call:
    shutil.copy(WORK, tmp_path)
    header = "task_id hash native_id name status exit submit duration realtime %cpu peak_rss peak_vmem rchar wchar"
    rows = [header.split()]
    for number in range(20):
        kind = "small" if number % 2 else "large"
        times = ("2026-11-16 10:00:00.000", "1s", "1s")
        peak = f"{KINDS[kind] + number} MB"
        name = f"{kind} ({number})"
        rows.append([f"{number}", f"aa/{number:06}", "1", name, "COMPLETED", "0", *times, "9%", peak, "1 GB", "0", "0"])
    (tmp_path / "trace.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    rules = [
        f"{kind}.{number}: \n\t{sys.executable} -IS work.py 0.1 {megabytes} {kind}.{number} 1\n"
        for kind, megabytes in KINDS.items()
        for number in range(TASKS)
    ]
    made = [f"{kind}.{number}" for kind in KINDS for number in range(TASKS)]
    requests = "CORES=1\nMEMORY=900\nDISK=100\n"
    parts = [
        f"CATEGORY={kind}\n{requests}" + "\n".join(rules[n * TASKS : (n + 1) * TASKS]) for n, kind in enumerate(KINDS)
    ]
    last = f"CATEGORY=last\n{requests}all: {' '.join(made)}\n\tcat {' '.join(made)} > all\n"
    (tmp_path / "analysis.mf").write_text("\n".join((*parts, last)))

    def called(*words: str) -> str:
        if words[0] not in NEED_A_PROCESS:
            return command_line(*words).stdout
        with Warm(*words, folder=tmp_path, variables={**os.environ, **command_line.variables}) as process:
            said = process.said()
        assert said.status == 0, said.stderr
        return said.stdout

    return called


def journal(folder: Path, run: dict[str, Any], wanted: str) -> list[Any]:
    connection = sqlite3.connect(folder / ".tonnage" / "runs" / run["run"] / "journal.db")
    try:
        return [row[0] for row in connection.execute(wanted)]
    finally:
        connection.close()


def test_from_a_foreign_log_to_the_second_run(call: Call, tmp_path: Path) -> None:
    archive = str(tmp_path / "archive.db")
    call("archive", "import", "trace.txt")
    found = json.loads(call("discover", archive, "--json"))
    assert {frozenset(one["categories"]) for one in found["clusters"]} == {frozenset({"small"}), frozenset({"large"})}
    assert "large" in call("size", archive, *MACHINE, "--resource", "memory")
    assert "before" in call("discover", archive, "--apply", "analysis.mf", "-o", "sized.mf")
    call("rank", "sized.mf", "-o", "ranked.mf")

    # What is decided is told before the run, and stands with its reason in the journal and in the archive.
    told = call("run", "ranked.mf", *MACHINE, "--explain", "--quiet")
    line = told.partition(f"large ({TASKS} tasks)\n")[2].partition("  memory: ")[2].partition("\n")[0]
    assert int(line.partition(" MB")[0]) < 200  # of its cluster; before, it asked for 900
    assert "as requested" in line
    run = json.loads(call("status", "--json"))
    assert run["finished"]
    reasons = (
        "SELECT d.reason FROM attempts a JOIN tasks t ON t.id = a.task JOIN decisions d ON d.id = a.memory_decision "
        "WHERE t.category = 'large' ORDER BY a.id"
    )
    reason = journal(tmp_path, run, reasons)[0]
    assert line.endswith(reason)
    call("archive", "export", "--run", run["run"], "-o", "jobs.jsonl")
    stored = [json.loads(line) for line in (tmp_path / "jobs.jsonl").read_text().splitlines()]
    assert len(stored) == run["attempts"]
    kept = [one for job in stored for one in job["raw"]["decisions"] if one["reason"] == reason]
    assert "memory" in {one["resource"] for one in kept}
    assert all(job["memory"] > 0 for job in stored if job["category"] != "last")  # it was watched

    # The second run knows this very workflow, and is printed beside the first.
    second = call("run", "ranked.mf", *MACHINE, "--new", "--explain", "--quiet")
    line = second.partition("large (")[2].partition("  memory: ")[2].partition("\n")[0]
    assert "earlier runs of this task stayed within" in line
    again = json.loads(call("status", "--json"))
    assert any(line.endswith(reason) for reason in journal(tmp_path, again, reasons))
    assert "last time" in second


def test_the_density_paper_s_second_run(call: Call, tmp_path: Path) -> None:
    """As Zhang et al. do: run as requested, discover, run again with the clusters' sizes, compare."""
    before = json.loads(call("run", "analysis.mf", *MACHINE, "--new", "--size", "declared", "--quiet", "--json"))
    applied = call("discover", str(tmp_path / "archive.db"), "--apply", "analysis.mf", "-o", "sized.mf")
    assert "before" in applied
    assert "after" in applied
    sized = json.loads(call("run", "sized.mf", *MACHINE, "--new", "--size", "declared", "--quiet", "--json"))
    # What the workflow requests would be respected, and nothing be saved.
    density = ("--size", "density", "--override-requests")
    clustered = json.loads(call("run", "analysis.mf", *MACHINE, "--new", *density, "--quiet", "--json"))
    for one in (sized, clustered):
        assert one["done"] == one["tasks"]
        assert one["waste_fraction"]["memory"] < before["waste_fraction"]["memory"]
    assert clustered["before"]["attempts"] == before["attempts"]
