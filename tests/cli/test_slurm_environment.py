"""Which account pays, and which partition and QOS are used: what the user says, else what the environment says."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine

_VARIABLES = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_EXPORT", "SBATCH_TIMELIMIT")
RUN = ("run", "flow.json", "--on", "slurm", "--dry-run")
PACK = ("pack", "flow.json", "--queue", "slurm", "--strategy", "one-job", "--dry-run")


@pytest.fixture
def call(slurm_programs: Path, command_line: CommandLine) -> Call:
    """The command line in a folder with a workflow, on a cluster that is only asked about."""
    (slurm_programs / "flow.json").write_text(
        '{"name": "flow", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": ['
        '{"name": "a", "id": "a", "parents": [], "children": []}], "files": []},'
        '"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 5, "command": {"program": "true"}}]}}}'
    )
    return partial(command_line, status=None)


def submitted(call: Call, *words: str) -> dict[str, str]:
    """Return the options of the scripts that a dry run prints."""
    said = call(*words)
    assert said.status == 0, said
    return dict(re.findall(r"^#SBATCH --(account|partition|qos|export|time)=(\S+)$", said.stdout, re.M))


@pytest.mark.parametrize("words", [RUN, PACK], ids=["run", "pack"])
def test_the_environment_says_who_pays_and_where(
    words: tuple[str, ...], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(_VARIABLES, ("lab", "short", "high", "NONE", "7"), strict=True):
        monkeypatch.setenv(name, value)
    options = submitted(call, *words)
    assert (options["account"], options["partition"], options["qos"]) == ("lab", "short", "high")
    assert options["export"] == "ALL"
    assert options["time"] != "7"


def test_the_limits_are_those_of_the_partition_that_the_environment_names(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submitted(call, *RUN)["time"] == "UNLIMITED"
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    assert submitted(call, *RUN)["time"] == "60"


@pytest.mark.parametrize("words", [RUN, PACK], ids=["run", "pack"])
def test_options_beat_the_environment(words: tuple[str, ...], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES[:3]:
        monkeypatch.setenv(name, "other")
    options = submitted(call, *words, "--account=lab", "--partition=short", "--qos=high")
    assert (options["account"], options["partition"], options["qos"]) == ("lab", "short", "high")


def test_variables_that_are_empty_say_nothing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES[:3]:
        monkeypatch.setenv(name, "")
    assert submitted(call, *RUN).keys().isdisjoint({"account", "partition", "qos"})


def test_rights_are_checked_for_what_the_environment_says(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "guest")
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    said = call(*RUN)
    assert said.status == 2
    assert "SBATCH_ACCOUNT" in said.stderr
    assert "the account guest may not use the partition short" in said.stderr


def test_what_runs_here_does_not_care_for_slurms_variables(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "lab")
    said = call("run", "flow.json", "--dry-run")
    assert said.status == 0
    assert "SBATCH" not in said.stderr
