"""Fake Slurm programs that print what those of a small cluster would, for tests that only query it."""

from pathlib import Path

import pytest

__all__ = ["slurm_programs"]

_VARIABLES = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_EXPORT", "SBATCH_TIMELIMIT")
_SCONTROL = """
case $* in
*config*) echo AccountingStorageType = accounting_storage/none; echo MaxArraySize = 1001;;
*partition*)
    echo PartitionName=main Default=YES State=UP Nodes=n1 MaxTime=UNLIMITED
    echo PartitionName=short State=UP Nodes=n1 MaxTime=01:00:00 DenyAccounts=guest;;
*node*) echo NodeName=n1 CPUTot=4 CPUEfctv=4 RealMemory=8000 State=IDLE;;
esac
"""


@pytest.fixture
def slurm_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with its own archive; sbatch and squeue print nothing."""
    for name, text in {"scontrol": _SCONTROL, "squeue": "", "sbatch": ""}.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("TONNAGE_ARCHIVE", str(tmp_path / "archive.db"))
    for variable in _VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path
