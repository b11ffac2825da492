"""A run on Slurm whose workflow or place changes: what was begun before never counts for what it is not."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.run.cli_runs import Begun
from tests.slurm.cluster import SlurmCluster
from tests.slurm.flows import Does, SlurmPlace, gate
from tonnage.jobs import Amounts, Outcome

SIZE = Amounts.of(cores=4.0)  # so that eight run on the shared cluster, and others wait
soak = pytest.mark.skipif(not os.environ.get("TONNAGE_SOAK"), reason="takes a minute: make soak")


@pytest.fixture
def place(clear_slurm: SlurmCluster, tmp_path: Path) -> SlurmPlace:
    return SlurmPlace(tmp_path / "w", clear_slurm)


def close_nodes(cluster: SlurmCluster) -> None:
    for node in cluster.nodes:
        cluster.drain(node)


def open_nodes(cluster: SlurmCluster) -> None:
    for node, state in cluster.states().items():
        if "drain" in state.lower():
            cluster.resume(node)


@pytest.mark.parametrize("pack", ["per-task", pytest.param("one-job", marks=soak)])
def test_a_task_that_changes_while_its_batch_job_runs_is_run_again(pack: str, place: SlurmPlace) -> None:
    name, parents, does = gate("a", SIZE)
    place.flow([(name, parents, does), ("b", ["a"], Does())])
    with place.begin("run", "--pack", pack) as engine:
        place.when(lambda: "RUNNING" in place.queued().values(), "it runs", engine)
        engine.kill()
        engine.wait()
    place.flow([(name, parents, replace(does, more="echo new > version")), ("b", ["a"], Does())])
    refused = place.call("run", "--pack", pack)
    assert refused.status == 2
    assert "tonnage stop" in refused.stderr
    beside = place.call("run", "--pack", pack, "--new")
    assert beside.status == 2
    assert "write the same files" in beside.stderr
    assert "1 batch job cancelled" in place.call("stop", "last").stdout
    place.when(lambda: not place.queued(), "it is cancelled")
    assert place.call("run", "--pack", pack).status == 0
    assert (place.folder / "version").read_text() == "new\n"
    assert [row.outcome for row in place.rows() if row.task == "a"] == [Outcome.LOST, Outcome.DONE]


def test_with_fail_fast_the_first_failure_cancels_what_waits(place: SlurmPlace) -> None:
    names = [f"g{number}" for number in range(8)]
    fails: tuple[str, list[str], Does] = ("fails", [], Does(0.1, more="exit 3", request=SIZE, category="fails"))
    place.flow([*(gate(name, SIZE) for name in names[:7]), fails, *(gate(name, SIZE) for name in ["late1", "late2"])])
    with place.begin("run", "--fail-fast", "--rank", "fifo") as engine:
        place.when(lambda: list(place.queued().values()) == ["RUNNING"] * len(place.queued()), "none waits", engine)
        place.let_go(*names, "late1", "late2")
        place.ends(engine, 1)
    ends = [row.outcome for row in place.rows()]
    assert ends.count(Outcome.FAILED) == 1
    assert len(place.done()) < 10


@pytest.mark.parametrize("pack", ["per-task", "one-job"])
def test_status_tells_pending_batch_jobs_from_running_ones(pack: str, place: SlurmPlace) -> None:
    def counts() -> tuple[int, int, int]:
        found = place.call("status", "--json").facts["counts"]
        assert isinstance(found, dict)
        return found["running"], found["queued"], found["waiting"]

    carried = 0 if pack == "per-task" else 1  # tasks that wait for others travel with them
    place.flow([gate("a", SIZE), gate("b", SIZE), ("c", ["a", "b"], Does())])
    everything = ("--parsable", f"--nodes={len(place.cluster.nodes)}", "--exclusive", "--output=/dev/null")
    other = place.cluster.command("sbatch", *everything, "--wrap=sleep 600").strip()
    place.when(lambda: place.queued()[other] == "RUNNING", "another job has all nodes")
    with place.begin("run", "--pack", pack) as engine:
        place.when(lambda: "PENDING" in place.queued().values(), "they wait", engine)
        place.when(lambda: counts() == (0, 2 + carried, 1 - carried), "status says so", engine)
        place.cluster.command("scancel", other)
        place.when(lambda: counts() == (2, 0, 1), "status says that they run", engine)
        place.let_go("a", "b")
        place.ends(engine)


def test_waits_in_the_queue_count(place: SlurmPlace) -> None:
    place.flow([gate("a", SIZE)])
    close_nodes(place.cluster)
    try:
        with place.begin("run", "--json") as engine:
            place.when(lambda: "PENDING" in place.queued().values(), "it waits", engine)
            place.when(lambda: place.jobs()[0].submitted + 3 < time.time(), "for three seconds", engine)
            open_nodes(place.cluster)
            place.let_go("a")
            place.ends(engine, 0)
    finally:
        open_nodes(place.cluster)
    (row,) = place.rows()
    assert row.submitted is not None
    assert row.started - row.submitted >= 3
    assert row.host in place.cluster.nodes


@soak
@pytest.mark.parametrize("pack", ["per-task", "one-job"])
def test_where_nodes_cannot_start_python_it_ends_with_a_reason(pack: str, place: SlurmPlace) -> None:
    python = place.folder / "python"
    python.symlink_to(Path(sys.executable).resolve())
    place.environment["PYTHONPATH"] = ":".join(path for path in sys.path if path)
    place.flow([(f"t{number}", [], Does()) for number in range(25)])
    close_nodes(place.cluster)
    words = [str(python), *place.words("run", "--pack", pack)[1:]]
    pipe = subprocess.PIPE
    with Begun(words, cwd=place.folder, env=place.environment, stdout=pipe, stderr=pipe, text=True) as engine:
        place.when((place.folder / ".tonnage").exists, "it begins", engine)
        if pack == "per-task":
            place.when(lambda: bool(place.queued()), "it is submitted", engine)
        python.unlink()
        open_nodes(place.cluster)
        said = place.ends(engine, 1)
    assert "not found" in said
    assert "file system that is shared" in said
