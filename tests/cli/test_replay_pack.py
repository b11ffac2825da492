"""``tonnage replay pack`` as its users call it."""

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tests.deadlines import HANGS
from tests.pack.swf_logs import busy_log
from tonnage.pack.packers import PACKERS
from tonnage.workflow import write
from tonnage.workflow.families import FAMILIES

QUEUE = ("--queue", "busy.swf")
FEW = (*QUEUE, "--every", "12h", "--days", "3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cybershake", "epigenomics"):
        write(FAMILIES[name].generate(30), tmp_path / f"{name}.json")
    busy_log(tmp_path)
    return tmp_path


@pytest.fixture
def run(command_line: CommandLine, folder: Path, one_core: None) -> Call:
    return partial(command_line, "replay", "pack")


def test_all_strategies_on_two_workflows_under_two_caps(run: Call) -> None:
    words = ("cybershake.json", "epigenomics.json", *FEW, "--max-submitted", "2", "--max-submitted", "16")
    facts = run(*words, "--json").facts
    rows = facts["results"]
    found = {(one["workflow"], one["strategy"], one["cap"]) for one in rows}
    workflows = ("cybershake", "epigenomics")
    assert found == {(name, strategy, cap) for name in workflows for strategy in PACKERS for cap in (2, 16)}
    assert {one["submissions"] for one in rows} == {7}
    assert all(one["improvement"] == 0 for one in rows if one["strategy"] == "zhang")
    assert all(one["mean_makespan_seconds"] > 0 and one["node_hours_idle"] >= 0 for one in rows)
    pairs = {(one["strategy"], one["rival"], one["cap"]) for one in facts["table"]}
    assert len(pairs) == len(facts["table"]) == 2 * len(PACKERS) * (len(PACKERS) - 1)
    for one in facts["table"]:
        assert one["wins"] <= one["wins_any"]
        assert one["losses"] <= one["losses_any"]
        assert one["wins_any"] + one["losses_any"] <= one["workflows"] == 2


def test_the_baseline_is_played_also_where_it_is_not_named(run: Call) -> None:
    words = ("cybershake.json", *FEW, "--strategies", "glume", "--baseline", "one-job")
    facts = run(*words, "--json").facts
    assert [one["strategy"] for one in facts["results"]] == ["glume", "one-job"]
    assert facts["baseline"] == "one-job"
    said = run(*words).stdout
    assert "shorter than one-job" in said
    assert "wins/losses by more than 5%" in said
    assert "\n\ncybershake: 7 submissions" in said
    assert "\\" not in said


def test_moments_are_spread_over_the_log(run: Call) -> None:
    words = ("cybershake.json", *FEW, "--strategies", "glume,zhang", "--json")
    near, far = (run(*words, *more).facts["results"] for more in ((), ("--spread",)))
    assert [one["submissions"] for one in near] == [one["submissions"] for one in far]
    assert near != far


def test_an_interrupted_replay_goes_on_where_it_was(run: Call, folder: Path) -> None:
    words = ("cybershake.json", "epigenomics.json", *QUEUE, "--every", "8h", "--strategies", "per-task,glume", "--json")
    expected = run(*words).stdout
    done = folder / "done.jsonl"
    command = [sys.executable, "-m", "tonnage", "replay", "pack", *words, "--resume", done.name]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and (not done.exists() or done.read_bytes().count(b"\n") < 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANGS)
    assert b"Traceback" not in said
    assert process.returncode in (130, 0)
    kept = done.read_bytes()
    assert kept.count(b"\n") >= 2
    assert run(*words, "--resume", done.name).stdout == expected
    assert done.read_bytes().startswith(kept)
    assert run(*words, "--resume", done.name).stdout == expected
    assert "other" in run(*words, "--fudge", "1.5", "--resume", done.name, status=2).stderr


@pytest.mark.parametrize(
    "words",
    [
        (*FEW,),
        ("cybershake.json",),
        ("cybershake.json", *FEW, "--strategies", "magic"),
        ("cybershake.json", *FEW, "--baseline", "magic"),
        ("cybershake.json", *FEW, "--every", "0s"),
        ("cybershake.json", *FEW, "--days", "99"),
        ("cybershake.json", *FEW, "--days", "nan"),
        ("cybershake.json", *FEW, "--warmup", "9d"),
        ("cybershake.json", *FEW, "--max-submitted", "0"),
        ("cybershake.json", *FEW, "--resume", "busy.swf"),
        ("cybershake.json", "cybershake.json", *FEW),
        ("absent.json", *FEW),
    ],
)
def test_a_wrong_call_is_refused(run: Call, words: tuple[str, ...], folder: Path) -> None:
    before = (folder / "busy.swf").read_bytes()
    assert run(*words, status=2).stderr.startswith("tonnage: ")
    assert (folder / "busy.swf").read_bytes() == before


def test_glume_beats_zhang_on_a_real_queue(run: Call, data: Path) -> None:
    workflows = [str(data / "workflows" / "glume" / f"{name}_250_1800000.dax") for name in ("CYBERSHAKE", "MONTAGE")]
    log = str(data / "queues" / "kth-sp2.swf.gz")
    words = (*workflows, "--queue", log, "--every", "12h", "--strategies", "glume,zhang", "--json")
    table = run(*words).facts["table"]
    assert next(one for one in table if one["strategy"] == "glume")["wins"] == 2
