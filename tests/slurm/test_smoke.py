"""One small run on a real Slurm, tasks alone and together; everything else on clusters is for `make test-all`."""

from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.flows import Does, SlurmPlace
from tonnage.jobs import Outcome


@pytest.mark.parametrize("pack", ["per-task", "one-job"])
def test_a_small_workflow_runs_on_slurm(pack: str, clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    place = SlurmPlace(tmp_path / "w", clear_slurm)
    place.flow([("a", [], Does()), ("b", [], Does()), ("c", ["a", "b"], Does())])
    said = place.call("run", "--pack", pack)
    assert said.status == 0, said
    place.check_all()
    assert {row.outcome for row in place.rows()} == {Outcome.DONE}
