"""Summaries of watched commands."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ToolFinder
from tests.logs.damage import said, said_of, survives
from tonnage.errors import InputError
from tonnage.jobs import Outcome, Resource
from tonnage.logs import summaries
from tonnage.logs.log import Hints, Log

MB = 2**20
THEIRS = {
    "executable_type": "dynamic",
    "monitor_version": "8.0.0.",
    "host": "node7",
    "command": "LC_ALL=C ./bin/bwa mem a.fq",
    "category": "align",
    "task_id": "7",
    "exit_type": "normal",
    "exit_status": 0,
    "start": [1794805722.5, "s"],
    "end": [1794805735.0, "s"],
    "wall_time": [12.5, "s"],
    "cpu_time": [20, "s"],
    "memory": [512, "MB"],
    "virtual_memory": [900, "MB"],
    "disk": [2, "GB"],
    "cores": [1.5, "cores"],
    "gpus": [0, "gpus"],
    "max_concurrent_processes": [3, "procs"],
    "peak_times": {"memory": [3.5, "s"]},
}


def summary(**other: object) -> str:
    return json.dumps({**THEIRS, **other})


def test_a_summary_of_cctools_is_read() -> None:
    attempt = said(summaries, summary(), hints=Hints(label="monday")).only
    assert (attempt.category, attempt.task, attempt.host, attempt.run) == ("align", "7", "node7", "monday")
    assert (attempt.command, attempt.executable) == ("LC_ALL=C ./bin/bwa mem a.fq", "bwa")
    assert (attempt.used.memory, attempt.used.disk) == (512 * MB, 2 * 2**30)
    assert (attempt.used.wall_time, attempt.used.cpu_time) == (12.5, 20.0)
    assert (attempt.used.cores, attempt.used.processes) == (1.5, 3)
    assert (attempt.started, attempt.ended) == (1794805722.5, 1794805735.0)
    assert (attempt.outcome, attempt.exit_status, attempt.memory_method) == (Outcome.DONE, 0, "rss")
    assert list(attempt.requested.known()) == list(attempt.allocated.known()) == []
    assert attempt.raw["virtual_memory"] == [900, "MB"]
    assert json.loads(attempt.row) == THEIRS


@pytest.mark.parametrize(
    "text",
    [
        f"{summary()}{summary()}",
        f"{summary()}\n{summary()}\n",
        f"[{summary()}, {summary()}]",
        f"[{json.dumps(THEIRS, indent=2)},\n{json.dumps(THEIRS, indent=2)}]\n",
        f"{json.dumps(THEIRS, indent=2)}\n{json.dumps(THEIRS, indent=2)}\n",
    ],
)
def test_several_summaries_may_stand_in_any_order_of_brackets(text: str) -> None:
    assert summaries.recognises(text)
    found = said(summaries, text)
    assert len(found.attempts) == 2
    assert found.skipped == []


@pytest.mark.parametrize("exit_type", ["limit", "limits"])
@pytest.mark.parametrize(
    ("theirs", "limit", "resource", "amount"),
    [
        ("memory", [300, "MB"], Resource.MEMORY, 300 * MB),
        ("disk", [1, "GB"], Resource.DISK, 2**30),
        ("wall_time", [5, "s"], Resource.WALL_TIME, 5),
        ("cpu_time", [5, "s"], Resource.CPU_TIME, 5),
        ("cores", [2, "cores"], Resource.CORES, 2),
        ("max_concurrent_processes", [9, "procs"], Resource.PROCESSES, 9),
    ],
)
def test_an_exceeded_limit_is_what_was_exhausted(
    exit_type: str, theirs: str, limit: list[object], resource: Resource, amount: float
) -> None:
    text = summary(exit_type=exit_type, exit_status=143, limits_exceeded={theirs: limit})
    attempt = said(summaries, text).only
    assert (attempt.outcome, attempt.exhausted) == (Outcome.EXHAUSTED, resource)
    assert list(attempt.allocated.known()) == [(resource, amount)]


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"exit_status": 3}, Outcome.FAILED),
        ({"exit_type": "signal", "signal": 9, "exit_status": 137}, Outcome.FAILED),
        ({"stopped_because": "monitor killed", "exit_type": "signal", "signal": 9}, Outcome.LOST),
        ({"exit_type": "limits", "limits_exceeded": {"total_files": [7, "files"]}}, Outcome.EXHAUSTED),
        ({"limits_exceeded": {"memory": [1, "MB"]}}, Outcome.DONE),  # measured only
    ],
)
def test_how_it_ended(facts: Mapping[str, object], outcome: Outcome) -> None:
    attempt = said(summaries, summary(**facts)).only
    assert (attempt.outcome, attempt.exhausted) == (outcome, None)


def test_an_ending_that_nobody_saw_is_unknown() -> None:
    facts = {name: value for name, value in THEIRS.items() if name != "exit_status"}
    assert said(summaries, json.dumps(facts)).only.outcome is None


def test_what_older_monitors_did_not_measure_is_unknown() -> None:
    attempt = said(
        summaries, summary(memory=[-1, "MB"], cores=[-1, "cores"], max_concurrent_processes=[0, "procs"])
    ).only
    assert (attempt.used.memory, attempt.used.cores, attempt.used.processes) == (None, None, None)


def test_what_is_no_summary_among_others_is_skipped() -> None:
    found = said(summaries, f"{summary()}\n{summary(memory=3)}\n7\n{summary(wall_time=[1, 'parsec'])}\n{summary()}")
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason) for entry in found.skipped] == [
        (2, "it is not the summary of a command"),
        (3, "it is not the summary of a command"),
        (4, "it is not the summary of a command"),
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"memory": 3}', '{"wall_time": [1, 2]}', "[[1]]", '{"jobs": [{"memory": [1, "MB"]}]}']
)
def test_other_files_are_refused(text: str) -> None:
    assert not summaries.recognises(text)
    with pytest.raises(InputError, match="is not the summary of a command"):
        said(summaries, text)


@pytest.mark.parametrize("text", ["a", f"{summary()[:-1]}", f"[{summary()}", '{"memory":[' * 9000])
def test_damaged_json_is_refused(text: str) -> None:
    assert summaries.recognises(text) == text.startswith("[")
    with pytest.raises(InputError, match=r"JSON|expected a comma"):
        said(summaries, text)


def watch(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "tonnage", "watch", *arguments], cwd=folder, check=False, capture_output=True)


def test_what_watch_wrote_is_read_back(tmp_path: Path) -> None:
    about = ["--category", "align", "--workflow", "w", "--field", "project=atlas", "--summary", "s.json"]
    watch(tmp_path, *about, "--", "/bin/sh", "-c", "sleep 0.2; exit 3")
    log = Log.open(tmp_path / "s.json")
    assert summaries.recognises(log.head)
    attempt = said_of(summaries, log).only
    assert (attempt.category, attempt.workflow, attempt.fields) == ("align", "w", {"project": "atlas"})
    assert (attempt.executable, attempt.command) == ("sleep", "/bin/sh -c 'sleep 0.2; exit 3'")
    assert (attempt.outcome, attempt.exit_status) == (Outcome.FAILED, 3)
    assert attempt.used.wall_time is not None
    assert 0.2 <= attempt.used.wall_time < 5
    assert attempt.started is not None
    assert attempt.ended == pytest.approx(attempt.started + attempt.used.wall_time, abs=0.1)
    assert attempt.memory_method in ("rss", "pss", "max_rss")
    assert "field.project" not in attempt.raw


def test_a_limit_of_watch_is_read_back(tmp_path: Path) -> None:
    watch(tmp_path, "--limit", "wall_time=0.2s", "--summary", "s.json", "--", "/bin/sleep", "9")
    attempt = said_of(summaries, Log.open(tmp_path / "s.json")).only
    assert (attempt.outcome, attempt.exhausted) == (Outcome.EXHAUSTED, Resource.WALL_TIME)
    assert attempt.allocated.wall_time == 0.2


def test_a_spool_is_read_back(tmp_path: Path) -> None:
    for _ in range(2):
        watch(tmp_path, "--spool", "spool", "--", "/bin/true")
    files = sorted((tmp_path / "spool").iterdir())
    assert len(files) == 2
    assert all(said_of(summaries, Log.open(file)).only.outcome is Outcome.DONE for file in files)
    joined = "\n".join(file.read_text() for file in files)
    assert len(said(summaries, joined).attempts) == 2


def test_what_cctools_wrote_is_read(tmp_path: Path, tool: ToolFinder) -> None:
    monitor = tool("resource_monitor", "coop-computing-tools")
    command = [monitor, "-O", "s", "-V", "task_id: 7", "--", "/bin/sh", "-c", "sleep 0.2; exit 3"]
    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    log = Log.open(tmp_path / "s.summary")
    assert summaries.recognises(log.head)
    attempt = said_of(summaries, log).only
    assert (attempt.outcome, attempt.exit_status, attempt.task) == (Outcome.FAILED, 3, "7")
    assert attempt.used.wall_time == pytest.approx(0.3, abs=0.3)
    assert attempt.used.memory is not None


amount = st.none() | st.integers(0, 10**6) | st.floats(0, 1e6)
names = {"wall_time": "s", "cpu_time": "s", "memory": "MB", "disk": "MB", "cores": "cores"}


@given(
    st.lists(st.fixed_dictionaries(dict.fromkeys(names, amount)), min_size=1, max_size=5), st.sampled_from([None, 2])
)
def test_what_was_written_in_any_shape_is_read_back(jobs: list[dict[str, float | None]], indent: int | None) -> None:
    jobs[0] |= {"wall_time": jobs[0]["wall_time"] or 0}
    facts = [{name: [value, names[name]] for name, value in job.items() if value is not None} for job in jobs]
    for text in (json.dumps(facts, indent=indent), "\n".join(json.dumps(one, indent=indent) for one in facts)):
        found = said(summaries, text)
        assert found.skipped == []
        for attempt, job in zip(found.attempts, jobs, strict=True):
            for name, value in job.items():
                base = round(value * MB) if value is not None and names[name] == "MB" else value
                assert getattr(attempt.used, name) == base


def test_damage_never_crashes_it() -> None:
    text = f"{summary()}\n{summary(limits_exceeded={'memory': [1, 'MB']}, exit_type='limits')}\n{summary()}\n"
    for _, found in survives(summaries, text):
        assert found.attempts or found.skipped
