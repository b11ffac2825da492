"""Which account pays, and which partition and QOS are used: what the user says, else what the environment says."""

import re
from pathlib import Path

import pytest

from tonnage.cli import run

_VARIABLES = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_EXPORT", "SBATCH_TIMELIMIT")
_SCONTROL = """#!/bin/sh
case $* in
*config*) echo AccountingStorageType = accounting_storage/none; echo MaxArraySize = 1001;;
*partition*)
    echo PartitionName=main Default=YES State=UP Nodes=n1 MaxTime=UNLIMITED
    echo PartitionName=short State=UP Nodes=n1 MaxTime=01:00:00 DenyAccounts=guest;;
*node*) echo NodeName=n1 CPUTot=4 CPUEfctv=4 RealMemory=8000 State=IDLE;;
esac
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workflow, on a cluster that is only asked about."""
    programs = {"scontrol": _SCONTROL, "squeue": "#!/bin/sh\n", "sbatch": "#!/bin/sh\n"}
    for name, text in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("TONNAGE_ARCHIVE", str(tmp_path / "archive.db"))
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.json").write_text(
        '{"name": "flow", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": ['
        '{"name": "a", "id": "a", "parents": [], "children": []}], "files": []},'
        '"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 5, "command": {"program": "true"}}]}}}'
    )
    return tmp_path


def submitted(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the options of the scripts that a dry run prints."""
    assert run(words) == 0, capsys.readouterr().err
    return dict(re.findall(r"^#SBATCH --(account|partition|qos|export|time)=(\S+)$", capsys.readouterr().out, re.M))


RUN = ["run", "flow.json", "--on", "slurm", "--dry-run"]
PACK = ["pack", "flow.json", "--queue", "slurm", "--strategy", "one-job", "--dry-run"]


@pytest.mark.parametrize("words", [RUN, PACK], ids=["run", "pack"])
@pytest.mark.usefixtures("place")
def test_the_environment_says_who_pays_and_where(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in zip(_VARIABLES, ("lab", "short", "high", "NONE", "7"), strict=True):
        monkeypatch.setenv(name, value)
    options = submitted(words, capsys)
    assert (options["account"], options["partition"], options["qos"]) == ("lab", "short", "high")
    assert options["export"] == "ALL"
    assert options["time"] != "7"


@pytest.mark.usefixtures("place")
def test_the_limits_are_those_of_the_partition_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submitted(RUN, capsys)["time"] == "UNLIMITED"
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    assert submitted(RUN, capsys)["time"] == "60"


@pytest.mark.parametrize("words", [RUN, PACK], ids=["run", "pack"])
@pytest.mark.usefixtures("place")
def test_options_beat_the_environment(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in _VARIABLES[:3]:
        monkeypatch.setenv(name, "other")
    options = submitted([*words, "--account=lab", "--partition=short", "--qos=high"], capsys)
    assert (options["account"], options["partition"], options["qos"]) == ("lab", "short", "high")


@pytest.mark.usefixtures("place")
def test_variables_that_are_empty_say_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in _VARIABLES[:3]:
        monkeypatch.setenv(name, "")
    assert submitted(RUN, capsys).keys().isdisjoint({"account", "partition", "qos"})


@pytest.mark.usefixtures("place")
def test_rights_are_checked_for_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "guest")
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    assert run(RUN) == 2
    said = capsys.readouterr().err
    assert "SBATCH_ACCOUNT" in said
    assert "the account guest may not use the partition short" in said


@pytest.mark.usefixtures("place")
def test_what_runs_here_does_not_care_for_slurms_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "lab")
    assert run(["run", "flow.json", "--dry-run"]) == 0
    assert "SBATCH" not in capsys.readouterr().err
