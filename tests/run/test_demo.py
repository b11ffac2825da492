"""The survey that ``make demo`` runs, in small: real processes, run twice, the second time with what was learnt."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tonnage.workflow import read

SURVEY = Path(__file__).resolve().parents[2] / "examples" / "survey" / "survey.py"


def call(*words: str, folder: Path) -> str:
    environment = {**os.environ, "TONNAGE_ARCHIVE": str(folder / "archive.db")}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    call(str(SURVEY), str(tmp_path), "--fields", "3", "--speed", "4", folder=tmp_path)
    return tmp_path


def test_a_second_run_wastes_less_and_retries_no_more(folder: Path) -> None:
    machine = "cores=8,memory=1GB"
    first, second = (
        json.loads(call("-m", "tonnage", "run", "survey.mf", "--machine", machine, "-q", "--json", folder=folder))
        for _ in range(2)
    )
    workflow = read(folder / "survey.mf")
    for result in (first, second):
        assert result["tasks"] == result["done"] == len(workflow) == 76
    assert all((folder / name).stat().st_size for task in workflow.tasks for name in task.outputs)
    assert waste(second) < waste(first)
    assert second["retried"] <= first["retried"]


def waste(result: dict[str, Any]) -> float:
    wasted: float = result["waste_fraction"]["memory"]
    return wasted


def test_the_same_survey_is_written_each_time(folder: Path) -> None:
    again = folder / "again"
    call(str(SURVEY), str(again), "--fields", "3", "--speed", "4", folder=folder)
    assert (again / "survey.mf").read_text() == (folder / "survey.mf").read_text()
    assert set(read(folder / "survey.mf").categories) == {
        "fetch",
        "calibrate",
        "search",
        "fit",
        "merge",
        "plot",
        "report",
    }
