"""A task that asks for GPUs keeps them in every format that can say so."""

from pathlib import Path

import pytest

from tonnage.errors import InputError
from tonnage.workflow import read, write

MAKEFLOW = "GPUS=1\nCATEGORY=train\nGPUS=2\na:\n\tx > a\nb:\n@GPUS=4\n\tx > b\nc:\n@GPUS=0\n\tx > c\n"
MAKEFLOW_JSON = """{"categories": {"train": {"resources": {"gpus": 2}}}, "rules": [
{"command": "x", "outputs": ["a"], "category": "train"},
{"command": "x", "outputs": ["b"], "category": "train", "resources": {"gpus": 3.5}},
{"command": "x", "outputs": ["c"], "category": "train", "resources": {"gpus": 0}}]}"""
DAGMAN = """SUBMIT-DESCRIPTION train {
    executable = /bin/x
    request_GPUs = $(gpus:2)
}
JOB a train
JOB b train
VARS b gpus="4"
JOB c {
    executable = /bin/x
}
"""
PEGASUS = """pegasus: "5.0"
name: flow
jobs:
- {type: job, id: a, name: x, uses: [], profiles: {pegasus: {gpus: 2}}}
- {type: job, id: b, name: x, uses: [], profiles: {condor: {request_gpus: 4}}}
- {type: job, id: c, name: x, uses: []}
"""
DAX = """<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name="flow">
<job id="a" name="x"><profile namespace="pegasus" key="gpus">2</profile></job>
<job id="b" name="x"><profile namespace="condor" key="request_gpus">4</profile></job>
<job id="c" name="x"/>
</adag>"""


def asked(path: Path) -> dict[str, int]:
    return {task.name: task.gpus for task in read(path).tasks}


@pytest.mark.parametrize(
    ("name", "text"),
    [("w.mf", MAKEFLOW), ("w.jx", MAKEFLOW_JSON), ("w.dag", DAGMAN), ("w.yml", PEGASUS), ("w.dax", DAX)],
)
def test_gpus_are_read_and_written(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert asked(path) == {"a": 2, "b": 4, "c": 0}
    for other in ("copy.mf", "copy.jx", "copy.dag", "copy.json"):
        write(read(path), tmp_path / other)
        assert asked(tmp_path / other) == {"a": 2, "b": 4, "c": 0}


def test_other_tools_find_them_in_their_own_words(tmp_path: Path) -> None:
    path = tmp_path / "w.mf"
    path.write_text("a:\n@GPUS=3\n\tx > a\n")
    for name, words in (("copy.mf", "@GPUS=3\n"), ("copy.jx", '"gpus": 3'), ("copy.dag", "request_gpus = $(gpus)")):
        write(read(path), tmp_path / name)
        assert words in (tmp_path / name).read_text()


def test_an_expression_asks_for_one_at_least_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "w.dag"
    path.write_text("JOB a {\nexecutable = /bin/x\nrequest_gpus = 1 + $(more)\n}\n")
    workflow = read(path)
    assert workflow.tasks[0].gpus == 1
    assert workflow.source is not None
    assert "request_gpus = 1 +  is an expression that only a pool can evaluate: treated as 1" in str(
        workflow.source.warnings
    )


@pytest.mark.parametrize("amount", ["one", "-1", "$(UNKNOWN)"])
def test_an_unreadable_request_of_a_makeflow_is_refused_rather_than_dropped(tmp_path: Path, amount: str) -> None:
    (tmp_path / "w.mf").write_text(f"GPUS={amount}\na:\n\tx > a\n")
    with pytest.raises(InputError, match=r'w\.mf:2: GPUS is ".*"; expected a number'):
        read(tmp_path / "w.mf")
