"""Makeflow's JSON and JX forms."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ToolFinder
from tests.workflow.real_makeflow import any_workflow, as_the_real_tool_sees, dependencies
from tonnage.errors import InputError
from tonnage.files import Document
from tonnage.jobs import Amounts
from tonnage.workflow import SpecialTask, Task, Workflow, read
from tonnage.workflow.formats import makeflow_json

_KEYS = (
    *("command", "workflow", "inputs", "outputs", "category", "resources", "environment", "tonnage", "dag_name"),
    *("cores", "memory", "disk", "wall-time", "name", "request", "directory", "priority", "input_bytes", "default"),
)


def warnings(workflow: Workflow) -> tuple[str, ...]:
    assert workflow.source is not None
    return workflow.source.warnings


def load(top: object) -> Workflow:
    text = top if isinstance(top, str) else json.dumps(top)
    return makeflow_json.read(Document(Path("demo.jx"), text.encode()))


def one(**rule: object) -> dict[str, object]:
    return {"rules": [{"command": "cmd", "outputs": ["out"], **rule}]}


def test_rules_become_tasks() -> None:
    first = {"command": "./prog  'in' > mid", "inputs": ["in", "prog"], "outputs": ["mid"], "local_job": True}
    files = {"input": [{"dag_name": "mid", "task_name": "m"}, {"dag_name": "x"}], "output": ["out"]}
    workflow = load({"rules": [{"command": "cat mid\ncat x", **files}, first]})
    assert workflow.tasks == (
        Task("out", "cat mid\ncat x", "cat", ("mid", "x"), ("out",)),
        Task("mid", "./prog  'in' > mid", "prog", ("in", "prog"), ("mid",)),
    )
    assert workflow.graph.edge_parents().tolist() == [1]
    assert workflow.source is not None
    assert (workflow.source.format, workflow.source.warnings) == ("makeflow-json", ())


def test_what_a_rule_asks_for_wins_over_its_category_and_that_over_the_default() -> None:
    categories = {
        "default": {"resources": {"cores": 1, "memory": 10, "disk": 10}},
        "big": {"resources": {"memory": 100, "wall-time": 60, "gpus": 1}},
    }
    top = {"categories": categories, **one(category="big", resources={"wall-time": 90})}
    task = load(top).tasks[0]
    assert task.category == "big"
    assert task.request == Amounts.of(cores=1, memory=100 * 2**20, disk=10 * 2**20, wall_time=90)
    assert load({**top, **one()}).tasks[0].category == "cmd"
    named = load({**top, **one(), "default_category": "big"}).tasks[0]
    assert (named.category, named.request) == ("big", Amounts.of(memory=100 * 2**20, wall_time=60))


def test_environments_travel_with_the_command() -> None:
    top = {
        "environment": {"A": "1", "B": "2"},
        "categories": {"big": {"environment": {"B": "3 4", "C": "5"}}},
        **one(category="big", environment={"C": "$6"}),
    }
    assert load(top).tasks[0].command == "export A=1 B='3 4' C='$6'; cmd"


def test_a_workflow_inside_is_one_task_without_a_command() -> None:
    workflow = load({"rules": [{"workflow": "inner.jx", "args": {"n": 1}, "outputs": ["out"]}]})
    assert workflow.tasks == (Task("out", None, "task", (), ("out",)),)
    assert warnings(workflow) == ('rule 1 runs the workflow "inner.jx", which is not read: it has no command',)


def test_jx_is_evaluated() -> None:
    text = """
    # five simulations and their sum
    {
        "define": { "N": 5, "NAME": template("out.{N}"), },
        "rules": [
            { "command": "./simulate " + i + " > out." + i, "outputs": [ "out." + i ], } for i in range(N),
            { "command": "cat", "inputs": [ "out." + i for i in range(N) ], "outputs": [ NAME ] },
        ],
    }
    """
    workflow = load(text)
    assert [task.command for task in workflow.tasks][4:] == ["./simulate 4 > out.4", "cat"]
    assert workflow.tasks[-1].name == "out.5"
    assert workflow.graph.edges == 5


@pytest.mark.parametrize(
    ("top", "line", "message"),
    [
        ('{"rules": [\n{"command": "x"', 2, "is not closed"),
        ('{"rules": [\n\nfoo]}', 3, '"foo" is not defined'),
        ('{"rules": [], \n"rules": []}', 2, "given twice"),
        ('{"rules": [\nNaN]}', 2, '"NaN" is not defined'),
        ('{"rules": ' + "[" * 100_000, 1, "nested"),
        ('{"rules": [{"command": listdir(".")[0]}]}', 1, "outside the file"),
        ("[]", None, "is not a Makeflow"),
        ({"rules": {}}, None, "is not a Makeflow"),
        ({"rules": []}, None, "contains no rules"),
        ({"rules": [1]}, None, "rule 1 is not an object"),
        ({"rules": [{"outputs": ["a"]}]}, None, "neither a command nor a workflow"),
        (one(workflow="x"), None, "both a command and a workflow"),
        (one(command=3), None, '"command" is 3; expected a string'),
        (one(inputs="x"), None, "inputs must be a list"),
        (one(inputs=[3]), None, "3 is not an input file"),
        (one(outputs=[{"task_name": "x"}]), None, "is not an output file"),
        (one(category=3), None, '"category" is 3'),
        (one(resources={"cores": "many"}), None, 'cores is "many"; expected a number'),
        (one(resources={"memory": -1}), None, "memory is -1"),
        (one(resources=[]), None, '"resources" is not an object'),
        (one(environment={"A": 1}), None, 'variable "A"'),
        (one(environment={"A; rm": "1"}), None, 'variable "A; rm"'),
        ({**one(), "categories": []}, None, '"categories" is not an object'),
        (one(inputs=["out"]), None, "waits for itself"),
        ({"rules": [*one()["rules"], *one()["rules"]]}, None, "already written by another rule"),  # type: ignore[misc]
        (one(tonnage={"name": 3}), None, "note"),
        (one(tonnage={"wishes": 3}), None, "note"),
    ],
)
def test_errors_say_where_and_what(top: object, line: int | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(top)
    assert message in caught.value.message
    assert caught.value.line == line


_SHARED = '{"define": {"x0": ["a"], ' + ", ".join(f'"x{n}": [x{n - 1}, x{n - 1}]' for n in range(1, 300)) + "}, "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_SHARED + '"rules": [{"command": x299}]}', "something very long"),
        (_SHARED + '"rules": [{"command": "a", "inputs": [x299]}]}', "is not an input file"),
        (_SHARED + '"rules": [{"command": "a", "tonnage": {"name": x25}}]}', "note is too long"),
        (_SHARED + '"rules": [{"command": "a", "tonnage": {"name": x299}}]}', "note is too long"),
        (
            '{"define": {"L": ["f" for i in range(9999)]}, "rules": [{"command": "a", "inputs": L} for i in L]}',
            "files",
        ),
        (
            '{"environment": {"A":join(["x" for i in range(90000)])}, "rules": [{"command":"a"} for i in range(9999)]}',
            "exports more than",
        ),
    ],
)
@pytest.mark.parametrize(("files", "note"), [(200_000, 2**14), pytest.param(20_000_000, 2**24, marks=pytest.mark.long)])
def test_a_small_file_cannot_become_a_huge_workflow(
    monkeypatch: pytest.MonkeyPatch, text: str, message: str, files: int, note: int
) -> None:
    monkeypatch.setattr(makeflow_json, "_MOST_FILES", files)
    monkeypatch.setattr(makeflow_json, "_LONGEST_NOTE", note)
    with pytest.raises(InputError) as caught:
        load(text)
    assert message in caught.value.message


@pytest.mark.parametrize("most", [20_000, pytest.param(2_000_000, marks=pytest.mark.long)])
def test_a_small_file_cannot_have_more_rules_than_are_read(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(makeflow_json, "_MOST_RULES", most)
    with pytest.raises(InputError, match=f"contains {most + 1:,} rules"):
        load(f'{{"define": {{"R": {{"command": "a"}}}}, "rules": [R for i in range({most + 1})]}}')


_anything: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(_KEYS), _anything), min_size=1, max_size=3), _anything)
def test_any_json_is_a_workflow_or_an_error(rules: list[dict[str, object]], more: object) -> None:
    for rule in rules:
        rule.setdefault("command", "cmd")
    try:
        assert len(load({"rules": rules, "categories": more})) > 0
    except InputError:
        return


def test_it_is_recognised() -> None:
    assert makeflow_json.recognises('\n# comment {\n {"define": {}, "rules" : []}')
    assert not makeflow_json.recognises('{"workflow": {}}')
    assert not makeflow_json.recognises('"rules": []')


@given(any_workflow())
def test_a_written_workflow_is_read_back_whole(workflow: Workflow) -> None:
    text = makeflow_json.render(workflow)
    again = load(text)
    assert again.tasks == workflow.tasks
    assert again.graph == workflow.graph
    assert again.checksum == workflow.checksum
    assert warnings(again) == ()
    assert makeflow_json.recognises(text)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(InputError, match="special nodes"):
        makeflow_json.render(Workflow.build("w", [Task("a")], special=[SpecialTask("final", Task("z"))]))
    with pytest.raises(InputError, match="not all finite"):
        makeflow_json.render(Workflow.build("w", [Task("a", request=Amounts.of(cores=float("inf")))]))


def test_real_files(data: Path) -> None:
    folder = data / "workflows" / "makeflow"
    found = {name: read(folder / name) for name in ("blast.jx", "blast.json", "bwa.json", "hecil.jx")}
    assert {name: (len(one), one.graph.edges) for name, one in found.items()} == {
        "blast.jx": (23, 60),
        "blast.json": (23, 60),
        "bwa.json": (103, 300),
        "hecil.jx": (35, 84),
    }
    assert found["blast.jx"].tasks == found["blast.json"].tasks
    assert found["blast.jx"].graph == found["blast.json"].graph


@pytest.mark.parametrize("name", ["blast.jx", "hecil.jx"])
def test_the_real_tool_computes_the_same_workflow(data: Path, tool: ToolFinder, tmp_path: Path, name: str) -> None:
    path = data / "workflows" / "makeflow" / name
    program = tool("jx2json", "coop-computing-tools")
    ran = subprocess.run([program, path], capture_output=True, text=True, check=True)
    ours, theirs = read(path), load(ran.stdout)
    assert ours.tasks == theirs.tasks
    assert ours.graph == theirs.graph
    seen = as_the_real_tool_sees(tool, tmp_path, path.read_text(), "--jx")
    assert len(seen) == len(ours)
    assert dependencies(seen) == set(zip(ours.graph.edge_parents().tolist(), ours.graph.child.tolist(), strict=True))
