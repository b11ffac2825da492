"""The page about clusters is true: its commands work on one."""

from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.test_docs import TOP, commands, run


def test_the_commands_of_the_page_work_one_after_the_other(
    clear_slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in clear_slurm.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "examples").symlink_to(TOP / "examples")
    for command in commands(TOP / "docs" / "slurm.md"):
        run(["bash", "-c", command], tmp_path)
