"""Every fault by itself, under every way to pack, for longer: `make soak`."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.run.cli_runs import kill
from tests.slurm.accounting import ACCOUNT
from tests.slurm.cluster import SlurmCluster
from tests.slurm.flows import Does, SlurmPlace, gate, layered, natives
from tonnage.jobs import Amounts, Outcome, Resource
from tonnage.run.batch_jobs import BatchJob

SlurmWith = Callable[..., SlurmCluster]
SOAK = bool(os.environ.get("TONNAGE_SOAK"))
soak = pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")
EVERY = ["per-task", "one-job", "level-by-level", "zhang", "zhang-improved", "glume", "auto"]
MIXED = [Does(0.2), Does(0.1, 30), Does(0.1, 60)]
EIGHT = [40, 40, 40, 40, 40, 40, 40, 20]
SMALL = [12, 12, 12, 12]


@pytest.fixture
def place(clear_slurm: SlurmCluster, tmp_path: Path) -> SlurmPlace:
    return SlurmPlace(tmp_path / "w", clear_slurm)


@soak
@pytest.mark.parametrize("pack", EVERY)
def test_three_hundred_tasks_in_eight_levels(pack: str, place: SlurmPlace) -> None:
    place.flow(layered(EIGHT, MIXED))
    said = place.call("run", "--pack", pack)
    assert said.status == 0, said
    place.check_all()
    if pack == "per-task":
        assert place.check_requests() >= 300


Fault = Callable[[SlurmPlace, str], None]


def restart(place: SlurmPlace, _: str) -> None:
    place.cluster.stop_controller()
    time.sleep(4)
    place.cluster.start_controller()


def kill_node(place: SlurmPlace, node: str) -> None:
    """Let a node die as machines do; the controller finds out by itself."""
    place.cluster.kill_node(node)


def drain(place: SlurmPlace, node: str) -> None:
    place.cluster.drain(node)


def cancel_packed(place: SlurmPlace, _: str) -> None:
    packed = [job for job in place.jobs() if job.packed]
    if packed:
        place.cluster.command("scancel", *natives(packed))


@soak
@pytest.mark.parametrize("pack", ["per-task", "level-by-level", "glume"])
@pytest.mark.parametrize("fault", [restart, kill_node, drain, cancel_packed])
def test_one_fault_is_survived_without_help(fault: Fault, pack: str, place: SlurmPlace) -> None:
    place.flow([gate("held"), *layered(SMALL, MIXED)])
    with place.begin("run", "--pack", pack) as engine:
        place.when(lambda: place.node_of("held") is not None and len(place.done()) > 3, "some are done", engine)
        node = str(place.node_of("held"))
        try:
            fault(place, node)
            place.let_go("held")
            place.ends(engine)
        finally:
            for name, state in place.cluster.states().items():
                if state.startswith("drain"):
                    place.cluster.resume(name)
            if fault is kill_node:
                place.cluster.start_node(node)
    place.check_all()


@soak
@pytest.mark.parametrize("pack", ["per-task", "level-by-level", "glume"])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_task_is_done_once_though_the_engine_is_killed_ten_times(pack: str, seed: int, place: SlurmPlace) -> None:
    random = Random(seed)
    place.flow([gate("held"), *layered([20, 20, 20, 20], [Does(0.3), Does(0.2, 30)], seed)])
    for _ in range(10):
        enough = min(80, len(place.done()) + random.randint(0, 8))
        with place.begin("run", "--pack", pack) as engine:
            while engine.poll() is None and len(place.done()) < enough:
                time.sleep(random.uniform(0.02, 0.3))
            time.sleep(random.uniform(0, 1.5))
            assert engine.poll() is None
            kill(engine.pid)
    place.let_go("held")
    said = place.call("run", "--pack", pack)
    assert said.status == 0, said
    place.check_all()
    assert {row.outcome for row in place.rows()} <= {Outcome.DONE, Outcome.EXHAUSTED, Outcome.LOST}


@soak
def test_slurm_itself_ends_a_task_after_a_minute_and_it_gets_more(place: SlurmPlace) -> None:
    """Sixty seconds are over for Slurm, which counts from the start of the batch job, before they are for us."""
    place.flow([("long", [], Does(85, category="long", request=Amounts.of(wall_time=60.0)))])
    said = place.call("run")
    assert said.status == 0, said
    first, *_, last = place.rows()
    assert (first.outcome, first.exhausted) == (Outcome.EXHAUSTED, Resource.WALL_TIME)
    assert (last.allocated.wall_time or 0) >= 120
    place.check_all()


@soak
def test_where_slurm_ends_jobs_for_their_memory_they_get_more(slurm_with: SlurmWith, tmp_path: Path) -> None:
    """OverMemoryKill counts our monitor, too: whoever is first, the task grows."""
    options = {"JobAcctGatherParams": "OverMemoryKill", "JobAcctGatherFrequency": "task=1"}
    place = SlurmPlace(tmp_path / "w", slurm_with(nodes=2, options=options))
    held = "python3 -c 'import time; held = bytearray(150 << 20); time.sleep(3)'"
    place.flow([("big", [], Does(0.1, more=held, category="big", request=Amounts.of(memory=20e6)))])
    said = place.call("run")
    assert said.status == 0, said
    first, *_, last = place.rows()
    assert (first.outcome, first.exhausted) == (Outcome.EXHAUSTED, Resource.MEMORY)
    assert last.outcome is Outcome.DONE
    place.check_all()


def test_a_full_queue_is_waited_for_and_an_unknown_account_refused(slurm_with: SlurmWith, tmp_path: Path) -> None:
    cluster = slurm_with(nodes=2, accounting=True)
    place = SlurmPlace(tmp_path / "w", cluster)
    place.flow([("a", [], Does())])
    said = place.call("run", "--account", "nobody")
    assert (said.status, len(said.stderr.splitlines())) == (2, 2), said
    assert "account" in said.stderr
    assert not list((place.folder / ".tonnage").glob("runs/*"))
    # Somebody else's job is in the way of the last of four.
    modify = ["sacctmgr", "--immediate", "modify", "user", "root", "where", f"account={ACCOUNT}", "set"]
    cluster.command(*modify, "MaxSubmitJobs=4")
    other = cluster.command("sbatch", "--parsable", "--mem=50", "--output=/dev/null", "--wrap", "sleep 60").strip()
    place.flow([*map(gate, "wxyz"), ("last", list("wxyz"), Does())])
    with place.begin("run") as engine:
        place.when(lambda: any(not_taken(job) for job in place.jobs()), "the queue is full", engine)
        cluster.command("scancel", other)
        place.let_go(*"wxyz")
        words = place.ends(engine)
    assert "the queue accepts no more jobs at the moment" in words
    place.check_all()
    assert {row.outcome for row in place.rows()} == {Outcome.DONE}


def not_taken(job: BatchJob) -> bool:
    """Whether Slurm has not taken a batch job for some time."""
    return job.native is None and time.time() - job.submitted > 2
