"""A node of a real Slurm that breaks tasks is avoided and named, and costs none of them."""

import re
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.flows import Does, SlurmPlace
from tonnage.jobs import Amounts, Outcome


@pytest.mark.parametrize("pack", ["per-task", "one-job"])
def test_a_node_that_breaks_every_task_costs_none_of_them(pack: str, clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    place = SlurmPlace(tmp_path / "w", clear_slurm)
    broken = sorted(clear_slurm.nodes)[1]
    # Tasks take half a node, so that both a broken and a working one get some of the first.
    breaks = Does(0.5, more=f"test $SLURMD_NODENAME != {broken}", request=Amounts.of(cores=2), category="align")
    place.flow((f"t{number}", [], breaks) for number in range(30))
    said = place.call("run", "--pack", pack, "--retries", "1")
    assert said.status == 0, said
    place.check_all()
    failed = [row for row in place.rows() if row.outcome is Outcome.FAILED]
    assert {row.host for row in failed} == {broken}
    scripts = [path.read_text() for path in place.runs()[0].batches.glob("*/script")]
    assert any(f"--exclude={broken}\n" in script for script in scripts) == (pack == "per-task")
    named = rf"\d+ tasks failed on node {broken} \(exit status 1\), but not on other nodes"
    assert re.search(f"{named}: it is avoided for 1h", said.stderr), said
    assert re.search(f"{named}: it was avoided", said.stdout), said
    assert re.search(f"{named}: it is avoided for another", place.call("status").stdout)
    assert [one["node"] for one in place.call("status", "--json").facts["bad_nodes"]] == [broken]
    advice = place.call("report", "--json").facts["advice"]
    assert any(re.match(named, one["text"]) for one in advice)
