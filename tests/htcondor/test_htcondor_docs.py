"""The page about pools is true: its commands work on one (a stand-in)."""

from pathlib import Path

import pytest

from tests.htcondor.pool import Pool
from tests.test_docs import TOP, commands, run


def test_the_commands_of_the_page_work_one_after_the_other(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", pool.environment()["PATH"])
    (tmp_path / "examples").symlink_to(TOP / "examples")
    for command in commands(TOP / "docs" / "htcondor.md"):
        run(["bash", "-c", command], tmp_path)
