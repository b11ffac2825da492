"""Pegasus 5 workflows in YAML."""

from pathlib import Path

import pytest

from tonnage.errors import InputError
from tonnage.jobs import Amounts
from tonnage.workflow import Workflow, read

HEAD = "pegasus: 5.0.4\nname: demo\n"


def load(folder: Path, text: str, name: str = "workflow.yml") -> Workflow:
    path = folder / name
    path.write_text(text)
    return read(path)


def test_what_pegasus_own_api_writes(tmp_path: Path) -> None:
    api = pytest.importorskip("Pegasus.api", reason="the package pegasus-wms.api is not installed")
    whole, part, result = api.File("f.a", size=1024), api.File("f.b"), api.File("f.c")
    first = api.Job("preprocess").add_args("-T", "3", "-i", whole, 7).add_inputs(whole).add_outputs(part)
    first.add_pegasus_profile(memory="2 GB", cores=2, runtime=100, diskspace="1 GB")
    second = (
        api.Job("analyse")
        .set_stdout("analyse.log")
        .add_inputs(part)
        .add_outputs(result)
        .add_condor_profile(request_memory="3 GB")
    )
    third = api.SubWorkflow("inner.yml", is_planned=False).add_inputs(result)
    written = api.Workflow("black-diamond").add_jobs(first, second, third)
    written.write(str(tmp_path / "workflow.yml"))

    workflow = read(tmp_path / "workflow.yml")
    assert workflow.source is not None
    assert (workflow.name, workflow.source.format) == ("black-diamond", "pegasus")
    one, two, three = workflow.tasks
    assert one.command == "preprocess -T 3 -i f.a 7"
    assert one.request == Amounts.of(cores=2, memory=2 * 2**30, disk=2**30)
    assert one.expected == Amounts.of(wall_time=100)
    assert one.input_bytes == 1024
    assert (two.command, two.category, two.request.memory) == ("analyse > analyse.log", "analyse", 3 * 2**30)
    assert (three.command, three.category) == (None, "inner.yml")
    assert list(zip(workflow.graph.edge_parents().tolist(), workflow.graph.child.tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
    ]


def test_the_same_in_json(tmp_path: Path) -> None:
    job = '{"type": "job", "id": "a", "name": "x", "arguments": [], "uses": []}'
    text = f'{{"pegasus": "5.0", "name": "demo", "jobs": [{job}]}}'
    workflow = load(tmp_path, text, "workflow.json")
    assert workflow.source is not None
    assert (workflow.source.format, [task.name for task in workflow.tasks]) == ("pegasus", ["a"])


def test_anchors_are_understood(tmp_path: Path) -> None:
    text = HEAD + "jobs:\n- &j {id: a, name: x, uses: &u [{lfn: f, type: input}]}\n- {id: b, name: y, uses: *u}\n"
    assert [task.inputs for task in load(tmp_path, text).tasks] == [("f",), ("f",)]


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return HEAD + "\n".join(lines) + f"\njobs: *a{levels - 1}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "jobs: []\n", "contains no jobs"),
        (HEAD, 'has no "jobs"'),
        (HEAD + "jobs: 5\n", "jobs must be a list"),
        (HEAD + "jobs: [5]\n", "jobs[0] must be a mapping"),
        (HEAD + "jobs: [{name: x}]\n", "jobs[0] has no id"),
        (HEAD + "jobs: [{id: a}, {id: a}]\n", '"a" is defined twice'),
        (HEAD + "jobs: [{id: a, uses: [{type: input}]}]\n", "has no lfn"),
        (HEAD + "jobs: [{id: a}]\njobDependencies: [{id: a, children: [b]}]\n", '"b", which is not a task'),
        (HEAD + "jobs: [{id: a}]\njobDependencies: [{id: a, children: a}]\n", "children must be a list"),
        (HEAD + "jobs: [\n", "is not YAML"),
        (HEAD + "jobs: [*none]\n", "not YAML|no anchor"),
        (HEAD + "jobs: " + "[" * 100_000, "nested deeper"),
        (HEAD + "jobs:" + "".join(f"\n{' ' * n}- " for n in range(300)), "nested deeper|not YAML"),
        (bomb(12), "expands to more than"),
        (HEAD + "? [a]\n: b\njobs: []\n", "a key must be"),
        (HEAD + "x: !!python/object/apply:os.system ['false']\njobs: [{id: a}]\njobs: 3\n", "must be a list"),
    ],
    ids=lambda value: value[:40] if len(value) < 200 else "long",
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    assert any(part in caught.value.message for part in message.split("|")), caught.value
