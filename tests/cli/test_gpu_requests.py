"""A task that asks for GPUs gets them from the batch system, or is refused: it never runs without."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tonnage.jobs import Amounts
from tonnage.workflow import Workflow, read, write

FLOW = "a:\n@GPUS=2\n\techo a > a\nb:\n\techo b > b\nc: a\n@GPUS=0\n\techo c > c\n"
POOL = ("--on", "htcondor", "--machine", "cores=4,memory=8GB,disk=8GB", "--dry-run")


@pytest.fixture
def folder(slurm_programs: Path) -> Path:
    (slurm_programs / "w.mf").write_text(FLOW)
    return slurm_programs


@pytest.fixture
def call(folder: Path, command_line: CommandLine) -> Call:
    return partial(command_line, status=None)


@pytest.mark.parametrize("options", [(), ("--on", "slurm", "--pack", "glume")])
def test_what_cannot_be_passed_on_is_refused(options: tuple[str, ...], folder: Path, call: Call) -> None:
    said = call("run", "w.mf", *options, "--dry-run")
    assert said.status == 2
    assert re.search(r'w\.mf: task "a" requests 2 GPUs', said.stderr)
    assert ("--pack per-task" if "slurm" in options else "--on slurm") in said.stderr
    assert not (folder / ".tonnage").exists()


def test_slurm_is_asked_for_them(folder: Path, call: Call) -> None:
    said = call("run", "w.mf", "--on", "slurm", "--dry-run")
    scripts = said.stdout.split("#!/bin/sh\n")[1:]
    assert [script.count("--gres=gpu:2") for script in scripts] == [1, 0]  # so that they are no array


def test_htcondor_is_asked_for_them(folder: Path, call: Call) -> None:
    assert call("run", "w.mf", *POOL).status == 0
    (dag,) = folder.rglob("workflow.dag")
    asking = {path: "request_gpus = $(gpus)" in path.read_text() for path in dag.parent.glob("*.sub")}
    found = dict(re.findall(r"^JOB (\w) (\S+)$", dag.read_text(), re.MULTILINE))
    assert {task: asking[Path(path)] for task, path in found.items()} == {"a": True, "b": False, "c": False}
    assert re.search(r'^VARS a .*gpus="2"', dag.read_text(), re.MULTILINE)


@pytest.mark.parametrize("words", [("show", "w.mf"), ("rank", "w.mf"), ("run", "none.mf", "--dry-run")])
def test_everything_else_works(words: tuple[str, ...], folder: Path, call: Call) -> None:
    (folder / "none.mf").write_text("a:\n@GPUS=0\n\techo a > a\n")
    said = call(*words)
    assert said.status == 0, said


def test_packing_is_still_compared_and_told_not_to_be_run(folder: Path, call: Call) -> None:
    tasks = [replace(task, expected=Amounts.of(wall_time=9)) for task in read(folder / "w.mf").tasks]
    write(Workflow.build("timed", tasks), folder / "timed.json")
    said = call("pack", "timed.json", "--queue", "slurm", "--strategy", "glume")
    assert said.status == 0
    assert 'task "a" requests 2 GPUs' in said.stderr


def test_show_tells_who_asks_for_gpus(folder: Path, call: Call) -> None:
    assert "2 GPUs (1 of 3)" in call("show", "w.mf").stdout
