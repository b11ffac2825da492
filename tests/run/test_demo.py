"""The survey that ``make demo`` runs, in small: real processes, run twice, the second time with what was learnt."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.warm import Warm
from tonnage.workflow import read

SURVEY = Path(__file__).resolve().parents[2] / "examples" / "survey" / "survey.py"


def survey(folder: Path, fields: int) -> Path:
    """Write a survey of some fields of the sky, of 25 tasks each, and a report."""
    words = [sys.executable, str(SURVEY), str(folder), "--fields", str(fields), "--speed", "8"]
    subprocess.run(words, check=True, capture_output=True)
    return folder / "survey.mf"


def run(folder: Path) -> dict[str, Any]:
    words = ("run", "survey.mf", "--new", "--machine", "cores=8,memory=1GB", "-q", "--json")
    variables = {**os.environ, "TONNAGE_ARCHIVE": str(folder / "archive.db")}
    with Warm(*words, folder=folder, variables=variables) as process:
        return process.said().facts


@pytest.mark.parametrize("fields", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_second_run_wastes_less_and_retries_no_more(tmp_path: Path, fields: int) -> None:
    workflow = read(survey(tmp_path, fields))
    first, second = run(tmp_path), run(tmp_path)
    for result in (first, second):
        assert result["tasks"] == result["done"] == len(workflow) == 25 * fields + 1
    assert all((tmp_path / name).stat().st_size for task in workflow.tasks for name in task.outputs)
    assert waste(second) < waste(first)
    assert second["retried"] <= first["retried"]


def waste(result: dict[str, Any]) -> float:
    wasted: float = result["waste_fraction"]["memory"]
    return wasted


def test_the_same_survey_is_written_each_time(tmp_path: Path) -> None:
    one, again = (survey(tmp_path / name, 2) for name in ("one", "again"))
    assert one.read_text() == again.read_text()
    assert set(read(one).categories) == {"fetch", "calibrate", "search", "fit", "merge", "plot", "report"}
