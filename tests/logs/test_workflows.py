"""Workflow files as logs: tasks with their run times."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given

from tests.logs.damage import said, said_of, survives
from tests.strategies import workflows as any_workflow
from tonnage.errors import InputError
from tonnage.logs import workflows
from tonnage.logs.log import Hints, Log
from tonnage.workflow import Workflow, read
from tonnage.workflow.formats.wfformat import render

DAX = """<?xml version="1.0"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" name="montage">
  <job id="ID1" name="mProject" runtime="13.5">
    <argument>-X a.fits</argument>
    <uses file="a.fits" link="input" size="100"/><uses file="b.fits" link="output" size="7"/>
    <profile namespace="pegasus" key="memory">512</profile>
  </job>
  <job id="ID2" name="mDiff"/>
  <child ref="ID2"><parent ref="ID1"/></child>
</adag>
"""
PEGASUS = """x-pegasus: {apiLang: python}
pegasus: "5.0"
name: w
jobs:
  - {type: job, name: preprocess, id: ID1, runtime: "60", arguments: [-i, f.a], uses: []}
  - {type: job, name: analyze, id: ID2, arguments: [], uses: []}
jobDependencies: [{id: ID1, children: [ID2]}]
"""


def instance(*memory: float | None, producer: str = "Pegasus") -> str:
    """Return a WfFormat instance whose tasks used that much memory."""
    ids = [f"t{number}" for number in range(len(memory))]
    specified = [
        {"name": name, "id": name, "parents": [], "children": [], "inputFiles": ["f"], "outputFiles": []}
        for name in ids
    ]
    executed = [
        {"id": name, "runtimeInSeconds": 2.5, "coreCount": 2, "command": {"program": "bin/bwa", "arguments": ["mem"]}}
        | ({} if peak is None else {"memoryInBytes": peak})
        for name, peak in zip(ids, memory, strict=True)
    ]
    body = {
        "specification": {"tasks": specified, "files": [{"id": "f", "sizeInBytes": 77}]},
        "execution": {"makespanInSeconds": 5, "executedAt": "2024-01-01T00:00:00Z", "tasks": executed},
    }
    return json.dumps({"name": "blast", "schemaVersion": "1.5", "runtimeSystem": {"name": producer}, "workflow": body})


def test_a_task_of_wfformat_is_read() -> None:
    found = said(workflows, instance(5 * 10**8), "x/run-3.json")
    attempt = found.only
    assert (attempt.task, attempt.category, attempt.workflow, attempt.run) == ("t0", "bin/bwa", "blast", "run-3")
    assert (attempt.command, attempt.executable) == ("bin/bwa mem", "bwa")
    assert (attempt.used.wall_time, attempt.used.memory, attempt.requested.cores) == (2.5, 5 * 10**8, 2.0)
    assert (attempt.inputs, attempt.outputs, attempt.input_bytes) == (("f",), (), 77)
    assert attempt.workflow_checksum is not None
    assert len(attempt.workflow_checksum) == 64
    assert found.assumed == []


def test_a_job_of_a_dax_is_read_and_one_without_run_time_is_skipped() -> None:
    found = said(workflows, DAX, "m.dax", Hints(label="monday"))
    (attempt,) = found.attempts
    assert (attempt.task, attempt.category, attempt.workflow, attempt.run) == ("ID1", "mProject", "montage", "monday")
    assert attempt.command == "mProject -X a.fits"
    assert attempt.used.wall_time == 13.5
    assert (attempt.inputs, attempt.outputs, attempt.input_bytes) == (("a.fits",), ("b.fits",), 100)
    assert attempt.requested.memory == 512 * 2**20
    assert [(entry.line, entry.reason, entry.found) for entry in found.skipped] == [
        (None, "its run time is unknown", "ID2")
    ]


def test_pegasus_yaml_is_read() -> None:
    found = said(workflows, PEGASUS, "w.yml")
    assert [(attempt.task, attempt.used.wall_time) for attempt in found.attempts] == [("ID1", 60.0)]
    assert [entry.found for entry in found.skipped] == ["ID2"]


def test_memory_that_cannot_be_in_bytes_is_taken_as_kib_and_that_is_said() -> None:
    found = said(workflows, instance(90_000, 700_000))
    assert [attempt.used.memory for attempt in found.attempts] == [90_000 * 1024, 700_000 * 1024]
    assert found.assumed == ["memoryInBytes is at most 700,000 in this file: interpreted as KiB"]


@pytest.mark.parametrize(("unit", "size"), [("B", 1), ("KiB", 1024), ("kB", 1000), ("MB", 10**6)])
@pytest.mark.parametrize("producer", ["Pegasus", "Tonnage"])
def test_the_user_may_know_the_unit(unit: str, size: int, producer: str) -> None:
    found = said(workflows, instance(700, producer=producer), hints=Hints(units={"memory": unit}))
    assert found.only.used.memory == 700 * size
    assert found.assumed == []


def test_a_unit_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="parsec"):
        said(workflows, instance(700), hints=Hints(units={"memory": "parsec"}))


def test_memory_alone_is_worth_an_attempt() -> None:
    text = instance(5 * 10**8).replace('"runtimeInSeconds": 2.5, ', "")
    attempt = said(workflows, text).only
    assert (attempt.used.wall_time, attempt.used.memory) == (None, 5 * 10**8)


@pytest.mark.parametrize("text", [DAX, PEGASUS, instance(1)])
def test_workflows_are_recognised_from_their_beginning(text: str) -> None:
    assert workflows.recognises(text)
    assert workflows.recognises(text[: len(text) * 2 // 3])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "JOB A a.sub\n",
        "<html></html>",
        '{"rules": []}',
        "a: b -> c",
        '{"workflow": "w", "wall_time": [1, "s"]}',
        "[]",
    ],
)
def test_other_files_are_refused(text: str) -> None:
    assert not workflows.recognises(text)
    with pytest.raises(InputError, match="expected WfFormat, Pegasus DAX or Pegasus YAML"):
        said(workflows, text)


def test_a_damaged_workflow_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"m\.dax:4: is not well-formed"):
        said(workflows, DAX.replace("<argument>", "<argument"), "m.dax")


@given(any_workflow(special=False))
def test_what_was_written_is_read_back(workflow: Workflow) -> None:
    found = said(workflows, render(workflow), "made.json")
    known = [task for task in workflow.tasks if task.expected.wall_time is not None or task.expected.memory is not None]
    assert [attempt.task for attempt in found.attempts] == [task.name for task in known]
    assert len(found.attempts) + len(found.skipped) == len(workflow)
    for attempt, task in zip(found.attempts, known, strict=True):
        assert (attempt.used, attempt.requested) == (task.expected, task.request)
        assert (attempt.inputs, attempt.outputs, attempt.command) == (task.inputs, task.outputs, task.command)
        assert attempt.workflow_checksum == workflow.checksum
    assert len({attempt.row for attempt in found.attempts}) == len(known)


@pytest.mark.parametrize("text", [DAX, PEGASUS, instance(1, 10**7)], ids=["dax", "pegasus", "wfformat"])
def test_damage_never_crashes_it(text: str) -> None:
    for _, found in survives(workflows, text):
        assert found.attempts or found.skipped


@pytest.mark.parametrize(("step", "jobs"), [(6, 2843), pytest.param(1, 8488, marks=pytest.mark.long)])
def test_real_instances(data: Path, step: int, jobs: int) -> None:
    total = 0
    for path in sorted(data.glob("workflows/wfcommons/*.json"))[::step]:
        executed = json.loads(path.read_text())["workflow"]["execution"]["tasks"]
        log = Log.open(path)
        assert workflows.recognises(log.head)
        found = said_of(workflows, log)
        assert len(found.attempts) == sum("runtimeInSeconds" in task for task in executed)
        assert found.skipped == []
        total += len(found.attempts)
    assert total == jobs


@pytest.mark.parametrize(("step", "jobs"), [(6, 1145), pytest.param(1, 8049, marks=pytest.mark.long)])
def test_real_dax_files(data: Path, step: int, jobs: int) -> None:
    total = 0
    for path in sorted(data.glob("workflows/glume/*.dax"))[::step]:
        log = Log.open(path)
        assert workflows.recognises(log.head)
        found = said_of(workflows, log)
        assert len(found.attempts) == len(re.findall(r"<job\b[^>]*\bruntime=", path.read_text()))
        assert found.skipped == []
        assert {attempt.workflow_checksum for attempt in found.attempts} == {read(path).checksum}
        total += len(found.attempts)
    assert total == jobs
