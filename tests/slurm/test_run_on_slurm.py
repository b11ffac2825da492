"""Runs on a real Slurm come to their end, whatever happens on the way, and their journals tell what it was."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.run.cli_runs import kill
from tests.slurm.cluster import SlurmCluster
from tests.slurm.flows import Does, SlurmPlace, gate, layered, natives
from tonnage.jobs import Amounts, Outcome, Resource

MIXED = [Does(0.2), Does(0.1, 30), Does(0.1, 60)]
EIGHT = [40, 40, 40, 40, 40, 40, 40, 15]
HUNGRY = Does(2, 60, category="hungry", request=Amounts.of(memory=15e6))
SLOW = Does(3, category="slow", request=Amounts.of(wall_time=2.0))
GATES = ["lost", "cancelled", "away"]
SlurmWith = Callable[..., SlurmCluster]


def under_fire(place: SlurmPlace) -> None:
    """Write a workflow of 300 tasks in eight levels, some of which wait until they are let go."""
    place.flow([*map(gate, GATES), ("hungry", [], HUNGRY), ("slow", [], SLOW), *layered(EIGHT, MIXED)])


def check_growth(place: SlurmPlace) -> None:
    """Check that those tasks got more of what they lacked, in place where that is possible, and of nothing else."""
    for task, resource in (("hungry", Resource.MEMORY), ("slow", Resource.WALL_TIME)):
        # Their first attempts may have been on the node or in the batch job that was lost on purpose. What such an
        # attempt had grown to, the next one has from its start.
        rows = [row for row in place.rows() if row.task == task]
        if resource is Resource.MEMORY and any((row.grew_to or 0.0) >= 60e6 for row in rows):
            continue
        own_ends = Outcome.DONE, Outcome.EXHAUSTED
        first, *_, last = [row for row in rows if row.outcome in own_ends] * 2
        assert (first.outcome, first.exhausted) == (Outcome.EXHAUSTED, resource), place.rows()
        assert getattr(last.allocated, resource) > getattr(first.allocated, resource), (first, last)


def test_tasks_that_are_batch_jobs_of_their_own(clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    place = SlurmPlace(tmp_path / "w", clear_slurm)
    under_fire(place)
    with place.begin("run") as engine:
        place.when(lambda: all(map(place.node_of, GATES)) and len(place.done()) > 20, "gates wait", engine)
        clear_slurm.stop_controller()
        time.sleep(2)
        clear_slurm.start_controller()
        dead = str(place.node_of("lost"))
        clear_slurm.kill_node(dead, noticed=True)
        place.let_go("lost")
        place.when(lambda: all(place.node_of(name) != dead for name in GATES), "lost tasks run again", engine)
        clear_slurm.drain(next(name for name in clear_slurm.nodes if name != dead))
        kill(engine.pid)
    place.let_go("away")
    place.when((place.folder / "out" / "away").exists, "a task ends while nobody looks")
    with place.begin("run") as engine:
        place.when(lambda: "away" in place.done() and len(place.done()) > 100, "results are taken in", engine)
        place.cancel("cancelled")
        place.ends(engine, 1)
    assert place.outcomes()["cancelled"][-1] == "cancelled"
    assert len(place.done()) == len(place.workflow) - 1
    place.let_go("cancelled")
    said = place.call("run")
    assert said.status == 0, said
    for name in clear_slurm.nodes:
        if clear_slurm.states()[name] == "drained":
            clear_slurm.resume(name)
    clear_slurm.start_node(dead)
    place.check_all()
    check_growth(place)
    assert place.check_requests() > 300
    lost = next(row for row in place.rows() if row.task == "lost")
    assert lost.outcome is Outcome.LOST
    assert "node" in lost.note


def test_tasks_that_travel_together(clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    place = SlurmPlace(tmp_path / "w", clear_slurm)
    under_fire(place)
    with place.begin("run", "--pack", "glume") as engine:
        place.when(lambda: all(map(place.node_of, GATES)) and len(place.done()) > 20, "gates wait", engine)
        clear_slurm.stop_controller()
        time.sleep(2)
        clear_slurm.start_controller()
        dead = str(place.node_of("lost"))
        clear_slurm.kill_node(dead, noticed=True)
        place.let_go("lost")
        place.when(lambda: all(place.node_of(name) != dead for name in GATES), "lost tasks run again", engine)
        kill(engine.pid)
    place.let_go("away")
    place.when((place.folder / "out" / "away").exists, "a task ends while nobody looks")
    with place.begin("run", "--pack", "glume") as engine:
        place.when(lambda: "away" in place.done(), "results are taken in", engine)
        clear_slurm.command("scancel", *natives(place.jobs()))
        place.let_go("cancelled")
        place.ends(engine)
    clear_slurm.start_node(dead)
    place.check_all()
    check_growth(place)


@pytest.mark.parametrize("pack", ["per-task", "one-job"])
def test_the_account_of_the_environment_pays_unless_an_option_names_another(
    clear_slurm: SlurmCluster, tmp_path: Path, pack: str
) -> None:
    place = SlurmPlace(tmp_path / "w", clear_slurm)
    place.environment |= {"SBATCH_ACCOUNT": "lab", "SBATCH_TIMELIMIT": "7", "SBATCH_PARTITION": "main"}
    place.flow([("a", [], Does(0, more="echo $SBATCH_ACCOUNT > account"))])
    for words, account in (((), "lab"), (("--account=other", "--new"), "other")):
        said = place.call("run", "--pack", pack, *words)
        assert said.status == 0, said
        show = ("scontrol", "--oneliner", "show", "job", str(place.jobs()[0].native))
        job = dict(word.partition("=")[::2] for word in clear_slurm.command(*show).split())
        assert (job["Account"], job["Partition"]) == (account, "main")
        assert job["TimeLimit"] != "00:07:00"
        assert (place.folder / "account").read_text() == "lab\n"  # for tasks that call sbatch themselves


def test_tasks_that_ask_for_gpus_get_them_and_others_do_not(slurm_with: SlurmWith, tmp_path: Path) -> None:
    place = SlurmPlace(tmp_path / "w", slurm_with(nodes=1, gpus=2))
    asks, not_asks = Does(0, more="test $CUDA_VISIBLE_DEVICES = 0,1", gpus=2), Does(0, more="test -z $SLURM_JOB_GPUS")
    place.flow([("a", [], asks), ("b", ["a"], not_asks)])
    said = place.call("run")
    assert said.status == 0, said


def test_a_cluster_without_gpus_says_so(clear_slurm: SlurmCluster, tmp_path: Path) -> None:
    place = SlurmPlace(tmp_path / "w", clear_slurm)
    place.flow([("a", [], Does(0, gpus=1))])
    said = place.call("run")
    assert said.status == 1, said
    assert "Invalid generic resource (gres) specification" in said.stderr, said
