"""A cluster is not flooded: however many tasks there are, its controller is asked and told little."""

import os
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.flows import Does, SlurmPlace
from tonnage.jobs import Amounts

SOAK = bool(os.environ.get("TONNAGE_SOAK"))


def sized(count: int, sizes: int) -> list[tuple[str, list[str], Does]]:
    """Return tasks that do nothing and ask for amounts of memory of so many kinds."""
    kinds = [Does(0, category=f"kind{one}", request=Amounts.of(memory=(10 + 5 * one) * 1e6)) for one in range(sizes)]
    return [(f"t{number}", [], kinds[number % sizes]) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        pytest.param(200, 20, id="many kinds"),
        pytest.param(400, 1, id="alike", marks=pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")),
        pytest.param(2000, 1, id="many alike", marks=pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")),
        pytest.param(2000, 40, id="many", marks=pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")),
    ],
)
def test_few_commands_are_enough(count: int, sizes: int, clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    place = SlurmPlace(tmp_path / "w", clear_slurm)
    place.flow(sized(count, sizes))
    commands = place.count_commands(tmp_path / "bin")
    said = place.call("run", timeout=900)
    assert said.status == 0, said
    print(commands.check_rate(), {one: len(commands.named(one)) for one in ("sbatch", "squeue")})  # noqa: T201 (for -s)
    place.check_all()
