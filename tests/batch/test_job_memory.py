"""The memory of the batch job in which a run takes place."""

import os
from pathlib import Path

import pytest

from tonnage.batch.registry import SCHEDULERS, BatchSystem
from tonnage.lazy import Deferred
from tonnage.run.this_machine import this_machine


@pytest.mark.parametrize("variable", ["SLURM_MEM_PER_NODE", "OTHER_MEM"])
def test_a_batch_system_may_say_how_much_memory_its_job_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr("tonnage.run.this_machine._limited", tuple)  # no control group limits it
    other = BatchSystem(
        "Other", Deferred("nowhere:connect"), job_memory=Deferred("tests.batch.test_job_memory:other_memory")
    )
    monkeypatch.setitem(SCHEDULERS, "other", other)
    monkeypatch.setenv(variable, "100")
    assert 90e6 < this_machine(tmp_path).memory < 105e6


def other_memory() -> float:
    """What the batch job has on a batch system that nothing else knows."""
    return float(os.environ.get("OTHER_MEM", "inf")) * 1e6
