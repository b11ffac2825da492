"""The messages of sbatch are interpreted correctly."""

import pytest

from tonnage.batch.slurm.messages import parse_wait


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("Job 1 to start at 1060 using 2 processors on nodes n[1-2] in partition main", 60.0),
        ("Job 1 to start at 990 using 2 processors on nodes n1 in partition main", 0.0),
        ("Job 1 to start at 1060 (a) using 1 processors on nodes n1 in partition main", 60.0),
        ("Job 12 to start at 17900976207 using 2 processors on nodes n[1-2] in partition main", None),
        ("Job 12 to start at 2026-11-15T21:16:33 using 2 processors", None),
        ("", None),
    ],
)
def test_when_a_job_would_start(said: str, wait: float | None) -> None:
    assert parse_wait(said, 1000.0) == wait
