"""The summary and the series: their contents, and that other tools can read them."""

import csv
import json
import os
import re
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ToolFinder
from tests.watch.conftest import MB, Watched
from tonnage import Summary
from tonnage.errors import InputError
from tonnage.watch.record import quoted, render

Watch = Callable[..., Watched]

SCHEMA = json.loads(files("tonnage.watch").joinpath("summary.schema.json").read_text())
# The fields of summaries according to cctools' manual, repeated here.
CCTOOLS_UNITS = {
    "start": "s",
    "end": "s",
    "wall_time": "s",
    "cpu_time": "s",
    "memory": "MB",
    "virtual_memory": "MB",
    "swap_memory": "MB",
    "disk": "MB",
    "bytes_read": "MB",
    "bytes_written": "MB",
    "cores": "cores",
    "cores_avg": "cores",
    "machine_cpus": "cores",
    "max_concurrent_processes": "procs",
    "total_processes": "procs",
    "total_files": "files",
    "context_switches": "switches",
}
ENDINGS = {
    "normal": ([], ["/bin/sh", "-c", "sleep 0.05; exit 3"]),
    "signal": ([], ["/bin/sh", "-c", "sleep 0.05; kill -USR1 $$"]),
    "limits": (["--limit", "wall_time=0.1s", "--limit", "processes=9"], ["/bin/sleep", "60"]),
    "short": ([], ["/bin/true"]),
}


def facts_of(result: Watched) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(result.path.read_text())
    return facts


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_summary_follows_the_published_schema(ending: str, watched: Watch) -> None:
    options, command = ENDINGS[ending]
    about = ["--category", "align", "--workflow", "w", "--field", "sample=NA12878", "--field", "x=y=z"]
    facts = facts_of(watched(*options, *about, command=command))
    jsonschema.validate(facts, SCHEMA)
    assert (facts["category"], facts["workflow"]) == ("align", "w")
    assert (facts["field.sample"], facts["field.x"]) == ("NA12878", "y=z")


def test_the_schema_refuses_what_is_no_summary() -> None:
    wrongs: list[object] = [{}, {"memory": 3}, []]
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_a_reader_of_cctools_format_finds_what_it_expects(watched: Watch, actor: str) -> None:
    facts = facts_of(
        watched(
            command=[actor, *["take", "50", "write", "f", "10", "read", "f", "fork", "{", "hold", "0.2", "}", "wait"]]
        )
    )
    for name, unit in CCTOOLS_UNITS.items():
        value, found = facts[name]
        assert found == unit, name
        assert value >= 0, name
    assert facts["memory"][0] == pytest.approx(51, abs=3)
    assert facts["bytes_written"][0] == pytest.approx(10, abs=0.1)
    assert facts["end"][0] - facts["start"][0] == pytest.approx(facts["wall_time"][0], abs=0.01)
    assert {name for name, value in facts.items() if isinstance(value, dict)} <= {"limits_exceeded", "peak_times"}
    assert facts["exit_type"] == "normal"
    assert isinstance(facts["exit_status"], int)


def test_cctools_own_monitor_reads_our_summary(watched: Watch, actor: str, tool: ToolFinder, workdir: Path) -> None:
    """resource_monitor accepts a summary as limits, and exits on anything not in its format."""
    monitor = tool("resource_monitor", "coop-computing-tools")
    result = watched(command=[actor, *["take", "20", "hold", "0.2"]])
    facts = facts_of(result)

    def theirs(limits: dict[str, Any], *command: str) -> tuple[str, dict[str, Any]]:
        (workdir / "limits.json").write_text(json.dumps(limits))
        words = [monitor, "-l", str(workdir / "limits.json"), "-O", str(workdir / "theirs"), "--", *command]
        ended = subprocess.run(words, capture_output=True, text=True, cwd=workdir, check=False)
        text = (workdir / "theirs.summary").read_text() if ended.returncode >= 0 else "{}"
        summary: dict[str, Any] = json.JSONDecoder().raw_decode(text.strip())[0]
        return ended.stderr, summary

    assert "fatal" in theirs(facts | {"unknown": {"object": 1}}, "/bin/true")[0]
    assert "fatal" not in theirs(facts, "/bin/true")[0]
    _, stopped = theirs({"memory": facts["memory"]}, actor, *["take", "100", "hold", "60"])
    assert stopped["exit_type"] == "limits"
    assert stopped["limits_exceeded"]["memory"][0] == pytest.approx(facts["memory"][0], abs=1)  # it truncates fractions


def test_how_a_command_ended(watched: Watch) -> None:
    normal = watched(command=["/bin/sh", "-c", "exit 42"])
    assert (normal.status, normal.summary.exit_type, normal.summary.exit_status) == (42, "normal", 42)
    killed = watched(command=["/bin/sh", "-c", "kill -USR1 $$"])
    assert (killed.summary.exit_type, killed.summary.signal, killed.summary.exit_status) == ("signal", 10, 138)
    assert killed.status == -10


def test_the_command_stands_as_one_would_type_it(watched: Watch) -> None:
    words = ["/bin/echo", "two words", "it's", "", "$HOME", "a\nb"]
    facts = facts_of(watched(command=words))
    typed = subprocess.run(["/bin/sh", "-c", facts["command"]], capture_output=True, text=True, check=True)
    assert typed.stdout == "two words it's  $HOME a\nb\n"


def test_a_summary_goes_to_standard_output(monitor: list[str], workdir: Path) -> None:
    output = workdir / "output"
    with output.open("w") as stream:
        print("before", file=stream, flush=True)
        command = [*monitor, "--summary", "/dev/stdout", "--", "/bin/true"]
        subprocess.run(command, stdout=stream, cwd=workdir, check=True)
        print("after", file=stream, flush=True)
    lines = output.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert json.loads("\n".join(lines[1:-1]))["exit_status"] == 0


def test_a_spool_collects_summaries(monitor: list[str], workdir: Path) -> None:
    spool = workdir / "deep" / "spool"
    for _ in range(3):
        subprocess.run([*monitor, "--spool", str(spool), "--", "/bin/true"], cwd=workdir, check=True)
    assert len([Summary.read(path) for path in spool.glob("*.json")]) == 3
    assert list(spool.glob(".*")) == []


def test_without_a_summary_one_line_says_what_was_used(monitor: list[str], actor: str, workdir: Path) -> None:
    command = [*monitor, "--", actor, *["take", "50", "hold", "0.1"]]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=workdir, check=True)
    assert ended.stdout == ""
    assert ended.stderr.startswith("tonnage: ")
    assert re.search(r"5[34](\.\d)? MB memory", ended.stderr)
    assert "1 process" in ended.stderr


def test_the_series_has_a_row_for_each_sample(watched: Watch, actor: str, workdir: Path) -> None:
    path = workdir / "series.csv"
    words = "write f 30 take 50 fork { take 50 hold 0.6 } wait burn 0.2"
    result = watched("--series", str(path), "--interval", "0.05s", command=[actor, *words.split()])
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 3  # at least: a sample takes at most 1/60 of the time, and here each one looks closely
    times = [float(row["time"]) for row in rows]
    assert times == sorted(times)
    assert max(int(row["memory"] or 0) for row in rows) == pytest.approx(result.summary.memory, rel=0.01)
    assert max(int(row["disk"] or 0) for row in rows) == pytest.approx(30 * MB, rel=0.05), rows
    assert max(int(row["processes"]) for row in rows) == 2
    assert int(rows[-1]["bytes_written"]) == pytest.approx(30 * MB, rel=0.05)
    assert list(workdir.glob(".*")) == []


def test_files_appear_only_when_they_are_complete(monitor: list[str], workdir: Path) -> None:
    summary, series = workdir / "s.json", workdir / "s.csv"
    summary.write_text("from an earlier run")
    command = [*monitor, "--summary", str(summary), "--series", str(series), "--", "/bin/sleep", "0.5"]
    with subprocess.Popen(command, cwd=workdir) as process:
        while process.poll() is None:
            text = summary.read_text()
            assert text == "from an earlier run" or json.loads(text)
            assert not series.exists() or series.read_text().startswith("time,")
    assert json.loads(summary.read_text())["exit_status"] == 0
    assert series.read_text().startswith("time,")
    assert sorted(path.name for path in workdir.iterdir()) == ["s.csv", "s.json"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_rendered_json_is_read_back_by_the_json_module(value: object) -> None:
    assert json.loads(render(value)) == value


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20))
def test_a_quoted_word_is_one_word_to_a_shell(word: str) -> None:
    import shlex

    assert shlex.split(quoted(word)) == [word]


def test_summaries_of_cctools_are_read(tmp_path: Path) -> None:
    path = tmp_path / "theirs.summary"
    path.write_text(
        '{"executable_type":"dynamic","category":"align","command":"./a","exit_type":"normal","exit_status":0,'
        '"memory":[512,"MB"],"disk":[2,"GB"],"wall_time":[12.5,"s"],"cores":[1.5,"cores"],"gpus":[0,"gpus"],'
        '"total_processes":[3,"procs"],"peak_times":{"memory":[3.5,"s"]}}'
    )
    summary = Summary.read(path)
    assert (summary.memory, summary.disk, summary.wall_time, summary.cores) == (512 * MB, 2 * 2**30, 12.5, 1.5)
    assert (summary.total_processes, summary.peak_times) == (3, {"memory": 3.5})
    assert summary.ok


@pytest.mark.parametrize(
    "text", ["", "[]", '{"memory": ["x", "MB"]}', '{"memory": {"a": 1}}', '{"peak_times": 3}', "\xff"]
)
def test_what_is_no_summary_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"summary\.json"):
        Summary.read(path)


def test_host_and_machine(watched: Watch) -> None:
    summary = watched(command=["/bin/true"]).summary
    assert summary.host == os.uname().nodename
    assert summary.machine_cpus == os.cpu_count()
