"""WfFormat instances, old and new."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from tests.strategies import workflows
from tonnage.errors import InputError
from tonnage.jobs import Amounts
from tonnage.workflow import Task, Workflow, read
from tonnage.workflow.formats.wfformat import render


def load(folder: Path, value: object) -> Workflow:
    path = folder / "instance.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return read(path)


def instance(tasks: list[dict[str, object]], executed: list[dict[str, object]], **top: object) -> dict[str, object]:
    files = [{"id": "in", "sizeInBytes": 100}, {"id": "mid", "sizeInBytes": 10}]
    specification = {"tasks": tasks, "files": files}
    return {
        "name": "demo",
        "schemaVersion": "1.5",
        "workflow": {"specification": specification, "execution": {"tasks": executed}},
        **top,
    }


FIRST: dict[str, object] = {
    "name": "align_ID01",
    "id": "align_ID01",
    "parents": [],
    "children": ["join_ID02"],
    "inputFiles": ["in"],
    "outputFiles": ["mid"],
}
SECOND: dict[str, object] = {
    "name": "join_ID02",
    "id": "join_ID02",
    "parents": ["align_ID01"],
    "children": [],
    "inputFiles": ["mid"],
    "outputFiles": [],
}


def test_version_1_5(tmp_path: Path) -> None:
    ran: dict[str, object] = {
        "id": "align_ID01",
        "runtimeInSeconds": 3.5,
        "coreCount": 2,
        "memoryInBytes": 5_000_000,
        "command": {"program": "bwa", "arguments": ["mem", "in"]},
    }
    workflow = load(tmp_path, instance([FIRST, SECOND], [ran]))
    first, second = workflow.tasks
    assert (first.command, first.category, first.input_bytes) == ("bwa mem in", "bwa", 100)
    assert first.expected == Amounts.of(wall_time=3.5, memory=5_000_000)
    assert first.request == Amounts.of(cores=2)
    assert (second.command, second.category, second.expected.wall_time) == (None, "join", None)
    assert workflow.graph.edges == 1


def test_versions_before_1_5(tmp_path: Path) -> None:
    first = {
        "name": "a",
        "runtime": 2,
        "memory": 2048,
        "parents": [],
        "files": [{"link": "input", "name": "in", "size": 9}, {"link": "output", "name": "out", "size": 1}],
        "command": {"program": "p"},
    }
    second = {"name": "b", "runtimeInSeconds": 4, "parents": ["a"], "children": [], "files": []}
    for key in ("tasks", "jobs"):
        workflow = load(tmp_path, {"name": "old", "schemaVersion": "1.3", "workflow": {key: [first, second]}})
        one, two = workflow.tasks
        assert (one.inputs, one.outputs, one.input_bytes) == (("in",), ("out",), 9)
        assert one.expected == Amounts.of(wall_time=2, memory=2048 * 1024)
        assert two.expected == Amounts.of(wall_time=4)
        assert workflow.graph.edges == 1


def test_memory_that_cannot_be_bytes_is_taken_as_kib_and_says_so(tmp_path: Path) -> None:
    ran: list[dict[str, object]] = [
        {"id": "align_ID01", "runtimeInSeconds": 1, "memoryInBytes": 75016},
        {"id": "join_ID02", "runtimeInSeconds": 1, "memoryInBytes": 0},
    ]
    workflow = load(tmp_path, instance([FIRST, SECOND], ran))
    assert [task.expected.memory for task in workflow.tasks] == [75016 * 1024, None]
    assert workflow.source is not None
    assert "interpreted as KiB" in workflow.source.warnings[0]


def test_run_times_that_are_none_and_unknown_records_are_warnings(tmp_path: Path) -> None:
    ran: list[dict[str, object]] = [
        {"id": "align_ID01", "runtimeInSeconds": "ten"},
        {"id": "join_ID02", "runtimeInSeconds": -3},
        {"id": "gone", "runtimeInSeconds": 1},
    ]
    workflow = load(tmp_path, instance([FIRST, SECOND], ran))
    assert [task.expected.wall_time for task in workflow.tasks] == [None, None]
    assert workflow.source is not None
    assert (
        'of 2 tasks is not a non-negative number and is ignored (first: ten of task "align_ID01")'
        in workflow.source.warnings[0]
    )
    assert "1 entries" in workflow.source.warnings[1]


def test_a_makeflow_instance_repeats_its_program(tmp_path: Path) -> None:
    ran: dict[str, object] = {
        "id": "align_ID01",
        "runtimeInSeconds": 1,
        "command": {"program": "bwa", "arguments": ["./bwa", "mem"]},
    }
    for key in ("runtimeSystem", "wms"):  # the key before version 1.5
        workflow = load(tmp_path, instance([FIRST, SECOND], [ran], **{key: {"name": "Makeflow"}}))
        assert workflow.tasks[0].command == "./bwa mem"


def test_a_whole_script_is_a_command_but_no_category_and_equal_names_give_way_to_ids(tmp_path: Path) -> None:
    tasks: list[dict[str, object]] = [
        {"name": "ALIGN", "id": f"ALIGN_{n}", "parents": [], "children": []} for n in (1, 2)
    ]
    ran: list[dict[str, object]] = [
        {"id": "ALIGN_1", "runtimeInSeconds": 1, "command": {"program": "gunzip \\\n x", "arguments": []}}
    ]
    workflow = load(tmp_path, instance(tasks, ran))
    assert [task.name for task in workflow.tasks] == ["ALIGN_1", "ALIGN_2"]
    assert workflow.categories == {"ALIGN": 2}
    assert workflow.tasks[0].command == "gunzip \\\n x"


@given(workflows())
def test_a_written_workflow_is_read_back_whole(tmp_path_factory: pytest.TempPathFactory, workflow: Workflow) -> None:
    path = tmp_path_factory.mktemp("round") / "made.json"
    path.write_text(render(workflow))
    again = read(path)
    assert again == workflow
    assert again.checksum == workflow.checksum


def test_written_ids_keep_to_the_schema_and_apart() -> None:
    workflow = Workflow.build("w", [Task("a+b"), Task("a_b"), Task("a b"), Task("a_b_2")], ([0, 1], [1, 2]))
    tasks = json.loads(render(workflow))["workflow"]["specification"]["tasks"]
    ids = [task["id"] for task in tasks]
    assert len(set(ids)) == 4
    assert all(character.isalnum() or character in "-_." for identity in ids for character in identity)
    assert [task["name"] for task in tasks] == ["a+b", "a_b", "a b", "a_b_2"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"workflow": {', "is not JSON"),
        ('{"workflow": {"tasks": [{"name": "\\ud800"}]}}', "half of a surrogate pair"),
        ('{"workflow": ' + '{"a":' * 100_000, "nested too deeply"),
        ({"schemaVersion": "1.5"}, 'neither WfFormat (key "workflow")'),
        ({"workflow": 3, "schemaVersion": "1.5"}, '"workflow" is missing or not an object'),
        ({"workflow": {"specification": {"tasks": 3}}}, '"tasks" must be a list'),
        ({"workflow": {"specification": {"tasks": [3]}}}, "tasks[0] must be an object"),
        ({"workflow": {"specification": {"tasks": []}}}, "contains no tasks"),
        ({"workflow": {"specification": {"tasks": [{"parents": []}]}}}, "neither id nor name"),
        (instance([FIRST, FIRST], []), "defined twice"),
        (instance([SECOND], []), '"align_ID01", which is not a task'),
        (instance([{**FIRST, "children": "x"}], []), '"children" of task'),
        (instance([{**FIRST, "children": [], "tonnage": {"color": 1}}], []), "is damaged"),
        ('{"workflow": {"a": 1' + "0" * 5000 + "}}", "is not JSON|contains no tasks"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_said(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, value)
    assert any(part in caught.value.message for part in message.split("|")), caught.value
